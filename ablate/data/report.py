"""What was found in a corpus, and whether it is enough to train and judge on."""

from __future__ import annotations

from collections.abc import Iterable

from ablate.data.refusal import CorpusError, CorpusFault
from ablate.data.text import SPLITS, Skipped, Split
from ablate.source.excerpt import drawn
from ablate.space.documents import Document

DECIDE = (
    ("model", "context"),
    ("recipe", "batch"),
    ("measure", "evaluation", "windows"),
    ("data", "tuning"),
    ("data", "verdict"),
)
"""What decides, beside the corpus, whether it is enough."""
SKIPPED_SHOWN = 10
FAR_FROM_ASKED = 0.25
"""A split whose share differs from what was asked by more than this part of it gets a note."""


class SplitReport(Document):
    """One split: the share of bytes that was asked, and what it holds. Tokens count the separators."""

    asked: float
    files: int
    bytes: int
    tokens: int


class CorpusReport(Document):
    """A corpus as it stands: the same on every machine that holds the same texts (but for the title)."""

    title: str
    tokenizer: str
    fingerprint: str
    vocab_size: int
    train: SplitReport
    tuning: SplitReport
    verdict: SplitReport
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]

    def split(self, name: Split) -> SplitReport:
        """The report on one split."""
        return {"train": self.train, "tuning": self.tuning, "verdict": self.verdict}[name]

    def share(self, name: Split) -> float:
        """The share of all bytes that a split holds."""
        total = sum(self.split(each).bytes for each in SPLITS)
        return self.split(name).bytes / total if total else 0.0

    def describe(self) -> str:
        """Some lines for a person."""
        lines = [f"{self.title}; {self.tokenizer}, vocabulary {self.vocab_size:,}; fingerprint {self.fingerprint[:16]}"]
        for name in SPLITS:
            split = self.split(name)
            lines.append(
                f"  {name:<8}{split.files:>8,} texts {split.bytes:>14,} bytes {split.tokens:>14,} tokens "
                f"{self.share(name):>7.2%} (asked {split.asked:.2%})"
            )
        lines += [f"  note: {note}" for note in self.notes]
        if self.skipped:
            lines.append(f"  {len(self.skipped):,} skipped, not readable as text:")
            lines += [f"    {each.name}: {each.reason}" for each in self.skipped[:SKIPPED_SHOWN]]
        if len(self.skipped) > SKIPPED_SHOWN:
            lines.append(f"    … and {len(self.skipped) - SKIPPED_SHOWN:,} more")
        return "\n".join(drawn(line) for line in lines)  # a name of a file may hold anything


def require_enough(
    report: CorpusReport, seq_len: int, batch: int, windows: int, held_out: Iterable[Split] = ("verdict",)
) -> None:
    """Raise CorpusError unless train holds one batch without repetition and `held_out` splits hold their windows.

    A window of seq_len tokens takes seq_len + 1, since the last one predicts its successor.
    """
    needs: list[tuple[Split, int, str]] = [("train", batch * (seq_len + 1), f"a batch of {batch} x ({seq_len} + 1)")]
    needs += [(split, windows * (seq_len + 1), f"{windows} windows of {seq_len} + 1") for split in held_out]
    short = [
        f"{split} holds {_tokens(report.split(split))}, and {why} takes {need:,}"
        for split, need, why in needs
        if report.split(split).tokens < need
    ]
    if short:
        ways = (
            "name more text, hold out a larger share of it (data.tuning, data.verdict)",
            "or ask for less: model.context, recipe.batch, measure.evaluation.windows",
        )
        raise CorpusError([CorpusFault(f"{report.title} is too small", notes=(*short, *ways), beside=DECIDE)])


def _tokens(split: SplitReport) -> str:
    return f"{split.tokens:,} tokens in {split.files:,} {'text' if split.files == 1 else 'texts'}"


def share_notes(report: CorpusReport) -> tuple[str, ...]:
    """Held-out splits whose share is far from what was asked, in words."""
    held_out: tuple[Split, ...] = ("tuning", "verdict")
    return tuple(
        f"{name} holds {report.share(name):.1%} of the bytes where {report.split(name).asked:.1%} was asked: "
        "whole folders are held out"
        for name in held_out
        if abs(report.share(name) - report.split(name).asked) > FAR_FROM_ASKED * report.split(name).asked
    )
