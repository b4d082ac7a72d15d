"""Work: the computation of one trial, from its specification to the events of training: the same for every executor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import nn

from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Sizes
from ablate.compiler import compile_model
from ablate.compiler.initialise import profile
from ablate.compiler.values import running_ahead
from ablate.components.registry import declarations
from ablate.data.batch import Batches as Windows
from ablate.data.batch import Examples, Tensors, changed, evaluation_windows
from ablate.data.pair_stream import Pairs
from ablate.data.pairs import PairBatches, evaluation_pairs
from ablate.data.records import Augmentation, RecordBatches, evaluation_records
from ablate.data.standardisation import Standard
from ablate.data.streams import TokenStreams, prepare
from ablate.data.tokenizer import Tokens
from ablate.errors import RefusedError
from ablate.execute.executor import UNCUT
from ablate.execute.gpu import device
from ablate.kernels import BackendChoice, choose, order
from ablate.kernels.gate import THIS_PROCESS, AttentionSite, sites
from ablate.plan.plan import Trial
from ablate.space.recipe import Augment, ObjectiveSpec, Recipe
from ablate.space.schedule import batch_at
from ablate.train.data_parallel import Ranks, pin_threads
from ablate.train.events import Attending, KernelUse, Outcome, Training
from ablate.train.loop import WHOLE, lacks_memory, train
from ablate.train.loss import device_of, forward, parameter_type
from ablate.train.microbatches import BatchShares
from ablate.train.objective import (
    ExampleSource,
    ObjectiveBatches,
    chosen_objective,
    examples_of,
    first_batch,
    objective_of,
)
from ablate.train.objectives.declare import Settings

IN_PROFILE = "in the pass of its initialisation over the whole first batch: splitting the batch does not help"


def compute(
    trial: Trial,
    *,
    cache: Path,
    plugins: tuple[Path, ...],
    resume: bytes | None,
    should_stop: Callable[[], bool],
    until: int | None = None,
    made_with: str | None = None,
    cut: BatchShares = WHOLE,
) -> Iterator[Training]:
    """Build the model and train it, from the state `resume` if there is one; see `train.loop.train`.

    If its attention backends (see `choose_kernels`) are not those that the state was `made_with` (None: any), the bits
    would differ, and the trial is trained from its beginning. `cache` holds the token streams. RefusedError if the
    corpus is not the one that was planned.
    """
    pin_threads(trial.work.threads)
    catalogue = declarations(plugins)
    streams = _streams(trial, cache, catalogue)
    if streams.fingerprint != trial.work.corpus:
        raise RefusedError(
            f"the corpus changed since the trial was planned: {trial.work.corpus[:16]} then, "
            f"{streams.fingerprint[:16]} now\n"
            "  = plan again by running the same command, or restore the texts"
        )
    sizes = trial.work.architecture.sizes
    model = compile_model(
        trial.work.architecture,
        catalogue,
        seed=trial.seed,
        salt=trial.salt,
        dtype=parameter_type(trial.work.recipe.dtype),
        device=device(),
    )
    objective = objective_of(trial, catalogue)
    spec, settings = chosen_objective(trial.work.recipe, catalogue)
    drawing = drawing_of(streams, spec, settings, sizes, trial.work.recipe, trial.seed)
    batches = ObjectiveBatches(drawing, objective, trial.seed, partial(batch_at, trial.work.recipe))
    attending = choose_kernels(model, trial, first_batch(objective, drawing.at(0), trial.seed).inputs, cut)
    if made_with is not None and made_with != attending.operators:
        resume = None
    yield attending
    lack = _profile(model, batches) if resume is None else None  # a state already holds the result of that pass
    if lack is not None:
        yield Outcome("out_of_memory", 0, {"cause": f"{lack} ({IN_PROFILE})", UNCUT: IN_PROFILE})
        return
    evaluation = examples_of(drawn_examples(streams, spec, settings, trial), objective, trial, catalogue)
    yield from train(
        model,
        trial,
        batches,
        evaluation,
        resume=resume,
        should_stop=should_stop,
        until=until,
        cut=cut,
        catalogue=catalogue,
    )


def _profile(model: nn.Module, batches: ObjectiveBatches) -> str | None:
    """Profile the model; return the error message if memory ran out. Every rank passes the whole batch at once, however
    it is split for training: a variance over parts has other last bits, and a pass without gradients keeps one layer's
    activations."""
    try:
        profile(model, changed(batches.at(0).inputs, lambda tensor: tensor.to(device())))
    except (RuntimeError, MemoryError) as error:
        if not lacks_memory(error):
            raise
        return str(error).partition("\n")[0]
    return None


_prepared: dict[str, TokenStreams] = {}
"""The last corpus of this process, by its fingerprint: a worker carries out many trials on the same one."""


def _streams(trial: Trial, cache: Path, catalogue: Catalogue) -> TokenStreams:
    if trial.work.corpus not in _prepared:
        streams = prepare(trial.work.data, Path(trial.work.folder), cache, catalogue)
        _prepared.clear()
        _prepared[streams.fingerprint] = streams
        return streams
    return _prepared[trial.work.corpus]


# The examples of a trial, as its objective reads them: windows of a text, pairs, or records.


def drawing_of(
    streams: TokenStreams, spec: ObjectiveSpec, settings: Settings, sizes: Sizes, recipe: Recipe, seed: int
) -> ExampleSource:
    """The source of batches from the training split; RefusedError if it is too short, or not made of pairs."""
    if streams.layout is not None:
        augmentation = None if recipe.augment == Augment() else Augmentation(recipe.augment, seed)
        return RecordBatches(streams.records("train"), _standard(streams), recipe.batch, seed, augmentation)
    if spec.reads == "pairs":
        return PairBatches(_pairs_of(streams.train, sizes), *_pair_lengths(sizes), recipe.batch, seed)
    return Windows(streams.train, settings.window(sizes), recipe.batch, seed)


def drawn_examples(streams: TokenStreams, spec: ObjectiveSpec, settings: Settings, trial: Trial) -> Examples:
    """The examples for the evaluations of a trial; RefusedError as in `drawing_of`."""
    sizes, number = trial.work.architecture.sizes, trial.work.measure.evaluation.windows
    if streams.layout is not None:
        records = streams.records(trial.split)
        return evaluation_records(records, _standard(streams), number, seed=trial.seed, split=trial.split)
    stream, token_bytes = streams.split(trial.split), streams.tokenizer.token_bytes()
    if spec.reads == "pairs":
        pairs, (source, target) = _pairs_of(stream, sizes), _pair_lengths(sizes)
        return evaluation_pairs(
            pairs, source, target, number, seed=trial.seed, split=trial.split, token_bytes=token_bytes
        )
    length = settings.window(sizes)
    return evaluation_windows(stream, length, number, seed=trial.seed, split=trial.split, token_bytes=token_bytes)


def _standard(streams: TokenStreams) -> Standard:
    assert streams.standard is not None, "a corpus of text has no records"
    return streams.standard


def _pairs_of(stream: Tokens, sizes: Sizes) -> Pairs:
    return Pairs(stream, sizes.separator)


def _pair_lengths(sizes: Sizes) -> tuple[int, int]:
    assert sizes.source_len is not None
    return sizes.source_len, sizes.seq_len


# The attention backends of a trial, chosen on the device that trains it: the attentions are collected by one pass over
# two sequences of its first batch in which no attention is computed; each candidate backend is then tested by the gate
# (`kernels.gate`), once per shape and worker, and used, or rejected with a reason. The ranks of one trial agree on a
# backend that works on all of them.

FEW_SEQUENCES = 2
"""Sequences of the first batch: two, to tell a bias that varies along the batch from one that does not."""

SCORE_COPIES = 3
"""Copies of the scores in a backend that keeps them: the scores, what is computed from them, and its gradient."""


def choose_kernels(model: nn.Module, trial: Trial, inputs: Tensors, cut: BatchShares) -> Attending:
    """Set the backend of each attention of `model`; return which, and why. RefusedError if that crashes the device.
    `inputs` are those of the first batch, the same on all ranks."""
    device = device_of(model)
    few = changed(inputs, lambda tensor: tensor[:FEW_SEQUENCES].to(device))
    with running_ahead(model):
        by_address = sites(model, lambda: forward(model, few, trial.work.recipe.dtype))
    mine = {address: THIS_PROCESS.choose(site) for address, site in by_address.items()}
    chosen = agreed_backends(mine, by_address, cut.ranks)
    uses: dict[KernelUse, int] = {}
    rows = -(-trial.work.recipe.batch // cut.ranks.size // cut.parts)
    for address, choice in chosen.items():
        site = by_address[address]
        site.core.kernel = choice.name
        use = KernelUse(
            address=re.sub(r"^(layers|encoder|ahead)\.\d+\.", r"\1.*.", address),
            kernel=choice.name,
            reason=choice.reason,
            operator=choice.operator,
            refused=choice.name != choose(site.needs, device.type).name,
            memory=rows * scores_of(site) if choice.name == "eager" else 0,
        )
        uses[use] = uses.get(use, 0) + 1
    return Attending(tuple(replace(use, memory=count * use.memory) for use, count in uses.items()))


def agreed_backends(
    mine: Mapping[str, BackendChoice], by_address: Mapping[str, AttentionSite], ranks: Ranks
) -> dict[str, BackendChoice]:
    """The backend that all ranks can use at each address: of those chosen, the last in order of preference."""
    if ranks.size == 1:
        return dict(mine)
    all_ranks: list[dict[str, BackendChoice]] = ranks.gathered(dict(mine))
    result = {}
    for address, site in by_address.items():
        names = order(site.needs, site.device.type)
        result[address] = max((theirs[address] for theirs in all_ranks), key=lambda choice: names.index(choice.name))
    return result


def scores_of(site: AttentionSite) -> int:
    """The bytes of all copies of one sequence's scores during a step, in float32 at least."""
    return SCORE_COPIES * site.heads * site.queries * site.keys * (8 if site.needs.dtype == "float64" else 4)
