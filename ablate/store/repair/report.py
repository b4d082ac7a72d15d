"""The report of a repair: the findings in a results folder and what was, or would be, done. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

Severity: TypeAlias = Literal["harmless", "repaired", "lost"]
Kind: TypeAlias = Literal[
    "torn", "damaged line", "unknown line", "segment", "outcome", "sealed", "unlisted", "checkpoint", "specification",
    "leftover", "database", "worker", "killed", "clock", "space", "kept", "mirror", "request", "verdicts", "corpus",
    "question",
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

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "what": self.what,
            "where": str(self.where),
            "line": self.line,
            "remedy": self.remedy,
            "changes": list(map(str, self.changes)),
        }


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
        return 1 if left or any(finding.severity == "lost" for finding in self.findings) else 0

    @property
    def to_repair(self) -> tuple[Finding, ...]:
        """The findings that are not harmless."""
        return tuple(finding for finding in self.findings if finding.severity != "harmless")

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "folder": str(self.folder),
            "holder": self.holder,
            "repaired": self.done,
            "looked_at": dict(self.looked_at),
            "found": [finding.document() for finding in self.findings],
            "left": [finding.document() for finding in self.left],
        }
