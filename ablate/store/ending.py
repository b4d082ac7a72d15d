"""How an attempt at a trial ended: the record that is both in `outcomes.jsonl` and in the sealed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ablate.train.events import Outcome


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt at a trial ended. `digest` is the SHA-256 of its rows, clocks left out: same digest, same bits.

    `file` is the length and CRC-32 of the sealed file; None in that file itself, which cannot hold its own.
    """

    trial_id: str
    attempt: int
    outcome: Outcome
    rows: int
    digest: str
    began: float
    ended: float
    versions: Mapping[str, str]
    file: tuple[int, int] | None = None

    def document(self) -> dict[str, Any]:
        """Return the ending as JSON."""
        document = {
            "trial": self.trial_id,
            "attempt": self.attempt,
            "kind": self.outcome.kind,
            "step": self.outcome.step,
            "detail": self.outcome.detail,
            "rows": self.rows,
            "digest": self.digest,
            "began": self.began,
            "ended": self.ended,
            "versions": dict(self.versions),
        }
        return document if self.file is None else document | {"file": list(self.file)}

    @staticmethod
    def of(document: Mapping[str, Any]) -> Ending:
        """Create an ending from JSON."""
        return Ending(
            trial_id=document["trial"],
            attempt=document["attempt"],
            outcome=Outcome(document["kind"], document["step"], document["detail"]),
            rows=document["rows"],
            digest=document["digest"],
            began=document["began"],
            ended=document["ended"],
            versions=document["versions"],
            file=(document["file"][0], document["file"][1]) if "file" in document else None,
        )
