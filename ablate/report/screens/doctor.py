"""What `ablate doctor` shows: what was looked at, a line or two for each thing found, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType

from ablate.output import words
from ablate.output.terminal import Text
from ablate.store.repair.report import TRAINED_AGAIN, Finding, Kind, Repaired, Severity

STYLES: dict[Severity, str] = {"harmless": "dim", "repaired": "yellow", "lost": "bold red"}
TIDIED: tuple[Kind, ...] = ("worker",)
"""What is harmless and yet deleted by a repair."""


def screen(findings: Repaired) -> RenderableType:
    """Everything found, the worst last, and the verdict."""
    order: tuple[Severity, ...] = ("harmless", "repaired", "lost")
    found = sorted(findings.findings, key=lambda finding: order.index(finding.severity))
    counted = ", ".join(_counted(count, noun) for noun, count in findings.looked_at.items())
    lines = [Text(f"{findings.folder}: looked at {counted}", style="dim")]
    lines += [_line(finding, done=findings.done) for finding in found]
    lines += [Text(f"still so after the repair: {_where(one)} {one.what}", style="bold red") for one in findings.left]
    return Group(*lines, _verdict(findings))


def _line(finding: Finding, *, done: bool) -> Text:
    label = {"harmless": "note", "repaired": "repaired" if done else "to repair", "lost": "lost"}[finding.severity]
    text = Text.assemble((label, STYLES[finding.severity]), f": {_where(finding)} {finding.what}")
    # A repair acts on these of the harmless alone; what is said of the others is advice, or that nothing is done.
    would = "would be: " if not done and (finding.severity != "harmless" or finding.kind in TIDIED) else ""
    return text.append(f"\n  = {would}{finding.remedy}", style="dim") if finding.remedy else text


def _counted(count: int, noun: str) -> str:
    return f"{count:,}" + words.plural(count, noun).removeprefix(str(count))


def _where(finding: Finding) -> str:
    return str(finding.where) if finding.line is None else f"{finding.where}:{finding.line}"


def _verdict(findings: Repaired) -> Text:
    lost = [finding for finding in findings.findings if finding.severity == "lost"]
    mended = len(findings.to_repair) - len(lost)
    if findings.holder and findings.to_repair:
        return Text(f"nothing was changed: {findings.holder} is writing there; look again afterwards", style="yellow")
    if not findings.to_repair:
        seen = f" as far as can be seen while {findings.holder} is writing there" if findings.holder else ""
        return Text(f"all is well{seen}", style="green")
    parts = [f"{words.plural(mended, 'thing')} {'repaired' if findings.done else 'to repair'}"] if mended else []
    if lost:
        parts.append(_lost(lost))
    if not findings.done and not findings.holder:
        parts.append("nothing was changed (--look)")
    return Text("; ".join(parts), style="red" if findings.exit_code else "yellow")


def _lost(lost: Sequence[Finding]) -> str:
    """How many things are lost, and how many of them cost a training; what the others cost is with each."""
    things, trained = words.plural(len(lost), "thing"), sum(finding.kind in TRAINED_AGAIN for finding in lost)
    if not trained:
        return f"{things} lost, no result of a trial: what follows is said above"
    if trained < len(lost):
        again = "one is a result" if trained == 1 else f"{trained} are results"
        return f"{things} lost, of which {again} that the next run trains again: what else follows is said above"
    return f"{things} lost: what was trained there is trained again by the next run"
