"""Fits: whether the sections of a space fit one another, also with changes; how much of a streamed corpus is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import replace
from importlib.util import find_spec
from typing import Final, get_args

from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Sizes
from ablate.output.words import listed, plural
from ablate.source.located import Mapping, to_python
from ablate.source.problems import Problems
from ablate.space.data import CorpusSettings, CorpusSpec, Data, Layout
from ablate.space.design import Design
from ablate.space.judge import Judge, Measure
from ablate.space.metrics import AVERAGED, BITS, OF_OBJECTIVE, known_probes
from ablate.space.model import WITH_ENCODER, Model, check_encoder, check_source
from ablate.space.overlay import Keys, Origins
from ablate.space.recipe import NEXT_TOKEN, Augment, ObjectiveSpec, Recipe
from ablate.space.schedule import sequences_of, smallest_batch

TEXT: Final = "text"
READ_BY: Final[Map[str, tuple[str, ...]]] = {
    "decoder": (TEXT,),
    "encoder": (TEXT,),
    WITH_ENCODER: (TEXT, "frames"),
    "vit": ("images",),
    "mlp": ("images",),
}
"""The examples that a model of each kind reads."""
CORPUS_WITH: Final[Map[str, str]] = {
    TEXT: "corpus: python_stdlib",
    "images": "corpus: digits, or {drawn_images: 20000}; of the hub: hub_images",
    "frames": "corpus: {drawn_speech: 20000}",
}
"""A corpus of each, without a download."""
CORPUS: Final[Keys] = ("data", "corpus")
OBJECTIVE: Final[Keys] = ("recipe", "objective")
KIND: Final[Keys] = ("model", "kind")
AUGMENT: Final[Keys] = ("recipe", "augment")
PAIRS: Final = "pairs"
LIKELIHOOD: Final = {"label_smoothing": 0.0, "z": 0.0}
"""The terms of `recipe.loss` that are of a cross-entropy alone, at the values at which they add nothing."""
OR_LEAVE_OUT: Final = "or leave it out"
CHANNELS: Final = (1, 3)  # the numbers of channels of images that torchvision transforms: grey, or colours


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
    """Report sections that do not fit one another; one that is None has a mistake, and is left out."""
    check = _FitCheck(judge, design, catalogue, origins, problems)
    if model is not None:
        check_encoder(model, origins, problems)
    if model is not None and data is not None:
        check.corpus_of_model(model, data)
    if recipe is None:
        return
    if model is not None:
        check.ahead(model, recipe)
        check.objective(model, recipe)
    if measure is not None:
        check.measure(recipe, measure)
    if data is not None:
        check.corpus_of_objective(recipe, data)
        check.augmentation(recipe, data)


def layout_of(data: Data, catalogue: Catalogue) -> Layout | None:
    """Return the layout of the examples of a corpus; None if they are text."""
    return corpus_settings(data, catalogue).layout


def corpus_settings(data: Data, catalogue: Catalogue) -> CorpusSettings:
    settings: CorpusSettings = catalogue.of_kind(CorpusSpec)[data.corpus.name].read(data.corpus.settings)
    return settings


class _FitCheck:
    def __init__(
        self, judge: Judge | None, design: Design | None, catalogue: Catalogue, origins: Origins, problems: Problems
    ):
        self.judge, self.design, self.catalogue = judge, design, catalogue
        self.origins, self.problems = origins, problems
        self.objectives = catalogue.of_kind(ObjectiveSpec)

    def _add(self, message: str, *paths: Keys, notes: Iterable[str]) -> None:
        self.origins.add(self.problems, message, *paths, notes=notes)

    def corpus_of_model(self, model: Model, data: Data) -> None:
        """Report a corpus that its model cannot read, settings for other data, and a source of no or wrong length."""
        layout, name = layout_of(data, self.catalogue), data.corpus.name
        frames = layout.shape[0] if layout is not None and layout.kind == "frames" else None
        check_source(model, frames, self.origins, self.problems)
        given = TEXT if layout is None else layout.kind
        reads = READ_BY.get(model.kind, (given,))
        if given not in reads:
            kinds = get_args(Model.model_fields["kind"].annotation)
            others = [kind for kind, known in READ_BY.items() if given in known and kind in kinds]
            message = f"corpus {name} is {given}, but a model of kind {model.kind} reads {' or '.join(reads)}"
            notes = [*(CORPUS_WITH[kind] for kind in reads), *[f"or model.kind: {' or '.join(others)}"] * bool(others)]
            self._add(message, CORPUS, KIND, notes=notes)
            return
        if layout is not None and data.tokenizer != "bytes":
            message = f"corpus {name} is {given}, which no tokenizer cuts into tokens"
            self._add(message, ("data", "tokenizer"), CORPUS, notes=("leave data.tokenizer out, or let it be bytes",))
        if data.whiten is not None and given != "images":
            message = f"corpus {name} is {given}, and only images are whitened"
            self._add(message, ("data", "whiten"), CORPUS, notes=("leave it out, or let it be null",))
        if model.source is not None and frames is not None and model.source != frames:
            message = f"model.source is {model.source:,}, but an example of {name} has {frames:,} frames"
            notes = [f"it is the length of what the encoder reads: source: {frames}"]
            self._add(message, ("model", "source"), CORPUS, notes=notes)

    def objective(self, model: Model, recipe: Recipe) -> None:
        """Report an objective that the model cannot have, terms that cannot be added to it, and numbers it has not."""
        spec = self.objectives[recipe.objective.name]
        if model.kind not in spec.models:
            able = sorted(other.name for other in self.objectives.values() if model.kind in other.models)
            message = f"recipe.objective is {spec.name}, which a model of kind {model.kind} cannot learn"
            can = f"a model of kind {model.kind} can learn: {', '.join(able)}"
            notes = (f"it is for model.kind: {', '.join(spec.models)}", can)
            self._add(message, OBJECTIVE if self.origins.written(*OBJECTIVE) else KIND, KIND, notes=notes)
        settings = spec.read(recipe.objective.settings)
        for address, reason, way in settings.unfit(model, recipe):
            path = tuple(address.split("."))
            value = self.origins.written(*path)
            shown = f" is {to_python(value)}" if value is not None and not isinstance(value, Mapping) else ""
            self._add(f"{address}{shown}, but {spec.name} needs more: {reason}", path, OBJECTIVE, notes=(way,))
        path = ("recipe", "batch") if recipe.batch_ramp is None else ("recipe", "batch_ramp", "from")
        self._check_number(path, smallest_batch(recipe), spec.name, settings.fewest)
        if recipe.loss.ahead and recipe.objective != NEXT_TOKEN:
            message = f"recipe.loss.ahead weighs tokens further ahead, but recipe.objective is {spec.name}"
            self._add(message, ("recipe", "loss", "ahead"), OBJECTIVE, notes=("leave it out",))
        for term, nothing in LIKELIHOOD.items():
            if not spec.likelihood and getattr(recipe.loss, term) != nothing:
                message = f"recipe.loss.{term} is added to a cross-entropy, but {spec.name} minimises none"
                self._add(message, ("recipe", "loss", term), OBJECTIVE, notes=("leave it out",))
        for metric, place in self._metrics():
            plain = metric.removesuffix(AVERAGED)
            if plain in OF_OBJECTIVE and plain not in spec.measures:
                has = listed(("eval_loss", *spec.measures))
                message = f"{metric} is not measured: recipe.objective is {spec.name}"
                self._add(message, place, OBJECTIVE, notes=(f"its evaluations give {has}",))

    def _check_number(self, path: Keys, number: int, name: str, fewest: int) -> None:
        if number < fewest:
            message = f"{'.'.join(map(str, path))} is {number}, but {name} makes its examples of {fewest}"
            self._add(message, path, OBJECTIVE, notes=(f"set it to {fewest} at least",))

    def measure(self, recipe: Recipe, measure: Measure) -> None:
        """Report an evaluation of too few examples, and a probe over positions where sequences are filled up."""
        spec, probes = self.objectives[recipe.objective.name], known_probes(self.catalogue)
        settings = spec.read(recipe.objective.settings)
        place = ("measure", "evaluation", "windows")
        self._check_number(place, measure.evaluation.windows, spec.name, settings.fewest)
        for name in measure.probes if "padding" in settings.special else ():
            if name in probes and probes[name].reads == "kernel":
                message = f"{name} is over positions, but in batches of {spec.name} sequences are of different lengths"
                notes = ("leave it out; token_correlation has one number for each layer, of tokens alone",)
                self._add(message, ("measure", "probes"), OBJECTIVE, notes=notes)

    def corpus_of_objective(self, recipe: Recipe, data: Data) -> None:
        """Report a corpus that an objective cannot read, and bits per byte of one that is no text."""
        corpus, name, objective = corpus_settings(data, self.catalogue), data.corpus.name, recipe.objective.name
        frames = corpus.layout is not None and corpus.layout.kind == "frames"
        pairs = self.objectives[objective].reads == PAIRS
        if frames and not pairs:
            able = sorted(spec.name for spec in self.objectives.values() if spec.reads == PAIRS)
            message = f"recipe.objective is {objective}, which reads no frames, but {name} has them"
            way = f"recipe.objective: {' or '.join(able)}, with model.kind: encoder_decoder"
            self._add(message, CORPUS, OBJECTIVE, notes=(way,))
        if pairs and not corpus.pairs and not frames:
            message = f"recipe.objective is {objective}, which reads pairs, but {name} has none"
            notes = (
                "pairs that are on every machine: corpus: code_docstrings",
                "pairs of the hub: {hub_pairs: NAME, split: train, source: FIELD, target: FIELD}",
                "frames with what is said in them: corpus: {drawn_speech: 20000}",
            )
            self._add(message, CORPUS, OBJECTIVE, notes=notes)
        for metric, place in self._metrics() if corpus.layout is not None else ():
            if metric.removesuffix(AVERAGED) == BITS:
                message = f"{metric} is of bytes of text, and {name} is none: an example is {corpus.layout}"
                self._add(message, place, CORPUS, notes=("judge eval_loss or eval_accuracy",))

    def _metrics(self) -> Iterator[tuple[str, Keys]]:
        if self.judge is not None:
            yield from ((metric, ("judge", "metrics", metric)) for metric in self.judge.metrics)
        if self.design is not None and self.design.search is not None:
            yield from ((metric, ("design", "search", "objective", metric)) for metric in self.design.search.objective)

    def ahead(self, model: Model, recipe: Recipe) -> None:
        """Report blocks of `model.ahead` that are not as many as their weights in `recipe.loss.ahead`."""
        blocks, weights = model.ahead, recipe.loss.ahead
        if blocks == 0 or (blocks == len(weights) and all(weights)):
            return
        notes: tuple[str, ...]
        if blocks == len(weights):
            has = "a weight of 0: no loss would train that block"
            notes = ("give each block a weight above 0, or leave out the last of both",)
        else:
            example = ", ".join(str(0.5**further) for further in range(1, min(blocks, 3) + 1)) + ", …" * (blocks > 3)
            has = plural(len(weights), "weight") if weights else "none"
            notes = (
                "each block predicts a token that the loss weighs: set recipe.loss.ahead to "
                f"{plural(blocks, 'weight')}, such as [{example}]",
                f"or set model.ahead to {len(weights)}" if weights else "or leave model.ahead out",
            )
        message = f"model.ahead is {blocks}, but recipe.loss.ahead has {has}"
        self._add(message, ("model", "ahead"), ("recipe", "loss", "ahead"), notes=notes)

    def augmentation(self, recipe: Recipe, data: Data) -> None:
        """Report augmentation of no images, of images that it cannot change, and mixtures that cannot be learnt."""
        if recipe.augment == Augment():
            return
        layout, name = layout_of(data, self.catalogue), data.corpus.name
        if layout is None or layout.kind != "images":
            message = f"recipe.augment changes images, but corpus {name} has none"
            self._add(message, AUGMENT, CORPUS, notes=(CORPUS_WITH["images"], OR_LEAVE_OUT))
            return
        if recipe.augment.randaugment is not None:
            at = (*AUGMENT, "randaugment")
            if layout.dtype != "uint8" or layout.shape[0] not in CHANNELS:
                message = f"randaugment changes images of 1 or 3 channels (uint8), but {name} has {layout}"
                self._add(message, at, CORPUS, notes=("leave it out",))
            elif find_spec("torchvision") is None:
                message = "randaugment is done by torchvision, which is not installed"
                self._add(message, at, notes=("pip install 'ablate[images]'", OR_LEAVE_OUT))
        if recipe.augment.mixup and not self.objectives[recipe.objective.name].mixtures:
            able = sorted(spec.name for spec in self.objectives.values() if spec.mixtures)
            message = f"mixup mixes the classes of two examples, which {recipe.objective.name} cannot learn"
            notes = [*(f"recipe.objective: {other}" for other in able), OR_LEAVE_OUT]
            self._add(message, (*AUGMENT, "mixup"), OBJECTIVE, notes=notes)


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
LEAST_BYTES: Final = 2**26  # 64 MiB
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
    """The most bytes of text that are read; None for a corpus that is read whole."""
    return data.corpus.settings.get("at_most")


def streamed(data: Data, recipe: Recipe, *, length: int, windows: int, layout: Layout | None = None) -> Data:
    """Limit a streamed corpus to the bytes that the recipe needs; return other corpora as they are."""
    most = at_most(data)
    if most is None:
        return data
    most = min(most, needed_bytes(data, recipe, length=length, windows=windows, layout=layout))
    corpus = replace(data.corpus, settings={**data.corpus.settings, "at_most": most})
    return data.model_copy(update={"corpus": corpus})
