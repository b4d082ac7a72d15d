"""Fits: whether model, recipe, data, measurements and judge of a space fit one another, as it is and with changes.

They also say together how much of a streamed corpus is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Sizes
from ablate.output.words import listed, plural
from ablate.source.located import Mapping, to_python
from ablate.source.problems import Problems
from ablate.space.data import CorpusSpec, Data, Layout, Settings
from ablate.space.design import Design
from ablate.space.judge import Judge, Measure
from ablate.space.layers import Keys, Origins
from ablate.space.metrics import AVERAGED, BITS, OF_OBJECTIVE, ProbeSpec, known_probes
from ablate.space.model import WITH_ENCODER, Model, check_encoder, check_source
from ablate.space.recipe import NEXT_TOKEN, Augment, ObjectiveSpec, Recipe
from ablate.space.schedule import sequences_of, smallest_batch


def check_fits(
    model: Model | None,
    recipe: Recipe | None,
    data: Data | None,
    measure: Measure | None,
    judge: Judge | None,
    design: Design | None,
    catalogue: Catalogue,
    origins: Origins,
    problems: Problems,
) -> None:
    """Report what does not fit; of a section with a mistake, which is None, nothing is said here."""
    objectives = catalogue.of_kind(ObjectiveSpec)
    if model is not None:
        check_encoder(model, origins, problems)
    if model is not None and data is not None:
        check_layout(model, data, catalogue, origins, problems)
    if recipe is None:
        return
    if model is not None:
        check_ahead(model, recipe, origins, problems)
        check_objective(model, recipe, judge, design, objectives, origins, problems)
    if measure is not None:
        check_measure(recipe, measure, objectives, known_probes(catalogue), origins, problems)
    if data is not None:
        corpora = catalogue.of_kind(CorpusSpec)
        check_corpus(recipe, data, judge, design, objectives, corpora, origins, problems)
        check_augmentation(recipe, data, catalogue, origins, problems)


# Model and corpus: tokens of text, images, or frames

TEXT: Final = "text"
READ_BY: Final[Map[str, tuple[str, ...]]] = {
    "decoder": (TEXT,),
    "encoder": (TEXT,),
    WITH_ENCODER: (TEXT, "frames"),
    "vit": ("images",),
    "mlp": ("images",),
}
"""What a model of each kind reads."""
CORPUS_WITH: Final[Map[str, str]] = {
    TEXT: "corpus: python_stdlib",
    "images": "corpus: digits, or {drawn_images: 20000}; of the hub: hub_images",
    "frames": "corpus: {drawn_speech: 20000}",
}
"""A corpus of each, without a download."""
CORPUS: Final = ("data", "corpus")


def layout_of(data: Data, catalogue: Catalogue) -> Layout | None:
    """Return what the examples of a corpus are; None if they are text."""
    return catalogue.of_kind(CorpusSpec)[data.corpus.name].layout(data.corpus.settings)


def check_layout(model: Model, data: Data, catalogue: Catalogue, origins: Origins, problems: Problems) -> None:
    """Report a corpus that a model of its kind cannot read, and settings of text or images where it is neither.

    Likewise a source whose length is not given, or is not that of the examples.
    """
    layout = layout_of(data, catalogue)
    frames = layout.shape[0] if layout is not None and layout.kind == "frames" else None
    check_source(model, frames, origins, problems)
    given = TEXT if layout is None else layout.kind
    reads = READ_BY.get(model.kind, (given,))
    if given not in reads:
        message = f"corpus {data.corpus.name} is {given}, but a model of kind {model.kind} reads {' or '.join(reads)}"
        others = [kind for kind, known in READ_BY.items() if given in known and kind in _kinds()]
        notes = (*(CORPUS_WITH[kind] for kind in reads), *([f"or model.kind: {' or '.join(others)}"] if others else []))
        origins.add(problems, message, CORPUS, ("model", "kind"), notes=notes)
        return
    if layout is not None and data.tokenizer != "bytes":
        message = f"corpus {data.corpus.name} is {given}, which no tokenizer cuts into tokens"
        notes = ("leave data.tokenizer out, or let it be bytes",)
        origins.add(problems, message, ("data", "tokenizer"), CORPUS, notes=notes)
    if data.whiten is not None and given != "images":
        message = f"corpus {data.corpus.name} is {given}, and only images are whitened"
        origins.add(problems, message, ("data", "whiten"), CORPUS, notes=("leave it out, or let it be null",))
    if model.source is not None and frames is not None and model.source != frames:
        message = f"model.source is {model.source:,}, but an example of {data.corpus.name} has {frames:,} frames"
        notes = (f"it is the length of what the encoder reads: source: {frames}",)
        origins.add(problems, message, ("model", "source"), CORPUS, notes=notes)


def _kinds() -> tuple[str, ...]:
    """Return the kinds of models that there are."""
    return tuple(Model.model_fields["kind"].annotation.__args__)  # type: ignore[union-attr]


# The objective, the model, the corpus, and what is judged

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


# Blocks of `model.ahead` and their weights in `recipe.loss.ahead`


def check_ahead(model: Model, recipe: Recipe, origins: Origins, problems: Problems) -> None:
    """Report a number of blocks that predict tokens further ahead which is not that of the weights of these tokens."""
    blocks, weights = model.ahead, recipe.loss.ahead
    if blocks == 0:
        return
    notes: tuple[str, ...]
    if blocks == len(weights):
        if all(weights):
            return
        message = f"model.ahead is {blocks}, but recipe.loss.ahead has a weight of 0: no loss would train that block"
        notes = ("give each block a weight above 0, or leave out the last of both",)
    else:
        example = ", ".join(str(0.5**further) for further in range(1, min(blocks, 3) + 1)) + ", …" * (blocks > 3)
        has = plural(len(weights), "weight") if weights else "none"
        message = f"model.ahead is {blocks}, but recipe.loss.ahead has {has}"
        notes = (
            "each block predicts a token that the loss weighs: set recipe.loss.ahead to "
            f"{plural(blocks, 'weight')}, such as [{example}]",
            f"or set model.ahead to {len(weights)}" if weights else "or leave model.ahead out",
        )
    origins.add(problems, message, ("model", "ahead"), ("recipe", "loss", "ahead"), notes=notes)


# What a recipe changes in images

AUGMENT: Final[Keys] = ("recipe", "augment")
RANDAUGMENT: Final[Keys] = (*AUGMENT, "randaugment")
MIXUP: Final[Keys] = (*AUGMENT, "mixup")
OR_LEAVE_OUT: Final = "or leave it out"
CHANNELS: Final = (1, 3)
"""How many channels images have that torchvision transforms: grey, or colours."""


def check_augmentation(recipe: Recipe, data: Data, catalogue: Catalogue, origins: Origins, problems: Problems) -> None:
    """Report augmentation of what is no image, of images that it cannot change, and mixtures that cannot be learnt."""
    if recipe.augment == Augment():
        return
    layout = layout_of(data, catalogue)
    if layout is None or layout.kind != "images":
        message = f"recipe.augment changes images, but corpus {data.corpus.name} has none"
        origins.add(problems, message, AUGMENT, CORPUS, notes=(CORPUS_WITH["images"], OR_LEAVE_OUT))
        return
    if recipe.augment.randaugment is not None:
        if layout.dtype != "uint8" or layout.shape[0] not in CHANNELS:
            message = f"randaugment changes images of 1 or 3 channels (uint8), but {data.corpus.name} has {layout}"
            origins.add(problems, message, RANDAUGMENT, CORPUS, notes=("leave it out",))
        elif find_spec("torchvision") is None:
            message = "randaugment is done by torchvision, which is not installed"
            origins.add(problems, message, RANDAUGMENT, notes=("pip install 'ablate[images]'", OR_LEAVE_OUT))
    known = catalogue.of_kind(ObjectiveSpec)
    if recipe.augment.mixup and not known[recipe.objective.name].mixtures:
        able = [spec.name for spec in known.values() if spec.mixtures]
        message = f"mixup mixes the classes of two examples, which {recipe.objective.name} cannot learn"
        notes = (*(f"recipe.objective: {name}" for name in sorted(able)), OR_LEAVE_OUT)
        origins.add(problems, message, MIXUP, ("recipe", "objective"), notes=notes)


# How many bytes a space reads of a streamed corpus: as many as its steps need, but no more than `at_most`
#
#     needed = M b max(E T / r_train,  max over held-out splits of W (T + 1) / r_split)   rounded up to a power of 2
#
# E sequences of T tokens in all batches, W evaluation windows, r a split's share of the text, b bytes per token (1 if
# tokens are bytes, else about 4), M a margin of 2: at half an epoch a fifth of what is read repeats. T is what the
# objective takes of the text: of pairs, a source and a target. Of what is no text, T and T + 1 are 1, and b is the
# bytes of an example.
#
# The number is a power of 2, and at least `LEAST_BYTES`, so that similar recipes share a corpus, and a recipe of few
# steps does not get a poor tokenizer. It depends only on the recipe of the space itself, so that all of its trials
# see the same text, whatever budget or learning rate they are given.

MARGIN_OF_TEXT: Final = 2
LEAST_BYTES: Final = 2**26
"""64 MiB."""
BYTES_PER_TOKEN: Final = {"bytes": 1, "bpe": 4}


def example_length(model: Model, recipe: Recipe, catalogue: Catalogue) -> int:
    """Return the tokens of text that an example of the objective takes; of a pair, those of source and target."""
    spec = catalogue.of_kind(ObjectiveSpec)[recipe.objective.name]
    if spec.reads == "pairs":
        return (model.source or 0) + model.context
    sizes = Sizes(
        n_layers=model.layers,
        d_model=model.width,
        n_heads=model.heads,
        seq_len=model.context,
        vocab_size=1,  # not known before the corpus is read; no length depends on it
        source_len=model.source,
    )
    length: int = spec.read(recipe.objective.settings).window(sizes)
    return length


def needed_bytes(data: Data, recipe: Recipe, *, length: int, windows: int, layout: Layout | None = None) -> int:
    """Return the bytes of text, in examples of a `length`, that training and evaluation need, with the margin.

    With a `layout` they are the bytes of its examples.
    """
    per_token = BYTES_PER_TOKEN["bytes" if data.tokenizer == "bytes" else "bpe"] if layout is None else layout.bytes
    read, held_out = (length, length + 1) if layout is None else (1, 1)
    needs = [sequences_of(recipe) * read / max(1 - data.tuning - data.verdict, 1e-9)]
    needs += [windows * held_out / share for share in (data.tuning, data.verdict) if share > 0]
    return max(LEAST_BYTES, 1 << (int(MARGIN_OF_TEXT * per_token * max(needs)) - 1).bit_length())


def at_most(data: Data) -> int | None:
    """Return the most bytes of text that are read; None for a corpus that is read whole."""
    return data.corpus.settings.get("at_most")


def streamed(data: Data, recipe: Recipe, *, length: int, windows: int, layout: Layout | None = None) -> Data:
    """Limit a streamed corpus to the bytes that the recipe needs; return other corpora as they are."""
    most = at_most(data)
    if most is None:
        return data
    most = min(most, needed_bytes(data, recipe, length=length, windows=windows, layout=layout))
    corpus = replace(data.corpus, settings={**data.corpus.settings, "at_most": most})
    return data.model_copy(update={"corpus": corpus})
