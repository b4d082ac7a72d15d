"""What is drawn from the data of a trial, as its objective reads it: windows of a text, pairs, or records."""

from __future__ import annotations

from ablate.block.sizes import Sizes
from ablate.data.augmentation import Augmentation
from ablate.data.batches import Batches as Windows
from ablate.data.batches import Examples, evaluation_windows
from ablate.data.pair_stream import Pairs
from ablate.data.pairs import PairBatches, evaluation_pairs
from ablate.data.records import RecordBatches, evaluation_records
from ablate.data.standard import Standard
from ablate.data.streams import TokenStreams
from ablate.data.tokenizer import Tokens
from ablate.plan.trial import Trial
from ablate.space.documents import Augment, Recipe
from ablate.space.objectives import ObjectiveSpec
from ablate.train.objective import Drawing
from ablate.train.objectives.declare import Settings


def drawing_of(
    streams: TokenStreams, spec: ObjectiveSpec, settings: Settings, sizes: Sizes, recipe: Recipe, seed: int
) -> Drawing:
    """Return what draws batches from the training split; RefusedError if it is too short, or not made of pairs."""
    if streams.layout is not None:
        augmentation = None if recipe.augment == Augment() else Augmentation(recipe.augment, seed)
        return RecordBatches(streams.records("train"), _standard(streams), recipe.batch, seed, augmentation)
    if spec.reads == "pairs":
        return PairBatches(_pairs(streams.train, sizes), *_lengths(sizes), recipe.batch, seed)
    return Windows(streams.train, settings.window(sizes), recipe.batch, seed)


def drawn_examples(streams: TokenStreams, spec: ObjectiveSpec, settings: Settings, trial: Trial) -> Examples:
    """Return what is drawn for the evaluations of a trial; RefusedError as above."""
    sizes, number = trial.architecture.sizes, trial.measure.evaluation.windows
    if streams.layout is not None:
        records = streams.records(trial.split)
        return evaluation_records(records, _standard(streams), number, seed=trial.seed, split=trial.split)
    stream, token_bytes = streams.split(trial.split), streams.tokenizer.token_bytes()
    if spec.reads == "pairs":
        pairs, (source, target) = _pairs(stream, sizes), _lengths(sizes)
        return evaluation_pairs(
            pairs, source, target, number, seed=trial.seed, split=trial.split, token_bytes=token_bytes
        )
    length = settings.window(sizes)
    return evaluation_windows(stream, length, number, seed=trial.seed, split=trial.split, token_bytes=token_bytes)


def _standard(streams: TokenStreams) -> Standard:
    assert streams.standard is not None, "a corpus of text has no records"
    return streams.standard


def _pairs(stream: Tokens, sizes: Sizes) -> Pairs:
    return Pairs(stream, sizes.separator)


def _lengths(sizes: Sizes) -> tuple[int, int]:
    """Return the lengths of the source and of the target."""
    assert sizes.source_len is not None
    return sizes.source_len, sizes.seq_len
