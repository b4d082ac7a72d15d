"""Statistics of a corpus: how often a trial reads it, how often its tokens repeat, and how alike its inputs are.

A plan shows the first; forecasts begin with the others, which are computed once and cached beside the streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ablate.block.catalogue import Catalogue
from ablate.data.cache import keep_numbers, kept_numbers, load_document, store_document
from ablate.data.corpus import corpus_of
from ablate.data.streams import TokenStreams, fingerprint, prepare
from ablate.data.tokenizer import Tokens
from ablate.errors import RefusedError
from ablate.space.data import Data
from ablate.space.documents import Document
from ablate.space.fits import at_most

# Epochs: how often training reads its text, and how much of what it reads it has read before.
#
#     epochs = W T / N        repeated = 1 - N (1 - (1 - T/N)^W) / (W T)
#
#     W windows of T tokens in all batches of a trial, N tokens of the training split
#
# Windows start anywhere in the split, drawn with replacement (`batch.py`), so except at the very ends a token is in
# a given window with probability T/N, and in at least one with 1 - (1 - T/N)^W. So text repeats before the first
# epoch is over: after half an epoch a fifth of the tokens read are repeats, after one more than a third. Pairs, and
# examples that are no text, are drawn with replacement as well: N counts those, and T = 1.


@dataclass(frozen=True, slots=True, order=True)
class Epochs:
    """A trial's `windows` of `seq_len` tokens, drawn from a training split that holds `held` tokens.

    Of pairs, or of examples that are no text, the examples are the tokens, as the `noun` says, and a window is one.
    """

    windows: int
    seq_len: int
    held: int
    noun: str = "tokens"

    @property
    def tokens(self) -> int:
        """The tokens that training reads, counted with repetition."""
        return self.windows * self.seq_len

    @property
    def epochs(self) -> float:
        """The number of times that a token is read on average."""
        return self.tokens / self.held

    @property
    def repeated(self) -> float:
        """The expected share of the tokens read that were read before."""
        chance = min(self.seq_len / self.held, 1.0)
        seen = 1.0 if chance == 1 else -math.expm1(self.windows * math.log1p(-chance))
        return max(0.0, 1 - seen * self.held / self.tokens)


def describe_epochs(trials: Iterable[Epochs], data: Data, needed: int) -> tuple[str, ...]:
    """Lines on the text that trials read; `needed` are the bytes of text that their steps need."""
    kinds = sorted(set(trials))
    nouns = dict.fromkeys(each.noun for each in kinds)
    lines = [_described([each for each in kinds if each.noun == noun]) for noun in nouns]
    most, text = at_most(data), "examples" not in nouns
    if capped := most is not None and most < needed:
        of = "text" if text else "examples"
        lines.append(f"the steps need {needed:,} bytes of {of}, but data.corpus.at_most allows only {most:,}")
    if any(each.noun == "tokens" and each.epochs >= 1 for each in kinds):
        more = "raise data.corpus.at_most" if capped else "add more of it"
        lines.append(f"the text repeats: {more}, or train on fewer tokens (recipe.steps, recipe.batch)")
    return tuple(lines)


def _described(kinds: Sequence[Epochs]) -> str:
    """A line for trials of the same noun, in ascending order."""
    noun = kinds[0].noun
    drawn = "; windows start anywhere, drawn with replacement" if noun == "tokens" else ", drawn with replacement"
    tokens, epochs = _range([f"{each.tokens:,}" for each in kinds]), _range([f"{each.epochs:.3g}" for each in kinds])
    repeated = _range([f"{100 * each.repeated:.2g}" for each in kinds])
    return (
        f"training reads {tokens} {noun} per trial, {epochs} epochs of the train split{drawn}: {repeated} % of the "
        f"{noun} read are repeats"
    )


def _range(numbers: list[str]) -> str:
    return numbers[0] if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"


# Repetition: how often two tokens of one sequence are the same, which is the correlation of their embeddings.
#
#     r = mean over windows of  Σ_i N_i (N_i - 1) / (L (L - 1))        N_i: how often token i stands in the window of L
#
#     Kedia et al. 2024, arXiv:2403.09635, App. A.1. Independent tokens that follow Zipf's law give π²/(6 ln² V).
#
# It is counted in windows of the training split that are evenly spaced from its start and do not overlap: at most
# `WINDOWS` of them and `TOKENS` tokens. So it is a function of the corpus and of L alone. The result is cached beside
# the token streams.

WINDOWS = 1024
TOKENS = 2**22


class Repetition(Document):
    """The mean repetition over `windows` windows of `seq_len` tokens."""

    seq_len: int
    windows: int
    value: float


def measure_repetition(
    data: Data, folder: Path, cache: Path, seq_len: int, catalogue: Catalogue | None = None, known: str | None = None
) -> Repetition:
    """Measure the repetition in windows of `seq_len` tokens of a corpus's training split.

    Quick if it was measured before and the corpus is unchanged; its files are not looked at where its fingerprint is
    `known`. Raises RefusedError as `prepare` does, and if the split holds no window of two tokens.
    """
    if corpus_of(data, catalogue).layout(data.corpus.settings) is not None:
        raise RefusedError(
            f"data: a block uses repetition, which is how often tokens of a text repeat, and corpus {data.corpus.name} "
            "is no text\n  = write a number in its place, or choose a corpus of text"
        )
    mark, counted = known or fingerprint(data, folder, cache, catalogue).fingerprint, f"repetition-{seq_len}"
    if (before := load_document(cache, f"{mark}.{counted}", Repetition)) is not None:
        return before
    streams = prepare(data, folder, cache, catalogue)
    measured = repetition(streams.train, seq_len)
    store_document(cache, f"{streams.fingerprint}.{counted}", measured)
    return measured


def repetition(stream: Tokens, seq_len: int) -> Repetition:
    """The repetition in evenly spaced windows of a stream; RefusedError if there is none of two tokens or more."""
    windows = evenly_spaced(stream, seq_len)
    pairs = sum(equal_pairs(window) for window in np.sort(windows, axis=1))
    return Repetition(seq_len=seq_len, windows=len(windows), value=pairs / (len(windows) * seq_len * (seq_len - 1)))


def evenly_spaced(stream: Tokens, seq_len: int) -> Tokens:
    """The windows that repetition is counted in, [windows, seq_len]; RefusedError as for `repetition`."""
    windows = min(WINDOWS, max(1, TOKENS // seq_len), len(stream) // seq_len)
    if windows < 1 or seq_len < 2:
        raise RefusedError(
            f"data: repetition is counted in windows of {seq_len} tokens, and a training split of "
            f"{len(stream):,} has none with two tokens. Add more text, or change model.context to 2 or more."
        )
    starts = np.arange(windows) * (len(stream) // windows)
    return np.asarray(stream[starts[:, None] + np.arange(seq_len)])


def equal_pairs(window: Tokens) -> int:
    """Σ_i N_i (N_i - 1) over a sorted window: ordered pairs of positions with the same token."""
    ends = np.flatnonzero(np.diff(window)) + 1
    counts = np.diff(np.concatenate(([0], ends, [len(window)])))
    return int((counts * (counts - 1)).sum())


# Typical windows: a few windows of a text that repeat their tokens as all of its windows do.
#
# The windows that repetition is counted in are ordered by how much they repeat and parted into as many parts of
# equal size as windows are asked for. Of each part the window whose repetition is nearest to the mean of the part is
# taken, the first of several. Their mean repetition is so near to that of the text, and they differ from each other
# as windows do, which a mean over windows forgets: of two tokens that are the same with chance r no pair is half the
# same.

Windows = npt.NDArray[np.int64]


class _Windows(Document):
    """Tokens of the windows, from the one that repeats the least."""

    tokens: tuple[tuple[int, ...], ...]


def typical_windows(
    data: Data,
    folder: Path,
    cache: Path,
    seq_len: int,
    count: int,
    catalogue: Catalogue | None = None,
    known: str | None = None,
) -> Windows:
    """Return `count` typical windows of a training split, or all where there are fewer, [count, seq_len].

    Quick where `measure_repetition` is, and raises RefusedError as it does.
    """
    mark, looked_for = known or fingerprint(data, folder, cache, catalogue).fingerprint, f"windows-{seq_len}-{count}"
    if (before := load_document(cache, f"{mark}.{looked_for}", _Windows)) is not None:
        return np.array(before.tokens)
    streams = prepare(data, folder, cache, catalogue)
    windows = windows_of_stream(streams.train, seq_len, count)
    found = _Windows(tokens=tuple(tuple(map(int, window)) for window in windows))
    store_document(cache, f"{streams.fingerprint}.{looked_for}", found)
    return windows


def windows_of_stream(stream: Tokens, seq_len: int, count: int) -> Windows:
    """Typical windows of a stream, [count, seq_len]; RefusedError as for `repetition`."""
    windows = evenly_spaced(stream, seq_len)
    pairs = np.array([equal_pairs(np.sort(window)) for window in windows])
    parts = np.array_split(np.argsort(pairs, kind="stable"), min(count, len(windows)))
    chosen = [part[np.argmin(np.abs(pairs[part] - pairs[part].mean()))] for part in parts]
    return windows[chosen].astype(np.int64)


# Input kernels: how alike what a model reads at two places is, for data that are no text.
#
#     K_ij = mean over examples of x_i · x_j / F        x_i the F numbers of a patch, of all features, or of a frame
#     R_ij = share of examples whose decoder is given the same token at i and j
#
# Values are standardised, and whitened, as a model is given them; frames that are not there are 0, and count as such.
# A decoder is given its target one token earlier, behind a token of its own, and one that fills up behind its end.
# Counted are at most `EXAMPLES` examples of the training split, evenly spaced. A forecast begins with both
# (`theory/models.py`). They are cached beside the streams, so that neither examples nor files are read again.

EXAMPLES = 512
START, FILLED, NONE = -1, -2, -3  # the token before a target, those behind its end, and a missing token of a target

Floats = npt.NDArray[np.float64]


def measure_inputs(
    data: Data, folder: Path, cache: Path, patch: int | None, catalogue: Catalogue, known: str | None = None
) -> Floats:
    """Return K, [P, P]: of images in patches of that side, of whole images (None), or of frames.

    Quick if it was measured before: of a `known` fingerprint no file is read. Raises RefusedError as `prepare` does.
    """

    def of(streams: TokenStreams) -> Floats:
        records = streams.records("train")
        assert streams.standard is not None
        values = streams.standard(records, _spaced_examples(len(records))).astype(np.float64)
        return kernel_of(values if records.layout.kind == "frames" else patches_of(values, patch))

    return _measured_kernel(f"inputs-{patch or 'whole'}-{EXAMPLES}", of, data, folder, cache, catalogue, known)


def measure_targets(
    data: Data, folder: Path, cache: Path, length: int, catalogue: Catalogue, known: str | None = None
) -> Floats:
    """Return R, [T, T], of targets that are sequences of tokens; else as `measure_inputs`."""

    def of(streams: TokenStreams) -> Floats:
        records = streams.records("train")
        return same_tokens(given_tokens(records.targets(_spaced_examples(len(records)), NONE), length))

    return _measured_kernel(f"targets-{length}-{EXAMPLES}", of, data, folder, cache, catalogue, known)


def _measured_kernel(
    counted: str,
    of: Callable[[TokenStreams], Floats],
    data: Data,
    folder: Path,
    cache: Path,
    catalogue: Catalogue,
    known: str | None,
) -> Floats:
    numbers = kept_numbers(cache, f"{known or fingerprint(data, folder, cache, catalogue).fingerprint}.{counted}")
    if numbers is None:
        streams = prepare(data, folder, cache, catalogue)
        numbers = of(streams)
        keep_numbers(cache, f"{streams.fingerprint}.{counted}", numbers)
    side = isqrt(numbers.size)
    return numbers.reshape(side, side)


def patches_of(images: Floats, side: int | None) -> Floats:
    """Patches of images [N, C, H, W], row by row, [N, P, F]; all numbers as one patch without a side."""
    count, channels, height, width = images.shape
    if side is None:
        return images.reshape(count, 1, -1)
    cut = images.reshape(count, channels, height // side, side, width // side, side)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(count, (height // side) * (width // side), -1)


def kernel_of(values: Floats) -> Floats:
    """Return the mean over examples of x xᵀ / F, [P, P], of values [N, P, F].

    >>> kernel_of(np.array([[[1.0, 1.0], [2.0, 0.0]]]))
    array([[1., 1.],
           [1., 2.]])
    """
    flat = values.transpose(1, 0, 2).reshape(values.shape[1], -1)
    return np.asarray(flat @ flat.T / (len(values) * values.shape[2]))


def given_tokens(targets: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """The inputs [N, T] of a decoder of T tokens for targets [N, n].

    >>> given_tokens(np.array([[5, 7, NONE, NONE]]), 4)
    array([[-1,  5, -2, -2]])
    """
    whole = np.full((len(targets), length), NONE)
    whole[:, : targets.shape[1]] = targets[:, :length]
    given = np.full_like(whole, START)
    given[:, 1:] = whole[:, :-1]
    return np.where(whole == NONE, FILLED, given)


def same_tokens(tokens: npt.NDArray[np.int64]) -> Floats:
    """The share of sequences [N, T] with the same token at two places, [T, T]."""
    same = np.zeros((tokens.shape[1],) * 2)
    for sequence in tokens:
        same += sequence[:, None] == sequence
    return same / len(tokens)


def _spaced_examples(examples: int) -> npt.NDArray[np.int64]:
    count = min(EXAMPLES, examples)
    return np.arange(count) * (examples // count)
