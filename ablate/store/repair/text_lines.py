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
"""The first words of the lines of the journal."""


def broken(content: Reading) -> tuple[tuple[int, ...], int]:
    """Return the numbers of damaged terminated lines, and the bytes of an unterminated last line."""
    return (*content.damaged, *content.behind), content.rest


def torn(path: Path, content: Reading) -> Iterator[Fault]:
    """Find an incomplete last line, which must go before the next line is appended."""
    _, count = broken(content)
    if count:
        what = f"ends in the middle of a line ({count} bytes)"
        yield Fault((Finding("torn", "repaired", what, path, "cut off", changes=(path,)),), partial(_cut_tail, path))


def joined(folder: Path, path: Path, content: Reading) -> Iterator[Fault]:
    """Find whole lines that have lost their newline, but none of their content."""
    if content.joined:
        what, remedy = "is complete except for its newline", "newline added"
        findings = (
            Finding("torn", "repaired", what, path, remedy, number, changes=(path,)) for number in content.joined
        )
        yield Fault(tuple(findings), partial(_part, folder, path))


def damaged(folder: Path, path: Path, content: Reading, severity: Severity, then: str) -> Iterator[Fault]:
    """Find terminated lines with a wrong checksum; `then` says what happens to their content."""
    numbers, _ = broken(content)
    if numbers:
        remedy = f"removed, the old file kept in {DAMAGED}{then}"
        findings = (
            Finding("damaged line", severity, "is damaged", path, remedy, number, changes=(path,)) for number in numbers
        )
        yield Fault(tuple(findings), partial(_take_out, folder, path))


def passed_over(path: Path, content: Reading) -> str:
    """Return what a run reports of damaged lines, which it leaves in place; "" where there are none."""
    numbers, _ = broken(content)
    shown = ", ".join(map(str, numbers))
    return f"{path} is damaged in line {shown}, which is skipped until `ablate doctor` removes it" * bool(numbers)


def unknown(path: Path, content: Reading) -> Iterator[Fault]:
    """Find lines of a kind of a newer version; they are left as they are."""
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
    """Add the missing newlines of whole lines; the old file is kept where more than the last one is missing."""
    content = checksummed_lines.read(path)
    if len(set(content.numbers)) < len(content.numbers):
        _take_out(folder, path)
    elif content.joined:
        checksummed_lines.end_last(path)
    return ""


def _take_out(folder: Path, path: Path) -> str:
    """Rewrite the file without its damaged lines."""
    copy_aside(folder, path)
    write_whole(path, b"".join(map(checksummed_lines.framed, checksummed_lines.read(path).bodies)))
    return ""
