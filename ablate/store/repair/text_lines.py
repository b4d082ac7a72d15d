"""Lines of a file of lines that are torn, damaged, or of a newer version."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ablate.store import checksummed_lines
from ablate.store.checksummed_lines import Reading
from ablate.store.durable import DAMAGED, copy_aside, write_whole
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding, Severity

WORDS = {
    "plan", "trial", "ended", "forgotten", "judged", "run", "paces", "begin", "row", "timing", "checkpoint", "outcome",
    "question", "seen",
}  # fmt: skip
"""What a line of the journal may begin with."""


def broken(content: Reading) -> tuple[tuple[int, ...], int]:
    """The numbers of complete lines that are damaged, and the bytes there are of a last one that is not complete."""
    return (*content.damaged, *content.behind), content.rest


def torn(path: Path, content: Reading) -> Iterator[Fault]:
    """A last line that is not complete, so that the next one is not written behind it."""
    _, count = broken(content)
    if count:
        what = f"ends in the middle of a line ({count} bytes)"
        yield Fault((Finding("torn", "repaired", what, path, "cut off", changes=(path,)),), partial(_cut_tail, path))


def joined(folder: Path, path: Path, content: Reading) -> Iterator[Fault]:
    """Whole lines that have lost their newline: nothing of what they say is lost."""
    if content.joined:
        what, remedy = "is whole, but for its newline", "given one"
        findings = (
            Finding("torn", "repaired", what, path, remedy, number, changes=(path,)) for number in content.joined
        )
        yield Fault(tuple(findings), partial(_part, folder, path))


def damaged(folder: Path, path: Path, content: Reading, severity: Severity, then: str) -> Iterator[Fault]:
    """Complete lines whose checksum is wrong; `then` says what becomes of what they said."""
    numbers, _ = broken(content)
    if numbers:
        remedy = f"taken out, the file as it was kept in {DAMAGED}{then}"
        findings = (
            Finding("damaged line", severity, "is damaged", path, remedy, number, changes=(path,)) for number in numbers
        )
        yield Fault(tuple(findings), partial(_take_out, folder, path))


def passed_over(path: Path, content: Reading) -> str:
    """What a run tells of damaged lines, which it leaves where they are; "" where there are none."""
    numbers, _ = broken(content)
    shown = ", ".join(map(str, numbers))
    return f"{path} is damaged in line {shown}, which is passed over until `ablate doctor` takes it out" * bool(numbers)


def unknown(path: Path, content: Reading) -> Iterator[Fault]:
    """Lines of a kind that a newer version has; they are left as they are."""
    count = sum(body[2:].partition(b'"')[0].decode() not in WORDS for body in content.bodies)
    if count and not path.name.startswith("mlflow"):
        what = f"has {count} lines of a kind that this version does not know"
        yield Fault((Finding("unknown line", "harmless", what, path, "left as they are"),))


def _cut_tail(path: Path) -> str:
    if not (count := checksummed_lines.read(path).rest):
        return ""
    checksummed_lines.cut(path, path.stat().st_size - count)
    checksummed_lines.end_last(path)
    return f"{path} ends in the middle of a line; {count} bytes are cut off"


def _part(folder: Path, path: Path) -> str:
    """Give whole lines their newlines; the file as it was is kept where more than the last one is lost."""
    content = checksummed_lines.read(path)
    if len(set(content.numbers)) < len(content.numbers):
        _take_out(folder, path)
    elif content.joined:
        checksummed_lines.end_last(path)
    return ""


def _take_out(folder: Path, path: Path) -> str:
    """Write the file anew without its damaged lines."""
    copy_aside(folder, path)
    write_whole(path, b"".join(map(checksummed_lines.framed, checksummed_lines.read(path).bodies)))
    return ""
