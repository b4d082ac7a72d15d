"""Corpus: the texts that a space names, read and divided into splits, and the report on whether they are enough."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.data.record_stream import RecordsReport
from ablate.data.sources import (
    CORPUS,
    SPLITS,
    CorpusError,
    CorpusFault,
    NamedFiles,
    NamedRows,
    Skipped,
    Split,
    Text,
    TextSource,
    folder_of,
)
from ablate.data.tokenizer import vocab_size_of
from ablate.errors import InputError
from ablate.extension.loader import implementation
from ablate.source.problems import drawn, quote, unknown
from ablate.space.data import CorpusSpec, Data, Layout
from ablate.space.documents import Document

FIELDS = ("field", "image", "source")
"""The settings that name the field of a row which holds an example, or the first half of one."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts of each split, ordered by name, the documents that could not be read, and notes on the source."""

    title: str
    texts: Mapping[Split, tuple[Text, ...]]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()

    def bytes_of(self, split: Split) -> int:
        return sum(len(text.content) for text in self.texts[split])

    @property
    def digest(self) -> str:
        """A hash of the contents of all texts, in order, with their splits; names and times are left out."""
        running = hashlib.sha256()
        for split in SPLITS:
            running.update(f"{split} {len(self.texts[split])}\n".encode())
            for text in self.texts[split]:
                running.update(f"{len(text.content)}\n".encode())
                running.update(text.content)
        return running.hexdigest()


def corpus_of(data: Data, catalogue: Catalogue | None = None) -> CorpusSpec:
    """The corpus of `data` in the `catalogue` (by default that of what ships and is installed).

    Raises InputError if there is none of that name, for example because a plugin was not given this time.
    """
    known = (declarations() if catalogue is None else catalogue).of_kind(CorpusSpec)
    name = data.corpus.name
    if name not in known:
        way = "name the file that declares it: --plugin FILE.py"
        message = f"there is no corpus {quote(name)}"
        raise unknown(message, name, known, "corpora", command="ablate list corpora", notes=(way,))
    return known[name]


def outputs_of(data: Data, catalogue: Catalogue | None = None) -> int:
    """The size of the vocabulary, or the number of classes: known before anything is read."""
    layout = corpus_of(data, catalogue).layout(data.corpus.settings)
    return vocab_size_of(data.tokenizer) if layout is None else layout.classes


def source_of(data: Data, folder: Path, catalogue: Catalogue | None = None) -> TextSource:
    """The source that `data` names; relative patterns start from `folder`."""
    spec = corpus_of(data, catalogue)
    source: TextSource = implementation(spec)(spec.read(data.corpus.settings), folder)
    return source


def divide(source: TextSource, data: Data, layout: Layout | None = None) -> Corpus:
    """Read a source, whose examples are of a `layout` if they are no text, each into the split of its folder.

    Raises CorpusError if nothing can be read, or if there are too few folders for the requested splits; InputError
    if the shares held out leave nothing to train on.
    """
    if data.tuning + data.verdict >= 1:
        raise InputError(
            f"data: tuning {data.tuning:.0%} and verdict {data.verdict:.0%} together leave nothing to train on; "
            "hold out less, for instance 5% each."
        )
    documents = list(source.texts())
    texts = [each for each in documents if isinstance(each, Text)]
    skipped = tuple(each for each in documents if isinstance(each, Skipped))
    if not any(text.content for text in texts):
        raise CorpusError([_empty(source, data, layout, len(texts), skipped)])
    sizes: defaultdict[str, int] = defaultdict(int)
    for text in texts:
        sizes[text.folder] += len(text.content)
    splits = assign_splits(sizes, tuning=data.tuning, verdict=data.verdict)
    _require_every_split(source, data, layout, sizes)
    members = {split: tuple(text for text in texts if splits[text.folder] == split) for split in SPLITS}
    return Corpus(title=source.title, texts=members, skipped=skipped, notes=source.notes)


def survey(data: Data, folder: Path, catalogue: Catalogue | None = None) -> None:
    """Raise CorpusError if `data` names files that are missing, are all empty, or are too few for the splits.

    No text is read and no hub is contacted, so the number of rows in a file is not checked yet.
    """
    source = source_of(data, folder, catalogue)
    if not isinstance(source, NamedFiles):
        return
    sizes: defaultdict[str, int] = defaultdict(int)
    for file in source.files:
        sizes[folder_of(file.name)] += max(0, file.size)
    if not any(sizes.values()):
        raise CorpusError([_empty(source, data, None, len(source.files), ())])
    if source.documents == "files":
        _require_every_split(source, data, None, sizes)


def _empty(
    source: TextSource, data: Data, layout: Layout | None, read: int, skipped: tuple[Skipped, ...]
) -> CorpusFault:
    """The fault that nothing could be read, at the setting that names the field of a row, if there is one."""
    counts = [f"{read:,} empty"] * (read > 0) + [f"{len(skipped):,} that could not be read"] * (len(skipped) > 0)
    reasons = tuple(f"{each.name}: {each.reason}" for each in skipped[:5])
    nouns, nothing = ("text", "there are no documents") if layout is None else (_plural(layout), "there are none")
    message = f"{source.title} contains no {nouns}: {' and '.join(counts) or nothing}"
    if setting := next((each for each in FIELDS if each in data.corpus.settings), None):
        rest = ", or other files" if isinstance(source, NamedRows) else ""
        return CorpusFault(message, (*CORPUS, setting), notes=(*reasons, f"name a field that contains {nouns}{rest}"))
    way = "name files that contain UTF-8 text" if layout is None else f"name a corpus of {nouns}"
    return CorpusFault(message, notes=(*reasons, way))


def _plural(layout: Layout) -> str:
    return "images" if layout.kind == "images" else "examples"


def _require_every_split(source: TextSource, data: Data, layout: Layout | None, sizes: Mapping[str, int]) -> None:
    """Raise CorpusError if there are fewer folders with text, rows or images than requested splits."""
    shares = {"train": 1.0, "tuning": data.tuning, "verdict": data.verdict}
    needed = [split for split in SPLITS if shares[split] > 0]
    folders = sorted(name for name, size in sizes.items() if size > 0)
    if len(folders) >= len(needed):
        return
    by_folder = isinstance(source, NamedFiles) and source.documents == "files"
    noun = "folder" if by_folder else "row"
    of = " of text"
    if layout is not None:
        noun, of = _plural(layout).removesuffix("s"), ""
    has = f"{len(folders)} {noun if len(folders) == 1 else f'{noun}s'}{of} ({', '.join(folders)})"
    message = f"{source.title} has {has}, but {len(needed)} are needed: one each for {', '.join(needed)}"
    notes = (
        "a folder, or a file outside any folder, goes to one split as a whole",
        "name more files, or divide a large one: split --number=l/20 input.txt part-",
    )
    if layout is not None:
        most = ", raise at_most" if "at_most" in data.corpus.settings else ""
        more = f"name a corpus of more {noun}s{most}, or hold out fewer splits (data.tuning, data.verdict)"
        notes = (f"an {noun} goes to one split as a whole", more)
    elif not by_folder:
        notes = ("a row goes to one split as a whole", "name more rows, or raise at_most if it is set")
    raise CorpusError([CorpusFault(message, notes=notes)])


# The division of folders into train, tuning and verdict.
#
# A folder goes to one split as a whole: its files quote, import and test each other, so if its neighbours were
# trained on, a held-out file would be partly known. The rule needs no random number and is the same on every machine:
#
#   1. Folders are ordered by a hash of their names, so that neither the alphabet nor sizes choose.
#   2. The verdict split takes folders in that order while they fit into its share of the bytes: first those of at most
#      a quarter of the share, so that no single folder decides the verdict, then any that still fits.
#   3. The tuning split does the same with what is left, so that its share does not change the verdict split.
#   4. A split into which nothing fits takes the smallest folder left. The rest is trained on, including empty folders.
#   5. A split leaves one folder for each later split, so that as many folders as splits are enough.

LARGEST_PART = 0.25  # the share of a held-out split that one folder may fill at first


def assign_splits(sizes: Mapping[str, int], *, tuning: float, verdict: float) -> dict[str, Split]:
    """Return the split of each folder, from the bytes of each folder and the shares of bytes to hold out.

    >>> assign_splits({"a": 90, "b": 5, "c": 5}, tuning=0.05, verdict=0.05)
    {'a': 'train', 'b': 'tuning', 'c': 'verdict'}
    """
    splits: dict[str, Split] = dict.fromkeys(sizes, "train")
    order = sorted(sizes, key=lambda name: hashlib.sha256(name.encode("utf-8")).digest())
    left = {name: sizes[name] for name in order if sizes[name] > 0}
    total = sum(left.values())
    held_out: tuple[tuple[Split, float], ...] = (("verdict", verdict), ("tuning", tuning))
    for n, (split, share) in enumerate(held_out, 1):
        later = 1 + sum(share > 0 for _, share in held_out[n:])
        for name in _held_out(left, share * total, len(left) - later):
            splits[name] = split
            del left[name]
    return splits


def _held_out(left: Mapping[str, int], target: float, most: int) -> tuple[str, ...]:
    """At most `most` folders that together come close to `target` bytes, from below if anything fits."""
    if target <= 0:
        return ()
    chosen = tuple(_fitting(left, target))[: max(1, most)]
    return chosen or tuple(sorted(left, key=lambda name: left[name])[:1])


def _fitting(left: Mapping[str, int], room: float) -> Iterator[str]:
    quarter = LARGEST_PART * room
    small = {name: size for name, size in left.items() if size <= quarter}
    large = {name: size for name, size in left.items() if size > quarter}
    for name, size in [*small.items(), *large.items()]:
        if size <= room:
            room -= size
            yield name


# The contents of a corpus, and whether they are enough.

DECIDE = (
    ("model", "context"),
    ("recipe", "batch"),
    ("measure", "evaluation", "windows"),
    ("data", "tuning"),
    ("data", "verdict"),
)
"""The values that decide, besides the corpus, whether it is large enough."""
SKIPPED_SHOWN = 10
FAR_FROM_ASKED = 0.25  # a split whose share differs from the requested one by more than this part of it gets a note


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
        return {"train": self.train, "tuning": self.tuning, "verdict": self.verdict}[name]

    @property
    def noun(self) -> str:
        return "pairs" if self.pairs else "texts" if self.records is None else "examples"

    def examples(self, name: Split) -> int:
        """The number of examples in a split, where they are pairs or no text."""
        return self.split(name).files // (2 if self.pairs else 1)

    def share(self, name: Split) -> float:
        total = sum(self.split(each).bytes for each in SPLITS)
        return self.split(name).bytes / total if total else 0.0

    def describe(self) -> str:
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


def check_corpus(
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
    by_example = of_pairs or report.records is not None
    if by_example:
        each, a_batch, an_evaluation = 1, "a batch", "an evaluation"
        ways = (
            f"add {report.noun}, or hold out a larger share of them (data.tuning, data.verdict)",
            "or lower recipe.batch or measure.evaluation.windows",
        )
    else:
        each, a_batch = seq_len + 1, f"a batch of {batch} x ({seq_len} + 1)"
        an_evaluation = f"{windows} windows of {seq_len} + 1"
        ways = (
            "add more text, or hold out a larger share of it (data.tuning, data.verdict)",
            "or lower model.context, recipe.batch or measure.evaluation.windows",
        )
    needs: list[tuple[Split, int, str]] = [("train", batch * each, a_batch)]
    needs += [(name, windows * each, an_evaluation) for name in held_out]
    short = []
    for name, need, why in needs:
        split, examples = report.split(name), report.examples(name)
        texts = f"{split.tokens:,} tokens in {split.files:,} {'text' if split.files == 1 else 'texts'}"
        if (examples if by_example else split.tokens) < need:
            has = f"{examples:,} {report.noun}" if by_example else texts
            short.append(f"{name} has {has}, but {why} needs {need:,}")
    if short:
        raise CorpusError([CorpusFault(f"{report.title} is too small", notes=(*short, *ways), beside=DECIDE)])


def share_notes(report: CorpusReport) -> tuple[str, ...]:
    held_out: tuple[Split, ...] = ("tuning", "verdict")
    return tuple(
        f"{name} has {report.share(name):.1%} of the bytes where {report.split(name).asked:.1%} was requested: "
        "folders are held out as a whole"
        for name in held_out
        if abs(report.share(name) - report.split(name).asked) > FAR_FROM_ASKED * report.split(name).asked
    )
