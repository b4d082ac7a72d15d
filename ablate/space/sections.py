"""The sections of a space, one method each: mistakes are noted at their places, and the section is then None."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel

from ablate.block.catalogue import Part
from ablate.block.expression import Block, Node, Sequence
from ablate.block.layers import has_patterns
from ablate.block.read import Invalid
from ablate.extension.configured import Configured
from ablate.grammar.grammar import Grammar
from ablate.source.document import note_unknown_key, shown, validate
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.overlay import overlay
from ablate.source.problems import Problems, nearest, quote
from ablate.space.batch_ramp import counted
from ablate.space.choice import Choice, CorpusChoice, read_choice
from ablate.space.claims import check_claims
from ablate.space.corpora import CorpusSpec, read_corpus_choice
from ablate.space.design import Design
from ablate.space.documents import (
    FORECAST,
    FORECAST_NUMBERS,
    LOOKS,
    NEXT_TOKEN,
    Auto,
    AverageOfLast,
    Data,
    EndRate,
    Judge,
    Measure,
    Model,
    Noise,
    Recipe,
    Saved,
    TokenizerChoice,
    Unigram,
)
from ablate.space.fair import EQUAL_STEPS, Fair, Terms, Tune
from ablate.space.fairness import check_fairness
from ablate.space.ladder import LadderSizes, read_sizes, without_sizes
from ablate.space.layers import lay_on_space
from ablate.space.looks import Looks, check_looks
from ablate.space.metrics import askable_probes, judgeable
from ablate.space.objectives import ObjectiveSpec
from ablate.space.optimizers import OptimizerSpec, ScheduleSpec
from ablate.space.origin import GRAMMAR, Keys, Origins
from ablate.space.samplers import SamplerSpec
from ablate.space.saved_tokenizer import UnusableFileError, read_saved
from ablate.space.search import check_search
from ablate.space.space import Around
from ablate.space.tuning import TuneReader
from ablate.space.vary import VARY, Vary, fill_end, read_vary, without_vary
from ablate.space.ways import HINTS

T = TypeVar("T", bound=BaseModel)
C = TypeVar("C", bound=Configured)

COMPONENTS = {
    "entry_norm": Part("norm", optional=True),
    "final_norm": Part("norm", optional=True),
    "init": Part("init"),
    "head_init": Part("init", optional=True),
}
"""The keys of `model` that hold components; the others are plain values."""
NOT_NEEDED = frozenset({"head_init"})
"""Those of them that came later: left out they are none."""
WRONG_IN_NAME = re.compile(r"^[.-]+|[^A-Za-z0-9_.-]+")
"""Characters that the name of a space must not start with or contain."""
LONGEST_NAME = 64
PROBED = ("measure", "probes")
ABSENT = (None, "none")
"""How an optional field says that it is not there."""
MAX_SEED = 2**31 - 1
MAX_THREADS = 1_024
MAX_SEEDS = 10_000


class Sections:
    """Reads the sections of one resolved space. A section that is missing is None, without a note."""

    def __init__(self, located: Mapping, grammar: Grammar, problems: Problems, origins: Origins):
        self.located, self.grammar, self.problems, self.origins = located, grammar, problems, origins
        self.probes, self.metrics = askable_probes(grammar.catalogue), judgeable(grammar.catalogue)

    def data(self) -> Data | None:
        """Read where the text comes from; some of it must be left for training."""
        located = self.located.get("data")
        if not isinstance(located, Mapping):
            return self._section("data", Data)
        plain = _without_settings(located, "corpus")
        data = validate(Data, self._opened("data", plain.entries), self.problems, "data", HINTS)
        corpus = self._corpus(located)
        if data is not None and data.tuning + data.verdict >= 1:
            held_out = f"{data.tuning:.0%} for tuning and {data.verdict:.0%} for the verdict"
            both, notes = (("data", "tuning"), ("data", "verdict")), ("hold out less, such as 5% each",)
            self.origins.add(self.problems, f"{held_out} leave nothing to train on", *both, notes=notes)
            return None
        tokenizer = None if data is None else self._tokenizer(data)
        if data is None or corpus is None or tokenizer is None:
            return None
        return data.model_copy(update={"corpus": corpus, "tokenizer": tokenizer})

    def _tokenizer(self, data: Data) -> TokenizerChoice | None:
        """Return the tokenizer that `data` names, its file read if it is one; None after a mistake, which is noted."""
        if isinstance(data.tokenizer, Unigram) and find_spec("sentencepiece") is None:
            place = self.origins.key("data", "tokenizer", "unigram")
            notes = ("pip install 'ablate[unigram]'", "or let data.tokenizer be bytes or {bpe: 32000}")
            self.problems.add("unigram is trained by sentencepiece, which is not installed", place, notes=notes)
            return None
        if not isinstance(data.tokenizer, Saved):
            return data.tokenizer
        try:
            return read_saved(data.tokenizer, Path(self.origins.file).parent, self.origins.tokenizers)
        except UnusableFileError as error:
            place = self.origins.value("data", "tokenizer", "file")
            self.problems.add(error.message, place, notes=error.notes)
            return None

    def _corpus(self, located: Mapping) -> CorpusChoice | None:
        """Read the corpus that `data` names, one of the catalogue's; None, without a note, if the key is missing."""
        value, known = located.get("corpus"), self.grammar.catalogue.of_kind(CorpusSpec)
        if value is None:
            return None
        return read_corpus_choice(value, located.key("corpus").span, known, "data.corpus", self.problems, HINTS)

    def threads(self) -> int | None:
        """Read the number of CPU threads of a trial."""
        threads = self.whole("threads")
        if threads is not None and threads > MAX_THREADS:
            self.problems.add(f"at most {MAX_THREADS:,} threads, got {threads:,}", self.located["threads"].span)
            return None
        return threads

    def recipe(self) -> Recipe | None:
        """Read how a model is trained; the optimiser is one of the catalogue's."""
        located = self.located.get("recipe")
        if not isinstance(located, Mapping):
            return self._section("recipe", Recipe)
        plain, schedule = located, located.get("schedule")
        for key in ("optimizer", "objective"):
            plain = _without_settings(plain, key)
        decay = None
        if isinstance(schedule, Mapping):
            plain = overlay(
                plain, Mapping(((located.key("schedule"), _without_settings(schedule, "decay")),), plain.span)
            )
        recipe = validate(Recipe, self._opened("recipe", plain.entries), self.problems, "recipe", HINTS)
        optimizer = self._chosen(located, OptimizerSpec, "recipe.optimizer", "optimizer")
        if isinstance(schedule, Mapping):
            decay = self._chosen(schedule, ScheduleSpec, "recipe.schedule.decay", "decay")
        objective = NEXT_TOKEN
        if "objective" in located:
            objective = self._chosen(located, ObjectiveSpec, "recipe.objective", "objective")  # type: ignore[assignment]
        if recipe is None or optimizer is None or decay is None or objective is None:
            return None
        timed = recipe.schedule.model_copy(update={"decay": decay})
        recipe = recipe.model_copy(update={"optimizer": optimizer, "schedule": timed, "objective": objective})
        self._check_lengths(recipe)
        self._check_floor(recipe)
        self._check_ramp(recipe)
        self._check_average(recipe)
        self._check_scale(recipe)
        return recipe

    def _chosen(self, located: Mapping, spec: type[C], where: str, key: str) -> Choice | None:
        """Read what a key chooses among the things of a kind; None, without a note, if the key is missing."""
        value = located.get(key)
        known = self.grammar.catalogue.of_kind(spec)
        return None if value is None else read_choice(value, spec.kind, known, where, self.problems, HINTS)

    def recipe_with(self, over: Mapping, problems: Problems) -> Recipe | None:
        """Read the recipe with `over` laid over the space, as the space itself is read; mistakes go to `problems`."""
        located = lay_on_space(self.located, over, self.grammar.space, self.grammar.catalogue.of_kind(CorpusSpec))
        origins = Origins(located, Path(self.origins.file), self.origins.tokenizers)
        return Sections(located, self.grammar, problems, origins).recipe()

    def _check_floor(self, recipe: Recipe) -> None:
        floor, chosen, at = recipe.schedule.floor, recipe.optimizer, ("recipe", "schedule", "floor")
        peak = chosen.settings["lr"]
        if isinstance(floor, EndRate) and floor.rate > peak:
            message = f"the learning rate ends at {floor.rate:g}, above its peak of {peak:g}"
            notes = ("a schedule decays to its floor: lower the floor, or raise the rate",)
            self.origins.add(self.problems, message, at, ("recipe", "optimizer", chosen.name, "lr"), notes=notes)
        decay = recipe.schedule.decay.name
        schedules = self.grammar.catalogue.of_kind(ScheduleSpec)
        if floor != 0 and not schedules[decay].has_floor:
            notes = ("leave it out, or use a schedule that has one, such as linear",)
            self.origins.add(self.problems, f"a {decay} schedule has no floor", at, (*at[:-1], "decay"), notes=notes)

    def _check_lengths(self, recipe: Recipe) -> None:
        """Check that warm-up and hold together take no more than all steps."""
        lengths = {key: getattr(recipe.schedule, key) for key in ("warmup", "hold")}
        taken = sum(length if isinstance(length, int) else length * recipe.steps for length in lengths.values())
        if taken > recipe.steps + 0.5:
            paths = [("recipe", "schedule", key) for key, length in lengths.items() if length]
            notes = ("a whole number counts steps; a share of them is 5% or 0.05",)
            message = f"warm-up and hold take {round(taken):,} of {recipe.steps:,} steps"
            self.origins.add(self.problems, message, *paths, notes=notes)

    def _check_ramp(self, recipe: Recipe) -> None:
        """Check that the batch grows, and within the steps of the recipe."""
        ramp, at = recipe.batch_ramp, ("recipe", "batch_ramp")
        if ramp is None:
            return
        if ramp.from_ >= recipe.batch:
            message = f"a ramp from {ramp.from_:,} to a batch of {recipe.batch:,} does not grow"
            notes = (f"recipe.batch is where it ends: let it start below {recipe.batch:,}, or leave batch_ramp out",)
            self.origins.add(self.problems, message, (*at, "from"), ("recipe", "batch"), notes=notes)
        growing = counted(ramp.until, recipe.steps)
        if not 1 <= growing <= recipe.steps:
            notes = ("a whole number counts steps; a share of them is 60% or 0.6",)
            message = f"the batch grows over {growing:,} of {recipe.steps:,} steps"
            self.origins.add(self.problems, message, (*at, "until"), ("recipe", "steps"), notes=notes)

    def _check_average(self, recipe: Recipe) -> None:
        """Check that the checkpoints to be averaged are after the first step."""
        average, at = recipe.average, ("recipe", "average")
        if not isinstance(average, AverageOfLast) or (average.last - 1) * average.every < recipe.steps:
            return
        spanned = (average.last - 1) * average.every + 1
        message = (
            f"the last {average.last:,} checkpoints, every {average.every:,} steps, take {spanned:,} steps or more"
        )
        notes = (f"there are {recipe.steps:,}: average fewer checkpoints, or closer ones",)
        self.origins.add(self.problems, message, (*at, "every"), (*at, "last"), ("recipe", "steps"), notes=notes)

    def _check_scale(self, recipe: Recipe) -> None:
        """Check that a scale of the loss is one of float16."""
        if recipe.loss_scale is not None and recipe.dtype != "float16":
            message = f"recipe.loss_scale is for float16, and recipe.dtype is {recipe.dtype}"
            notes = ("leave it out: other types need no scale; or set recipe.dtype: float16",)
            self.origins.add(self.problems, message, ("recipe", "loss_scale"), ("recipe", "dtype"), notes=notes)

    def model(self) -> tuple[Model | None, Around | None]:
        """Read the model around the blocks: plain values, and components."""
        located = self.located.get("model")
        if not isinstance(located, Mapping):
            return self._section("model", Model), None
        located = self._spelt(located)
        plain = tuple((key, value) for key, value in located.entries if key.value in Model.model_fields)
        model = validate(Model, self._opened("model", plain), self.problems, "model", HINTS)
        if model is not None and model.width % model.heads:
            self._note_heads(model)
        return model, self._around(located)

    def _spelt(self, located: Mapping) -> Mapping:
        """Note unknown keys of `model`, and read each as the one most likely meant, so that it is not missing too."""
        plain = Model.model_fields
        known = (*plain, *COMPONENTS)
        needed = [word for word in COMPONENTS if word not in NOT_NEEDED]
        required = [word for word in known if word in needed or (word in plain and plain[word].is_required())]
        entries: list[tuple[Scalar, Located]] = []
        for key, value in located.entries:
            if key.value in known:
                entries.append((key, value))
                continue
            free = [word for word in required if word not in located]
            meant = note_unknown_key(self.problems, key, "model", known, free, "model accepts", HINTS)
            if meant is not None:
                entries.append((Scalar(meant, key.text, key.span), value))
        return Mapping(tuple(entries), located.span)

    def _note_heads(self, model: Model) -> None:
        fitting = next(h for h in range(min(model.heads, model.width), 0, -1) if model.width % h == 0)
        near = model.heads * max(1, round(model.width / model.heads))
        notes = (f"heads must divide the width: set heads to {fitting}, or the width to {near}",)
        message = f"{model.heads} heads do not divide the width {model.width}"
        self.origins.add(self.problems, message, ("model", "heads"), ("model", "width"), notes=notes)

    def _around(self, located: Mapping) -> Around | None:
        reader = self.grammar.reader_for(self.problems)
        parts: dict[str, Node | None] = {}
        for name, kind in COMPONENTS.items():
            value = located.get(name)
            if value is None and name in NOT_NEEDED:
                parts[name] = None
                continue
            if value is None:
                self.problems.add(f"missing key {name!r} in model", self.located.key("model").span)
                continue
            try:
                part = reader.value(value, kind)
            except Invalid:
                continue
            assert part is None or isinstance(part, Node)
            if part is not None and has_patterns(Sequence((part,)), reader.catalogue):
                message, notes = f"{name} is outside the layers, where no pattern applies", ("give a single component",)
                self.problems.add(message, value.span, notes=notes)
                continue
            parts[name] = part
        if len(parts) < len(COMPONENTS) or parts["init"] is None:
            return None
        return Around(parts["entry_norm"], parts["final_norm"], parts["init"], parts["head_init"])

    def measure(self) -> Measure | None:
        """Read which probes run, and when."""
        located = self.located.get("measure")
        probes = located.get("probes") if isinstance(located, Mapping) else None
        seen: set[object] = set()
        for item in probes.items if isinstance(probes, Items) else ():
            if not isinstance(item, Scalar) or not isinstance(item.value, str):
                continue  # noted when the document is validated
            if item.value not in self.probes:
                message, command = f"unknown probe {quote(item.text)}", "ablate list probes"
                self.problems.add_unknown(message, item.span, item.text, self.probes, "probes", command=command)
            elif item.value in seen:
                self.problems.add(f"probe {item.value} is listed twice", item.span)
            seen.add(item.value)
        return self._section("measure", Measure)

    def judge(self, measure: Measure | None) -> Judge | None:
        """Read what is compared; `each` holds the defaults of every metric."""
        located = self.located.get("judge")
        if not isinstance(located, Mapping):
            return self._section("judge", Judge)
        each, metrics = located.get("each"), located.get("metrics")
        if each is not None and not isinstance(each, Mapping):
            message, notes = f"judge.each: expected a mapping, got {shown(each)}", ("such as each: {margin: 1%}",)
            self.problems.add(message, each.span, notes=notes)
            return None
        entries = [(key, value) for key, value in located.entries if key.value != "each"]
        self._check_expected(located.get("expect"), metrics)
        if isinstance(metrics, Mapping):
            full = tuple(
                (key, value if each is None else overlay(self._defaults(str(key.value), each), value))
                for key, value in metrics.entries
            )
            filled = Mapping(full, metrics.span)
            entries = [(key, filled if key.value == "metrics" else value) for key, value in entries]
            for key, _ in metrics.entries:
                self._check_metric(key, measure, "judged", ("judge", "metrics"))
        self._check_correlated(located.get("expect"), measure)
        judge = validate(Judge, self._opened("judge", tuple(entries)), self.problems, "judge", HINTS)
        if judge is not None:
            check_claims(judge, self.origins, self.problems)
        return judge

    def _defaults(self, metric: str, each: Mapping) -> Mapping:
        """Return the defaults of a metric: those of each, and its better side unless the space has one for each."""
        if "better" in each and self.origins.layer(each.key("better").span) > GRAMMAR:
            return each
        better = self.metrics[metric].better if metric in self.metrics else "lower"
        entries = (entry for entry in each.entries if entry[0].value != "better")
        own = Scalar("better", "better", each.span), Scalar(better, better, each.span)
        return Mapping((*entries, own), each.span)

    def _check_expected(self, located: Located | None, metrics: Located | None) -> None:
        """Note claims about a metric that is not judged."""
        if not isinstance(located, Items) or not isinstance(metrics, Mapping):
            return
        for claim in located.items:
            metric = claim.get("metric") if isinstance(claim, Mapping) else None
            if isinstance(metric, Scalar) and metric.value not in metrics:
                message = f"a claim is about {quote(metric.text)}, which is not judged"
                self.problems.add_unknown(message, metric.span, metric.text, tuple(metrics), "judged are")

    def _check_correlated(self, located: Located | None, measure: Measure | None) -> None:
        """Note claims about a correlation with a metric that is not measured, or with what no forecast has."""
        for position, claim in enumerate(located.items if isinstance(located, Items) else ()):
            other = claim.get("correlation") if isinstance(claim, Mapping) else None
            if isinstance(other, Scalar) and other.text.startswith(FORECAST):
                known = [f"{FORECAST}{name}" for name in FORECAST_NUMBERS]
                if other.value not in known:
                    message = f"no forecast has the number {quote(other.text)}"
                    self.problems.add_unknown(message, other.span, other.text, known, "a forecast has")
            elif isinstance(other, Scalar):
                self._check_metric(other, measure, "correlated", ("judge", "expect", position))

    def _check_metric(self, key: Scalar, measure: Measure | None, use: str, within: Keys) -> None:
        if key.value not in self.metrics:
            message, lead = f"unknown metric {quote(key.text)}", f"metrics that can be {use}"
            self.problems.add_unknown(message, key.span, key.text, self.metrics, lead, command="ablate list metrics")
            return
        probe = self.metrics[str(key.value)].probe
        meant = () if measure is None else (*measure.probes, *(nearest(word, self.probes) for word in measure.probes))
        self._check_given(key, use, within)
        if measure is not None and probe is not None and probe not in meant:
            notes = (f"add {probe} to measure.probes",)
            message, both = f"{key.text} is {use} but the probe {probe} does not run", ((*within, key.text), PROBED)
            self.origins.add(self.problems, message, *both, notes=notes)

    def _check_given(self, key: Scalar, use: str, within: Keys) -> None:
        """Note a metric that is there only where a field of the space is given, if it is not."""
        address = self.metrics[str(key.value)].field
        section, _, name = address.partition(".")
        located = self.located.get(section) if address else None
        value = located.get(name) if isinstance(located, Mapping) else None
        if isinstance(located, Mapping) and (value is None or (isinstance(value, Scalar) and value.value in ABSENT)):
            message = f"{key.text} is {use} but {address} is not given"
            both = ((*within, key.text), (section, name) if value is not None else (section,))
            self.origins.add(self.problems, message, *both, notes=HINTS.way(address))

    def design(self, measure: Measure | None, recipe: Recipe | None, seeds: tuple[int, ...] | None) -> Design | None:
        """Read which blocks are compared or searched; a design has exactly one kind."""
        located = self.located.get("design")
        search = located.get("search") if isinstance(located, Mapping) else None
        objective = search.get("objective") if isinstance(search, Mapping) else None
        for key, _ in objective.entries if isinstance(objective, Mapping) else ():
            self._check_metric(key, measure, "searched for", ("design", "search", "objective"))
        if not isinstance(located, Mapping):
            return self._section("design", Design)
        plain, vary = self._vary(located)
        plain, sizes = self._sizes(plain)
        sampler = None
        if isinstance(search, Mapping):
            without = without_vary(_without_settings(search, "sampler"))
            plain = overlay(plain, Mapping(((located.key("search"), without),), located.span))
            sampler = self._chosen(search, SamplerSpec, "design.search.sampler", "sampler")
        design = validate(Design, self._opened("design", plain.entries), self.problems, "design", HINTS)
        if design is None or vary is None or sizes is None:
            return None
        if len(located.entries) != 1:
            notes = (f"one of: {', '.join(Design.model_fields)}",)
            self.problems.add("a design must have exactly one kind", self.origins.section("design"), notes=notes)
            return None
        if design.factorial is not None:
            return design.model_copy(update={"factorial": design.factorial.model_copy(update={"vary": vary})})
        if design.ladder is not None:
            return design.model_copy(update={"ladder": design.ladder.model_copy(update={"sizes": sizes})})
        if design.search is None:
            return design
        if sampler is None:
            return None
        spec = self.grammar.catalogue.of_kind(SamplerSpec)[sampler.name]
        check_search(
            design.search, self.origins, self.problems, sampler=spec, recipe=recipe, measure=measure, seeds=seeds
        )
        searched = design.search.model_copy(update={"sampler": sampler, "vary": vary})
        return design.model_copy(update={"search": searched})

    def _vary(self, located: Mapping) -> tuple[Mapping, Vary | None]:
        """Return the design without the levels of its factors, and these; None after a mistake, which is noted."""
        entries: list[tuple[Scalar, Located]] = []
        found: Vary | None = Vary()
        for key, body in located.entries:
            if isinstance(body, Mapping) and VARY in body and key.value in Design.model_fields:
                searched = key.value == "search"
                if searched or key.value == "factorial":
                    found = read_vary(body.key(VARY), body[VARY], self.problems, ranges=searched)
                else:
                    found = None
                    message = f"{key.text} has no vary: only a factorial and a search try several values"
                    notes = ("such as factorial: {from: pre_ln, to: op, vary: {model.layers: [4, 8, 16]}}",)
                    self.problems.add(message, body.key(VARY).span, notes=notes)
                body = without_vary(body) if searched else fill_end(body)
            entries.append((key, body))
        return Mapping(tuple(entries), located.span), found

    def _sizes(self, located: Mapping) -> tuple[Mapping, LadderSizes | None]:
        """Return the design without the sizes of its ladder, and these; None after a mistake, which is noted."""
        ladder = located.get("ladder")
        if not isinstance(ladder, Mapping):
            return located, LadderSizes()
        entries = ((key, without_sizes(ladder) if body is ladder else body) for key, body in located.entries)
        return Mapping(tuple(entries), located.span), read_sizes(ladder, self.problems)

    def seeds(self) -> tuple[tuple[int, ...] | None, Auto | None]:
        """Read the seeds; with `auto`, or a mapping with its looks, the seeds of the first look, and the looks."""
        located = self.located.get("seeds")
        if isinstance(located, Scalar) and located.value == "auto":
            return tuple(range(LOOKS[0])), Auto(looks=LOOKS)
        if not isinstance(located, Mapping):
            return self._fixed_seeds(), None
        wrapped = Mapping(tuple(e for e in located.entries), self.located.key("seeds").span)
        declared = validate(Looks, wrapped, self.problems, "seeds", HINTS)
        if declared is None:
            return None, None
        if not check_looks(declared.auto, located, self.problems):
            return None, None
        return tuple(range(declared.auto.looks[0])), declared.auto

    def fair(self) -> Fair | None:
        """Read what is held equal, apart from tuning; each of the terms in `under` gives only what it changes."""
        located = self.located.get("fair")
        if located is None:
            return EQUAL_STEPS
        if not isinstance(located, Mapping):
            return self._section("fair", Fair)
        common = tuple((key, value) for key, value in located.entries if key.value in Terms.model_fields)
        under = located.get("under")
        entries = located.entries
        if isinstance(under, Mapping):
            named = tuple(
                (key, overlay(Mapping(common, key.span), value) if isinstance(value, Mapping) else value)
                for key, value in under.entries
            )
            filled = Mapping(named, under.span)
            entries = tuple((key, filled if key.value == "under" else value) for key, value in entries)
        untuned = Scalar("none", "none", located.span)
        entries = tuple((key, untuned if key.value == "tune" else value) for key, value in entries)
        fair = validate(Fair, self._opened("fair", entries), self.problems, "fair", HINTS)
        if fair is not None:
            check_fairness(fair, located, self.located.key("fair").span.source, self.problems)
        return fair

    def tune(
        self, recipe: Recipe | None, blocks: Map[str, Block] | None, others: Map[tuple[str, str], Mapping]
    ) -> Literal["none"] | Tune | None:
        """Read what each block is tuned over; None if that, the recipe or the blocks have a mistake.

        `others` are the optimisers and schedules that variants choose.
        """
        fair = self.located.get("fair")
        located = fair.get("tune") if isinstance(fair, Mapping) else None
        if located is None or (isinstance(located, Scalar) and located.value == "none"):
            return "none"
        if isinstance(fair, Mapping) and isinstance(located, Mapping):
            reader = TuneReader(recipe, self.recipe_with, blocks, self.grammar, self.problems, others)
            return reader.read(fair.key("tune"), located)
        message = f"fair.tune: expected none, or lists of values by address, got {shown(located)}"
        self.problems.add(message, located.span, notes=HINTS.way("fair.tune"))
        return None

    def noise(self) -> Noise | None:
        """Read the A/A arms; None if there are none."""
        located = self.located.get("noise")
        if located is None or (isinstance(located, Scalar) and located.value in (None, "none")):
            return None
        return self._section("noise", Noise)

    def _fixed_seeds(self) -> tuple[int, ...] | None:
        """Read a number of seeds, counted from 0, or a list of them."""
        located = self.located.get("seeds")
        if isinstance(located, Items):
            values = [item.value for item in located.items if isinstance(item, Scalar) and type(item.value) is int]
            different = len(values) == len(located) and 0 < len(set(values)) == len(values) <= MAX_SEEDS
            if different and all(0 <= seed <= MAX_SEED for seed in values):
                return tuple(values)
            bounds = f"from 0 to {MAX_SEED:,}, at most {MAX_SEEDS:,} of them"
            self.problems.add(f"seeds must be different whole numbers {bounds}", located.span)
            return None
        number = self.whole("seeds")
        if number is not None and number > MAX_SEEDS:
            assert located is not None
            self.problems.add(f"at most {MAX_SEEDS:,} seeds, got {number:,}", located.span)
            return None
        return None if number is None else tuple(range(number))

    def whole(self, name: str) -> int | None:
        """Read a whole number of at least 1."""
        located = self.located.get(name)
        if located is None:
            return None
        if not isinstance(located, Scalar) or type(located.value) is not int or located.value < 1:
            extra = ", a list of different ones, or auto" if name == "seeds" else ""
            notes = ("such as seeds: 3, seeds: [7, 8] or seeds: auto",) if name == "seeds" else ()
            self.problems.add(f"{name} must be a whole number of at least 1{extra}", located.span, notes=notes)
            return None
        return located.value

    def text(self, name: str) -> str | None:
        """Read a text that is not empty."""
        located = self.located.get(name)
        if located is None:
            return None
        if not isinstance(located, Scalar) or not isinstance(located.value, str) or not located.value.strip():
            self.problems.add(f"{name} must be text, and not empty", located.span)
            return None
        return located.value

    def name(self) -> str | None:
        """Read the name of the space: one short path segment, since its page is a file of that name."""
        name, located = self.text("space"), self.located.get("space")
        if name is None or not isinstance(located, Scalar):
            return None
        wrong = WRONG_IN_NAME.search(name)
        if wrong is not None:
            first = wrong[0][0] in ".-"
            label, place = f"{quote(wrong[0])} is not allowed{' at the start' if first else ''}", wrong.span()
        elif len(name) > LONGEST_NAME:
            label, place = f"{len(name):,} characters", (LONGEST_NAME, len(name))
        elif name.endswith((".yaml", ".yml")):
            label, place = "this is the name of a file", (name.rindex("."), len(name))
        else:
            return name
        words = re.findall(r"[A-Za-z0-9_-]+", name.removesuffix(".yaml").removesuffix(".yml"))
        meant = "_".join(words).lstrip("-")
        self.problems.add(
            "the name of a space must be usable as a file name: its page is written under it",
            located.within(*place),
            label=label,
            notes=(
                f"use at most {LONGEST_NAME} of a-z, A-Z, 0-9, _, - and ., and do not start with - or ."
                + (f", such as {meant}" if 0 < len(meant) <= LONGEST_NAME else ""),
            ),
        )
        return None

    def _section(self, name: str, document: type[T]) -> T | None:
        located = self.located.get(name)
        if isinstance(located, Mapping):
            located = self._opened(name, located.entries)
        return None if located is None else validate(document, located, self.problems, name, HINTS)

    def _opened(self, name: str, entries: tuple[tuple[Scalar, Located], ...]) -> Mapping:
        """Locate a section at its own key, so that missing keys are reported there, not at its first entry."""
        return Mapping(entries, self.located.key(name).span)


def _without_settings(located: Mapping, key: str) -> Mapping:
    """Put a bare word at a key of a mapping: what is chosen there is read separately, with its settings."""
    entries = ((k, Scalar("chosen", "chosen", v.span) if k.value == key else v) for k, v in located.entries)
    return Mapping(tuple(entries), located.span)
