"""What `ablate doctor` shows: what was looked at, a line or two for each thing found, and what it comes to."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ablate.report import wording
from ablate.store.findings import Finding, Findings, Severity

STYLES: dict[Severity, str] = {"harmless": "dim", "repaired": "yellow", "lost": "bold red"}


def screen(findings: Findings) -> RenderableType:
    """Everything found, the worst last, and the verdict."""
    order: tuple[Severity, ...] = ("harmless", "repaired", "lost")
    found = sorted(findings.found, key=lambda finding: order.index(finding.severity))
    counted = ", ".join(f"{count:,} {name}" for name, count in findings.looked_at.items())
    lines = [Text(f"{findings.folder}: looked at {counted}", style="dim")]
    lines += [_line(finding, done=findings.repaired) for finding in found]
    lines += [Text(f"still so after the repair: {_where(one)} {one.what}", style="bold red") for one in findings.left]
    return Group(*lines, _verdict(findings))


def _line(finding: Finding, *, done: bool) -> Text:
    label = {"harmless": "note", "repaired": "repaired" if done else "to repair", "lost": "lost"}[finding.severity]
    text = Text.assemble((label, STYLES[finding.severity]), f": {_where(finding)} {finding.what}")
    return text.append(f"\n  = {finding.remedy}", style="dim") if finding.remedy else text


def _where(finding: Finding) -> str:
    return str(finding.where) if finding.line is None else f"{finding.where}:{finding.line}"


def _verdict(findings: Findings) -> Text:
    lost = sum(finding.severity == "lost" for finding in findings.found)
    mended = len(findings.to_repair) - lost
    if findings.holder and findings.to_repair:
        return Text(f"nothing was changed: {findings.holder} is writing there; look again afterwards", style="yellow")
    if not findings.to_repair:
        return Text("all is well", style="green")
    parts = [f"{wording.plural(mended, 'thing')} {'repaired' if findings.repaired else 'to repair'}"] if mended else []
    if lost:
        parts.append(f"{wording.plural(lost, 'thing')} lost: what was trained there is trained again by the next run")
    if not findings.repaired and not findings.holder:
        parts.append("nothing was changed (--look)")
    return Text("; ".join(parts), style="red" if findings.exit_code else "yellow")
