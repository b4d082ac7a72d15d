"""The output of `ablate doctor`, `ablate verify` and `ablate machine`: the state of a folder, a bundle, a machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table

from ablate.output.terminal import Text
from ablate.output.words import plural
from ablate.store.faults import TRAINED_AGAIN, Finding, Kind, Repaired, Severity

if TYPE_CHECKING:
    from ablate.execute.machine import Machine

STYLES: dict[Severity, str] = {"harmless": "dim", "repaired": "yellow", "lost": "bold red"}
TIDIED: tuple[Kind, ...] = ("worker",)  # kinds of findings that are harmless, but deleted by a repair


def doctor_screen(findings: Repaired) -> RenderableType:
    order: tuple[Severity, ...] = ("harmless", "repaired", "lost")
    ranked = sorted(findings.findings, key=lambda finding: order.index(finding.severity))
    counted = ", ".join(
        f"{count:,}{plural(count, noun).removeprefix(str(count))}" for noun, count in findings.looked_at.items()
    )
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


def _where(finding: Finding) -> str:
    return str(finding.where) if finding.line is None else f"{finding.where}:{finding.line}"


def _verdict(findings: Repaired) -> Text:
    lost, repaired = findings.lost, len(findings.to_repair)
    if findings.holder and (repaired or lost):
        return Text(f"nothing was changed: {findings.holder} is writing there; look again afterwards", style="yellow")
    if not (repaired or lost):
        seen = f" as far as can be seen while {findings.holder} is writing there" if findings.holder else ""
        return Text(f"all is well{seen}", style="green")
    parts = [f"{plural(repaired, 'thing')} {'repaired' if findings.done else 'to repair'}"] if repaired else []
    if lost:
        parts.append(_lost(lost))
    if not findings.done and not findings.holder:
        parts.append("nothing was changed (--look)")
    return Text("; ".join(parts), style="red" if findings.exit_code else "yellow")


def _lost(lost: Sequence[Finding]) -> str:
    things, trained = plural(len(lost), "thing"), sum(finding.kind in TRAINED_AGAIN for finding in lost)
    if not trained:
        return f"{things} lost, but no result of a trial: see above for the consequences"
    if trained < len(lost):
        again = "one is a result" if trained == 1 else f"{trained} are results"
        return f"{things} lost, of which {again} that the next run trains again: see above for the other consequences"
    return f"{things} lost: the next run trains {'it' if len(lost) == 1 else 'them'} again"


ANSWERS = {"right": "green", "told": "yellow", "wrong": "bold red"}
ANSWER_LABELS = {"right": "right", "told": "note", "wrong": "WRONG"}


def verify_screen(checks: Sequence[Mapping[str, str]], heads: Mapping[str, str]) -> RenderableType:
    """Return all `checks` (`space`, `check`, `answer`, `what`), and the heads of the records by space."""
    ranked = sorted(checks, key=lambda check: [*ANSWERS].index(check["answer"]))
    lines = [
        Text.assemble(
            (f"{ANSWER_LABELS[check['answer']]:5}", ANSWERS[check["answer"]]),
            f"  {check['space'] + ' ' if check['space'] else ''}{check['check']}: {check['what']}",
        )
        for check in ranked
    ]
    lines += [Text(f"records of {space}: {head}", style="dim") for space, head in heads.items()]
    return Group(*lines, _verdict_of_checks(checks))


def _verdict_of_checks(checks: Sequence[Mapping[str, str]]) -> Text:
    counted = {answer: sum(check["answer"] == answer for check in checks) for answer in ANSWERS}
    if counted["wrong"]:
        return Text(f"{plural(counted['wrong'], 'thing')} wrong", style=ANSWERS["wrong"])
    left = f"; {plural(counted['told'], 'thing')} could not be decided" if counted["told"] else ""
    return Text(f"nothing is wrong{left}", style=ANSWERS["told" if left else "right"])


# This machine: devices, versions, and for each kind of attention the kernel used and why others are not.


def machine_as_json(machine: Machine) -> str:
    return json.dumps(asdict(machine), indent=2, ensure_ascii=False)


def machine_screen(machine: Machine) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(machine):
        facts.add_row(Text(name), Text(value))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for heading in ("type", "attention", "used", "also works", "does not work, and why"):
        table.add_column(heading)
    for kind, group in groupby(machine.tried, key=lambda each: (each.dtype, each.attention)):
        tried = list(group)
        works = [f"{each.kernel} ({each.operator})" if each.operator else each.kernel for each in tried if each.works]
        refused = "\n".join(each.why for each in tried if not each.works)
        first, *others = works or ["nothing"]
        table.add_row(*map(Text, (*kind, first, ", ".join(others), refused)))
    return Group(facts, Text(), table)


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    for gpu in machine.gpus or ("none",):
        yield "GPU", gpu
    yield "cores", str(machine.cores)
    for name, version in machine.versions.items():
        if name != "device":
            yield name, version
