"""The computation of one trial, from its specification to the events of training: the same for every executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from torch import nn

from ablate.block.catalogue import Catalogue
from ablate.compiler import compile_model
from ablate.compiler.data_dependent_init import profile
from ablate.components.registry import declarations
from ablate.data.batch import changed
from ablate.data.streams import TokenStreams, prepare
from ablate.errors import RefusedError
from ablate.execute.attention import choose_kernels
from ablate.execute.device import device
from ablate.execute.drawing import drawing_of, drawn_examples
from ablate.execute.policy import UNCUT
from ablate.plan.trial import Trial
from ablate.space.batch_ramp import batch_at
from ablate.train.events import Outcome, Training
from ablate.train.loop import WHOLE, lacks_memory, train
from ablate.train.loss import parameter_type
from ablate.train.microbatches import BatchShares
from ablate.train.objective import Batches, chosen_objective, examples_of, first_batch, objective_of
from ablate.train.threads import pin_threads

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

    Its attention backends are chosen first (see `execute.attention`). If they are not those that the state was
    `made_with` (None: any), the bits would differ, and the trial is trained from its beginning. `cache` holds the token
    streams. RefusedError if the corpus is not the one that was planned.
    """
    pin_threads(trial.threads)
    catalogue = declarations(plugins)
    streams = _streams(trial, cache, catalogue)
    if streams.fingerprint != trial.corpus:
        raise RefusedError(
            f"the corpus changed since the trial was planned: {trial.corpus[:16]} then, "
            f"{streams.fingerprint[:16]} now\n"
            "  = plan again by running the same command, or restore the texts"
        )
    sizes = trial.architecture.sizes
    model = compile_model(
        trial.architecture,
        catalogue,
        seed=trial.seed,
        salt=trial.salt,
        dtype=parameter_type(trial.recipe.dtype),
        device=device(),
    )
    objective = objective_of(trial, catalogue)
    spec, settings = chosen_objective(trial.recipe, catalogue)
    drawing = drawing_of(streams, spec, settings, sizes, trial.recipe, trial.seed)
    batches = Batches(drawing, objective, trial.seed, partial(batch_at, trial.recipe))
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


def _profile(model: nn.Module, batches: Batches) -> str | None:
    """Profile the model; return the error message if memory ran out.

    Every rank passes the whole batch at once, however it is split for training: a variance over parts has other last
    bits, and a pass without gradients keeps one layer's activations where training keeps all.
    """
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
    if trial.corpus not in _prepared:
        streams = prepare(trial.data, Path(trial.folder), cache, catalogue)
        _prepared.clear()
        _prepared[streams.fingerprint] = streams
        return streams
    return _prepared[trial.corpus]
