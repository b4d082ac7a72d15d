"""The report of a repair: what was found in a results folder and what was, or would be, done. Plain values."""

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
"""What looks like this while a run is writing may only be unfinished."""

TRAINED_AGAIN: tuple[Kind, ...] = ("sealed",)
"""Of what is lost, what the next run that asks for it trains again; everything else lost is a record about trials."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: what and where, how bad, and what is done about it.

    `harmless` needs nothing done; `repaired` can be made good without loss, by `repair` or by the next run; `lost` was
    acknowledged once and cannot be got back; `remedy` says what follows. `line` counts from 1. `changes` are the files
    that putting it right may write, move to `damaged/` or delete; the DuckDB file is brought up to them besides.
    """

    kind: Kind
    severity: Severity
    what: str
    where: Path
    remedy: str = ""
    line: int | None = None
    changes: tuple[Path, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON."""
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
    """All that was found in a results folder, and whether it was put right.

    `holder` says who writes there now: then nothing is changed. `looked_at` counts what was read through, by noun
    (plan, row, …). `done` says whether anything was to be written at all; `left` is what a second look found after it.
    """

    folder: Path
    found: tuple[Finding, ...]
    holder: str | None
    looked_at: Mapping[str, int]
    done: bool = False
    left: tuple[Finding, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 if all is well or was made good without loss; 1 if something is lost, left to repair, or withstood it."""
        left = self.left if self.done else self.to_repair
        return 1 if left or any(finding.severity == "lost" for finding in self.found) else 0

    @property
    def to_repair(self) -> tuple[Finding, ...]:
        """What is not harmless."""
        return tuple(finding for finding in self.found if finding.severity != "harmless")

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "folder": str(self.folder),
            "holder": self.holder,
            "repaired": self.done,
            "looked_at": dict(self.looked_at),
            "found": [finding.document() for finding in self.found],
            "left": [finding.document() for finding in self.left],
        }
