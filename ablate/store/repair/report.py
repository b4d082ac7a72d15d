"""The findings in a results folder, each fault with its repair, and the report of what was, or would be, done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["harmless", "repaired", "lost"]
Kind: TypeAlias = Literal[
    "torn", "damaged line", "segment", "outcome", "sealed", "unlisted", "checkpoint", "specification", "leftover",
    "database", "worker", "killed", "clock", "space", "kept", "mirror", "request", "verdicts", "corpus", "paces",
    "source", "table", "earlier",
]  # fmt: skip

UNDER_WAY: tuple[Kind, ...] = ("torn", "outcome", "unlisted", "checkpoint", "leftover", "database", "mirror", "corpus")
"""Kinds of findings that may only be unfinished work while a run is writing."""

TRAINED_AGAIN: tuple[Kind, ...] = ("sealed",)
"""Kinds of losses that the next run that needs them trains again; every other loss is of a record about trials."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: what and where, how severe, and what is done about it.

    `harmless` needs no action; `repaired` can be repaired without loss, by `repair` or by the next run; `lost` was once
    stored and cannot be recovered; `remedy` says what follows. `line` counts from 1. `changes` are the files that the
    repair may write, move to `damaged/` or delete; the DuckDB file is also brought up to date.
    """

    kind: Kind
    severity: Severity
    what: str
    where: Path
    remedy: str = ""
    line: int | None = None
    changes: tuple[Path, ...] = ()

    def document(self) -> dict[str, object]:
        return {**asdict(self), "where": str(self.where), "changes": list(map(str, self.changes))}


Cure = Callable[[], str | None]
"""Repairs a fault in a locked folder, and returns what a run reports of it, if anything."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was written: its findings, and its cure; None where nothing is done."""

    findings: tuple[Finding, ...]
    cure: Cure | None = None


def put_right(faults: Iterable[Fault], say: Callable[[str], None]) -> None:
    """Cure all of these, in order; `say` gets what a run reports of it."""
    for fault in tuple(faults):  # all are found before the first is cured
        if fault.cure and (told := fault.cure()):
            say(told)


def named(trial_ids: Sequence[str]) -> str:
    """Name a single trial by its id, several by their number and the first."""
    return f"trial {trial_ids[0]}" if len(trial_ids) == 1 else f"{len(trial_ids)} trials ({trial_ids[0]}, …)"


@dataclass(frozen=True, slots=True)
class Repaired:
    """All findings in a results folder, and whether they were repaired.

    `holder` says who writes there now: then nothing is changed. `looked_at` counts what was read through, by noun
    (plan, row, …). `done` says whether the repair was allowed to write; `left` are the findings of a second check.
    """

    folder: Path
    findings: tuple[Finding, ...]
    holder: str | None
    looked_at: Mapping[str, int]
    done: bool = False
    left: tuple[Finding, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 if nothing is wrong or all was repaired without loss; 1 if something is lost, or remains to be repaired."""
        left = self.left if self.done else self.to_repair
        return 1 if left or self.lost else 0

    @property
    def to_repair(self) -> tuple[Finding, ...]:
        """The findings that can be repaired without loss."""
        return tuple(finding for finding in self.findings if finding.severity == "repaired")

    @property
    def lost(self) -> tuple[Finding, ...]:
        """The findings of what cannot be recovered."""
        return tuple(finding for finding in self.findings if finding.severity == "lost")

    def document(self) -> dict[str, object]:
        return {
            "folder": str(self.folder),
            "holder": self.holder,
            "repaired": self.done,
            "looked_at": dict(self.looked_at),
            "found": [finding.document() for finding in self.findings],
            "left": [finding.document() for finding in self.left],
        }
