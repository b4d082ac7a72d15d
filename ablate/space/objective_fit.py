"""The check that what a recipe has a model learn fits the model, the loss that is added to it, and what is judged."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map
from typing import Final

from ablate.output.words import listed
from ablate.source.located import Mapping, to_python
from ablate.source.problems import Problems
from ablate.space.batch_ramp import smallest_batch
from ablate.space.corpora import CorpusSpec, Settings
from ablate.space.design import Design
from ablate.space.documents import NEXT_TOKEN, Data, Judge, Measure, Model, Recipe
from ablate.space.metrics import AVERAGED, BITS, OF_OBJECTIVE, ProbeSpec
from ablate.space.objectives import ObjectiveSpec
from ablate.space.origin import Keys, Origins

OBJECTIVE: Final[Keys] = ("recipe", "objective")
KIND: Final[Keys] = ("model", "kind")
PAIRS: Final = "pairs"
LIKELIHOOD: Final = {"label_smoothing": 0.0, "z": 0.0}
"""The terms of `recipe.loss` that are of a cross-entropy alone, at the values at which they add nothing."""


def check_objective(
    model: Model,
    recipe: Recipe,
    judge: Judge | None,
    design: Design | None,
    known: Map[str, ObjectiveSpec],
    origins: Origins,
    problems: Problems,
) -> None:
    """Report an objective that the model cannot have, terms that cannot be added to it, and numbers it has not."""
    spec = known[recipe.objective.name]
    if model.kind not in spec.models:
        those = [other.name for other in known.values() if model.kind in other.models]
        message = f"recipe.objective is {spec.name}, which a model of kind {model.kind} cannot learn"
        notes = (
            f"it is for model.kind: {', '.join(spec.models)}",
            f"a model of kind {model.kind} can learn: {', '.join(sorted(those))}",
        )
        origins.add(problems, message, OBJECTIVE if origins.written(*OBJECTIVE) else KIND, KIND, notes=notes)
    settings = spec.read(recipe.objective.settings)
    for address, reason, way in settings.unfit(model, recipe):
        path = tuple(address.split("."))
        value = origins.written(*path)
        shown = f" is {to_python(value)}" if value is not None and not isinstance(value, Mapping) else ""
        message = f"{address}{shown}, but {spec.name} needs more: {reason}"
        origins.add(problems, message, path, OBJECTIVE, notes=(way,))
    if smallest_batch(recipe) < settings.fewest:
        path = ("recipe", "batch") if recipe.batch_ramp is None else ("recipe", "batch_ramp", "from")
        message = (
            f"{'.'.join(path)} is {smallest_batch(recipe)}, but {spec.name} makes its examples of {settings.fewest}"
        )
        origins.add(problems, message, path, OBJECTIVE, notes=(f"set it to {settings.fewest} at least",))
    if recipe.loss.ahead and recipe.objective != NEXT_TOKEN:
        message = f"recipe.loss.ahead weighs tokens further ahead, but recipe.objective is {spec.name}"
        origins.add(problems, message, ("recipe", "loss", "ahead"), OBJECTIVE, notes=("leave it out",))
    for term, nothing in LIKELIHOOD.items():
        if not spec.likelihood and getattr(recipe.loss, term) != nothing:
            message = f"recipe.loss.{term} is added to a cross-entropy, but {spec.name} minimises none"
            origins.add(problems, message, ("recipe", "loss", term), OBJECTIVE, notes=("leave it out",))
    for metric, place in _numbers_of(judge, design):
        plain = metric.removesuffix(AVERAGED)
        if plain in OF_OBJECTIVE and plain not in spec.measures:
            has = listed(("eval_loss", *spec.measures))
            message = f"{metric} is not measured: recipe.objective is {spec.name}"
            origins.add(problems, message, place, OBJECTIVE, notes=(f"its evaluations give {has}",))


def check_measure(
    recipe: Recipe,
    measure: Measure,
    known: Map[str, ObjectiveSpec],
    probes: Map[str, ProbeSpec],
    origins: Origins,
    problems: Problems,
) -> None:
    """Report an evaluation of too few examples, and a probe over positions where sequences are filled up."""
    spec = known[recipe.objective.name]
    settings = spec.read(recipe.objective.settings)
    if (windows := measure.evaluation.windows) < settings.fewest:
        message = f"measure.evaluation.windows is {windows}, but {spec.name} makes its examples of {settings.fewest}"
        place = ("measure", "evaluation", "windows")
        origins.add(problems, message, place, OBJECTIVE, notes=(f"set it to {settings.fewest} at least",))
    if "padding" not in settings.special:
        return
    for name in measure.probes:
        if name in probes and probes[name].reads == "kernel":
            message = f"{name} is over positions, but in batches of {spec.name} sequences are of different lengths"
            notes = ("leave it out; token_correlation has one number for each layer, of tokens alone",)
            origins.add(problems, message, ("measure", "probes"), OBJECTIVE, notes=notes)


def check_corpus(
    recipe: Recipe,
    data: Data,
    judge: Judge | None,
    design: Design | None,
    known: Map[str, ObjectiveSpec],
    corpora: Map[str, CorpusSpec],
    origins: Origins,
    problems: Problems,
) -> None:
    """Report a corpus that an objective cannot read, and bits per byte of one that is no text."""
    corpus: Settings = corpora[data.corpus.name].read(data.corpus.settings)
    frames = corpus.layout is not None and corpus.layout.kind == "frames"
    if frames and known[recipe.objective.name].reads != PAIRS:
        able = sorted(spec.name for spec in known.values() if spec.reads == PAIRS)
        message = f"recipe.objective is {recipe.objective.name}, which reads no frames, but {data.corpus.name} has them"
        way = f"recipe.objective: {' or '.join(able)}, with model.kind: encoder_decoder"
        origins.add(problems, message, ("data", "corpus"), OBJECTIVE, notes=(way,))
    if known[recipe.objective.name].reads == PAIRS and not corpus.pairs and not frames:
        message = f"recipe.objective is {recipe.objective.name}, which reads pairs, but {data.corpus.name} has none"
        notes = (
            "pairs that are on every machine: corpus: code_docstrings",
            "pairs of the hub: {hub_pairs: NAME, split: train, source: FIELD, target: FIELD}",
            "frames with what is said in them: corpus: {drawn_speech: 20000}",
        )
        origins.add(problems, message, ("data", "corpus"), OBJECTIVE, notes=notes)
    for metric, place in _numbers_of(judge, design) if corpus.layout is not None else ():
        if metric.removesuffix(AVERAGED) == BITS:
            message = f"{metric} is of bytes of text, and {data.corpus.name} is none: an example is {corpus.layout}"
            origins.add(problems, message, place, ("data", "corpus"), notes=("judge eval_loss or eval_accuracy",))


def _numbers_of(judge: Judge | None, design: Design | None) -> Iterator[tuple[str, Keys]]:
    """Yield the metrics that are judged or searched for, with their places."""
    if judge is not None:
        yield from ((metric, ("judge", "metrics", metric)) for metric in judge.metrics)
    if design is not None and design.search is not None:
        yield from ((metric, ("design", "search", "objective", metric)) for metric in design.search.objective)
