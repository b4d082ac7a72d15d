"""The output of `ablate doctor`: what was checked, a line or two for each finding, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType

from ablate.output import words
from ablate.output.terminal import Text
from ablate.store.faults import TRAINED_AGAIN, Finding, Kind, Repaired, Severity

STYLES: dict[Severity, str] = {"harmless": "dim", "repaired": "yellow", "lost": "bold red"}
TIDIED: tuple[Kind, ...] = ("worker",)
"""Kinds of findings that are harmless, but deleted by a repair."""


def screen(findings: Repaired) -> RenderableType:
    """Return all findings, the worst last, and the verdict."""
    order: tuple[Severity, ...] = ("harmless", "repaired", "lost")
    ranked = sorted(findings.findings, key=lambda finding: order.index(finding.severity))
    counted = ", ".join(_counted(count, noun) for noun, count in findings.looked_at.items())
    lines = [Text(f"{findings.folder}: checked {counted}", style="dim")]
    lines += [_line(finding, done=findings.done) for finding in ranked]
    lines += [
        Text(f"still so after the repair: {_where(each)} {each.what}", style="bold red") for each in findings.left
    ]
    return Group(*lines, _verdict(findings))


def _line(finding: Finding, *, done: bool) -> Text:
    label = {"harmless": "note", "repaired": "repaired" if done else "to repair", "lost": "lost"}[finding.severity]
    text = Text.assemble((label, STYLES[finding.severity]), f": {_where(finding)} {finding.what}")
    # Of the harmless findings, a repair acts only on these; the remedies of the others are advice.
    would = "would be: " if not done and (finding.severity != "harmless" or finding.kind in TIDIED) else ""
    return text.append(f"\n  = {would}{finding.remedy}", style="dim") if finding.remedy else text


def _counted(count: int, noun: str) -> str:
    return f"{count:,}" + words.plural(count, noun).removeprefix(str(count))


def _where(finding: Finding) -> str:
    return str(finding.where) if finding.line is None else f"{finding.where}:{finding.line}"


def _verdict(findings: Repaired) -> Text:
    lost, repaired = findings.lost, len(findings.to_repair)
    if findings.holder and (repaired or lost):
        return Text(f"nothing was changed: {findings.holder} is writing there; look again afterwards", style="yellow")
    if not (repaired or lost):
        seen = f" as far as can be seen while {findings.holder} is writing there" if findings.holder else ""
        return Text(f"all is well{seen}", style="green")
    parts = [f"{words.plural(repaired, 'thing')} {'repaired' if findings.done else 'to repair'}"] if repaired else []
    if lost:
        parts.append(_lost(lost))
    if not findings.done and not findings.holder:
        parts.append("nothing was changed (--look)")
    return Text("; ".join(parts), style="red" if findings.exit_code else "yellow")


def _lost(lost: Sequence[Finding]) -> str:
    """Return how many things are lost, and how many of them must be trained again."""
    things, trained = words.plural(len(lost), "thing"), sum(finding.kind in TRAINED_AGAIN for finding in lost)
    if not trained:
        return f"{things} lost, but no result of a trial: see above for the consequences"
    if trained < len(lost):
        again = "one is a result" if trained == 1 else f"{trained} are results"
        return f"{things} lost, of which {again} that the next run trains again: see above for the other consequences"
    return f"{things} lost: the next run trains {'it' if len(lost) == 1 else 'them'} again"
