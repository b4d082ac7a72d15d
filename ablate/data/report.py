"""The contents of a corpus, and whether they are enough to train and judge on."""

from __future__ import annotations

from collections.abc import Iterable

from ablate.data.record_stream import RecordsReport
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
"""The values that decide, besides the corpus, whether it is large enough."""
SKIPPED_SHOWN = 10
FAR_FROM_ASKED = 0.25
"""A split whose share differs from the requested one by more than this part of it gets a note."""


class SplitReport(Document):
    """One split: the requested share of bytes (`asked`), and what it holds. Tokens include the separators."""

    asked: float
    files: int
    bytes: int
    tokens: int


class CorpusReport(Document):
    """The state of a corpus: the same on every machine that holds the same texts (except for the title).

    `pairs`: each two of its texts are a source and its target. `records` tells of examples that are no text: the
    vocabulary is then the classes, and tokens are the 16-bit numbers of the records.
    """

    title: str
    tokenizer: str
    fingerprint: str
    vocab_size: int
    train: SplitReport
    tuning: SplitReport
    verdict: SplitReport
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    pairs: bool = False
    records: RecordsReport | None = None

    def split(self, name: Split) -> SplitReport:
        """Return the report on one split."""
        return {"train": self.train, "tuning": self.tuning, "verdict": self.verdict}[name]

    @property
    def noun(self) -> str:
        """What its examples are called."""
        return "pairs" if self.pairs else "texts" if self.records is None else "examples"

    def examples(self, name: Split) -> int:
        """Return the number of examples in a split, where they are pairs or no text."""
        return self.split(name).files // (2 if self.pairs else 1)

    def share(self, name: Split) -> float:
        """Return the share of all bytes that a split holds."""
        total = sum(self.split(each).bytes for each in SPLITS)
        return self.split(name).bytes / total if total else 0.0

    def describe(self) -> str:
        """Describe the corpus in some lines for the screen."""
        outputs = f"vocabulary {self.vocab_size:,}" if self.records is None else f"{self.vocab_size:,} classes"
        lines = [f"{self.title}; {self.tokenizer}, {outputs}; fingerprint {self.fingerprint[:16]}"]
        for name in SPLITS:
            split = self.split(name)
            tokens = f" {split.tokens:>14,} tokens" if self.records is None else ""
            counted = f"{self.examples(name):>8,} {self.noun}"
            lines.append(
                f"  {name:<8}{counted} {split.bytes:>14,} bytes{tokens} "
                f"{self.share(name):>7.2%} (requested {split.asked:.2%})"
            )
        lines += [f"  note: {note}" for note in self.notes]
        if self.skipped:
            noun = "text" if self.records is None else "example"
            texts = f"{noun} is" if len(self.skipped) == 1 else f"{noun}s are"
            lines.append(f"  {len(self.skipped):,} {texts} left out, as not readable; all others are used:")
            lines += [f"    {each.name} ({each.reason})" for each in self.skipped[:SKIPPED_SHOWN]]
        if len(self.skipped) > SKIPPED_SHOWN:
            lines.append(f"    … and {len(self.skipped) - SKIPPED_SHOWN:,} more")
        return "\n".join(drawn(line) for line in lines)  # a file name may contain control characters


def require_enough(
    report: CorpusReport,
    seq_len: int,
    batch: int,
    windows: int,
    held_out: Iterable[Split] = ("verdict",),
    *,
    of_pairs: bool = False,
) -> None:
    """Raise CorpusError unless train holds one batch without repetition and `held_out` splits hold their windows.

    A window of seq_len tokens takes seq_len + 1, since the last token predicts its successor. Where examples are pairs,
    or no text, a window is one of them.
    """
    if of_pairs or report.records is not None:
        _require_examples(report, batch, windows, held_out)
        return
    needs: list[tuple[Split, int, str]] = [("train", batch * (seq_len + 1), f"a batch of {batch} x ({seq_len} + 1)")]
    needs += [(split, windows * (seq_len + 1), f"{windows} windows of {seq_len} + 1") for split in held_out]
    short = [
        f"{split} has {_tokens(report.split(split))}, but {why} needs {need:,}"
        for split, need, why in needs
        if report.split(split).tokens < need
    ]
    if short:
        ways = (
            "add more text, or hold out a larger share of it (data.tuning, data.verdict)",
            "or lower model.context, recipe.batch or measure.evaluation.windows",
        )
        raise CorpusError([CorpusFault(f"{report.title} is too small", notes=(*short, *ways), beside=DECIDE)])


def _require_examples(report: CorpusReport, batch: int, windows: int, held_out: Iterable[Split]) -> None:
    needs: list[tuple[Split, int, str]] = [("train", batch, "a batch")]
    needs += [(split, windows, "an evaluation") for split in held_out]
    short = [
        f"{split} has {report.examples(split):,} {report.noun}, but {why} needs {need:,}"
        for split, need, why in needs
        if report.examples(split) < need
    ]
    if short:
        ways = (
            f"add {report.noun}, or hold out a larger share of them (data.tuning, data.verdict)",
            "or lower recipe.batch or measure.evaluation.windows",
        )
        raise CorpusError([CorpusFault(f"{report.title} is too small", notes=(*short, *ways), beside=DECIDE)])


def _tokens(split: SplitReport) -> str:
    return f"{split.tokens:,} tokens in {split.files:,} {'text' if split.files == 1 else 'texts'}"


def share_notes(report: CorpusReport) -> tuple[str, ...]:
    """Return a note for each held-out split whose share is far from the requested one."""
    held_out: tuple[Split, ...] = ("tuning", "verdict")
    return tuple(
        f"{name} has {report.share(name):.1%} of the bytes where {report.split(name).asked:.1%} was requested: "
        "folders are held out as a whole"
        for name in held_out
        if abs(report.share(name) - report.split(name).asked) > FAR_FROM_ASKED * report.split(name).asked
    )
