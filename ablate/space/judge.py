"""Judge: what is measured, what of it is judged and how, and the claims that a space is to test."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from ablate.grammar.grammar import Grammar
from ablate.source.document import shown, validate
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, nearest, quote
from ablate.source.yaml import overlay
from ablate.space.documents import (
    HINTS,
    PERCENT,
    Count,
    Document,
    Later,
    OrNone,
    PositiveDecay,
    SectionReader,
    as_tuple,
)
from ablate.space.metrics import DIRECTIONS, Better, askable_probes, directions, judgeable
from ablate.space.overlay import GRAMMAR, Keys, Origins, replaced, without

# The sections `measure` and `judge`


class Evaluation(Document):
    """Loss on `windows` windows of a held-out split, every `every` steps and after the last.

    Each seed draws its windows, the same for all variants and at every step (see `data/batch.py`).
    """

    every: Count
    windows: Count


class Measure(Document):
    """The measurements during training, and their steps.

    Probes of activations are read at evaluations; those of parameters and gradients, and metrics of a training step,
    every `every` steps and at both ends. `train_loss_ema` is the decay of a moving average (none: it is not measured).
    """

    every: Count
    probes: Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
    evaluation: Evaluation
    checkpoint_every: Count
    train_loss_ema: Annotated[
        PositiveDecay | None, OrNone, Later, Field(description="none, or a decay between 0 and 1 such as 0.99")
    ] = None


Size: TypeAlias = (
    Annotated[float, Field(gt=0, allow_inf_nan=False)]
    | Annotated[str, Field(pattern=PERCENT, description="a share above 0 % such as 1%")]
)
"""The size of a difference: absolute, or a share of the baseline's mean."""


class Judged(Document):
    """How a metric is judged: a margin of equivalence (`1%` of the baseline's mean, or an absolute number) and a scale.

    On the `log` scale differences are ratios, and a margin of 5 % means a factor of 1.05. Where neither side is better
    (`none`), a difference is higher or lower.
    """

    margin: Size | Literal["none"]
    scale: Literal["linear", "log"]
    better: Better


Foreseen = Literal["better", "worse", "higher", "lower", "equivalent"]


Sign = Literal["positive", "negative"]


STEP = "<"  # the sign between the names of an order, the lower first


FORECAST = "forecast."  # the prefix of a number of a forecast, with which a metric may be claimed to correlate


FORECAST_NUMBERS = ("growth", "cosine", "gradient", "logits")  # these numbers: see `plan/plan.py`


FORMS = ("of", "order", "equivalent", "correlation")  # the forms of a claim by their keys: a claim has exactly one


class Expected(Document):
    """A claim, written before it is run, in one of four forms.

    `of` is a variant, judged against the baseline, or an edit: the verdict on the metric is one of `verdict`, which are
    `higher` and `lower` in place of `better` and `worse` where neither side of the metric is better. `order` is
    `a < b < c` of variants, the lowest first, and `equivalent` a list of them: each step of it holds. `correlation`
    is another metric, or a number of the forecast such as `forecast.cosine`, whose correlation with `metric` over the
    variants, within each seed, has the sign `verdict`. `by` is the size of the difference (of each step), or of the
    correlation, that its power is reported for, written as a margin is; it has no part in the verdict.
    """

    claim: Annotated[str, Field(min_length=1)]
    of: str | None = None
    metric: str
    verdict: (
        Literal["better", "worse", "higher", "lower", "equivalent", "positive", "negative"]
        | Annotated[
            tuple[Foreseen, ...],
            BeforeValidator(as_tuple),
            Field(min_length=1, description="a list such as [better, equivalent]"),
        ]
    ) = ()
    by: Size | None = None
    order: str | None = None
    equivalent: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] | None = None
    correlation: str | None = None

    @property
    def verdicts(self) -> tuple[Foreseen | Sign, ...]:
        """The verdicts of which one is expected; none of an order or of equivalents, which say it themselves."""
        return self.verdict if isinstance(self.verdict, tuple) else (self.verdict,)

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(form for form in FORMS if getattr(self, form) is not None)

    @property
    def variants(self) -> tuple[str, ...]:
        if self.order is not None:
            return tuple(name.strip() for name in self.order.split(STEP))
        return self.equivalent or ()

    @property
    def about(self) -> str:
        if self.correlation is not None:
            return f"with {self.correlation}"
        return self.of if self.of is not None else (f" {STEP} " if self.order else ", ").join(self.variants)


class Judge(Document):
    """The metrics that are judged, and the block that the others are compared with.

    `confidence` is that of the intervals printed. `family` is the set over which the chance of any false verdict is
    bounded: the comparisons on one metric, or on all. `budget`: each question has an account of its own, or all those
    on a metric in the results `folder` that share a training have one. `pairing` by seed is used where it is possible,
    or required of every comparison. `expect` are the claims to test.
    """

    metrics: Annotated[dict[str, Judged], Field(min_length=1)]
    against: str
    confidence: Annotated[float, Field(gt=0.5, lt=1)]
    family: Literal["metric", "page"] = "metric"
    budget: Literal["question", "folder"] = "question"
    pairing: Literal["possible", "required"] = "possible"
    expect: Annotated[tuple[Expected, ...], BeforeValidator(as_tuple)] = ()


# Claims: their form, and whether a verdict can speak for and against

EQUIVALENT = "equivalent"
SIGNS = {"positive", "negative"}
WAYS_OF_FORMS = {
    "of": "such as verdict: better, or verdict: [better, equivalent]",
    "order": "leave verdict out: an order says what is lower",
    "equivalent": "leave verdict out: equivalents say it themselves",
    "correlation": "such as verdict: positive",
}


def check_claims(judge: Judge, origins: Origins, problems: Problems) -> None:
    """Report claims of no form or several, with a verdict not of their form, or that any verdict or none confirms.

    Undecided confirms nothing, so a claim says something if one verdict that can be given speaks against it. Without a
    margin nothing is ever equivalent.
    """
    for position, claim in enumerate(judge.expect):
        metric = judge.metrics.get(claim.metric)
        if metric is None:  # reported where the claim is read
            continue
        _ClaimCheck(claim, metric, position, origins, problems).report()


class _ClaimCheck:
    def __init__(self, claim: Expected, metric: Judged, position: int, origins: Origins, problems: Problems):
        self.claim, self.metric, self.keys = claim, metric, ("judge", "expect", position)
        self.different = set[str](directions(metric.better))
        self.origins, self.problems = origins, problems

    def report(self) -> None:
        forms = self.claim.forms
        if len(forms) != 1:
            held = f"has {' and '.join(forms)}" if forms else "says nothing of what it is about"
            way = "such as of: op, or order: a < b < c, or equivalent: [a, b]"
            self._add(f"{held}: it takes exactly one of {', '.join(FORMS)}", forms[-1] if forms else "", way)
            return
        form = forms[0]
        if self._fits(form):
            self._check_names(form)
            self._check_possible(form)

    def _fits(self, form: str) -> bool:
        given = set(self.claim.verdicts)
        wanted = {"of": {*self.different, EQUIVALENT}, "correlation": SIGNS}.get(form, set())
        if given <= wanted and bool(given) == bool(wanted):
            return True
        other = given.intersection(DIRECTIONS).difference(self.different) if form == "of" else set()
        what = "has no verdict" if not given else f"cannot have the verdict {', '.join(sorted(other or given))}"
        why, way = self._of_other_sides() if other else ("", WAYS_OF_FORMS[form])
        self._add(f"{what}{why}", "verdict" if given else form, way)
        return False

    def _of_other_sides(self) -> tuple[str, str]:
        """The reason why a metric has no such verdict, and the verdicts that it has."""
        name, better = self.claim.metric, self.metric.better
        way = f"it is {', '.join(directions(better))} or equivalent"
        if better != "none":
            return f": {better} is better of {name}", way
        return f": neither side of {name} is better", f"{way}, unless judge.metrics.{name}.better names a side"

    def _check_names(self, form: str) -> None:
        names = self.claim.variants
        if form in ("order", EQUIVALENT) and (len(names) < 2 or len(set(names)) < len(names) or not all(names)):
            way = "such as order: a < b < c, the lowest first" if form == "order" else "such as equivalent: [a, b, c]"
            self._add("needs two or more different variants", form, way)
        if form == "correlation" and self.claim.correlation == self.claim.metric:
            self._add(f"is about the correlation of {self.claim.metric} with itself", form, "name another metric")
        by = self.claim.by
        if form == "correlation" and by is not None and not (isinstance(by, float) and by < 1):
            self._add(f"is about a correlation of {by}", "by", "such as by: 0.5")

    def _check_possible(self, form: str) -> None:
        """Report a claim that every verdict confirms, or none that can be given."""
        unmargined = self.metric.margin == "none"
        expected = {EQUIVALENT} if form == EQUIVALENT else set(self.claim.verdicts)
        why = f", since {self.claim.metric} has no margin" if unmargined else ""
        if form == "of" and (self.different if unmargined else {*self.different, EQUIVALENT}) <= expected:
            way = "leave out the verdict that would speak against it"
            self._add(f"allows every verdict{why}: whatever is seen, it comes true", "verdict", way)
        elif unmargined and expected == {EQUIVALENT}:
            way = f"give {self.claim.metric} a margin: judge: {{metrics: {{{self.claim.metric}: {{margin: 1%}}}}}}"
            key = form if form == EQUIVALENT else "verdict"
            self._add(f"cannot come true: nothing is equivalent{why}", key, way)

    def _add(self, message: str, key: str, way: str) -> None:
        place = self.origins.value(*self.keys, key) if key else self.origins.key(*self.keys)
        self.problems.add(f"the claim {quote(self.claim.claim)} {message}", place, notes=(way,))


PROBED = ("measure", "probes")
ABSENT = (None, "none")  # the values of an optional field that is not there


class JudgeReader(SectionReader):
    def __init__(self, located: Mapping, grammar: Grammar, problems: Problems, origins: Origins):
        super().__init__(located, grammar, problems, origins)
        self.probes, self.metrics = askable_probes(grammar.catalogue), judgeable(grammar.catalogue)

    def measure(self) -> Measure | None:
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
        return self.section("measure", Measure)

    def judge(self, measure: Measure | None) -> Judge | None:
        """Read the section; `each` holds the defaults of every metric."""
        located = self.located.get("judge")
        if not isinstance(located, Mapping):
            return self.section("judge", Judge)
        each, metrics = located.get("each"), located.get("metrics")
        if each is not None and not isinstance(each, Mapping):
            message, notes = f"judge.each: expected a mapping, got {shown(each)}", ("such as each: {margin: 1%}",)
            self.problems.add(message, each.span, notes=notes)
            return None
        plain = without(located, "each")
        self._check_expected(located.get("expect"), metrics)
        if isinstance(metrics, Mapping):
            full = tuple(
                (key, value if each is None else overlay(self._defaults(str(key.value), each), value))
                for key, value in metrics.entries
            )
            plain = replaced(plain, "metrics", Mapping(full, metrics.span))
            for key, _ in metrics.entries:
                self.check_metric(key, measure, "judged", ("judge", "metrics"))
        self._check_correlated(located.get("expect"), measure)
        judge = validate(Judge, self.opened("judge", plain.entries), self.problems, "judge", HINTS)
        if judge is not None:
            check_claims(judge, self.origins, self.problems)
        return judge

    def _defaults(self, metric: str, each: Mapping) -> Mapping:
        """Return those of `each`, with the better side of the metric unless the space has one for each."""
        if "better" in each and self.origins.layer(each.key("better").span) > GRAMMAR:
            return each
        better = self.metrics[metric].better if metric in self.metrics else "lower"
        own = Scalar("better", "better", each.span), Scalar(better, better, each.span)
        return Mapping((*without(each, "better").entries, own), each.span)

    def _check_expected(self, located: Located | None, metrics: Located | None) -> None:
        if not isinstance(located, Items) or not isinstance(metrics, Mapping):
            return
        for claim in located.items:
            metric = claim.get("metric") if isinstance(claim, Mapping) else None
            if isinstance(metric, Scalar) and metric.value not in metrics:
                message = f"a claim is about {quote(metric.text)}, which is not judged"
                self.problems.add_unknown(message, metric.span, metric.text, tuple(metrics), "judged are")

    def _check_correlated(self, located: Located | None, measure: Measure | None) -> None:
        for position, claim in enumerate(located.items if isinstance(located, Items) else ()):
            other = claim.get("correlation") if isinstance(claim, Mapping) else None
            if isinstance(other, Scalar) and other.text.startswith(FORECAST):
                known = [f"{FORECAST}{name}" for name in FORECAST_NUMBERS]
                if other.value not in known:
                    message = f"no forecast has the number {quote(other.text)}"
                    self.problems.add_unknown(message, other.span, other.text, known, "a forecast has")
            elif isinstance(other, Scalar):
                self.check_metric(other, measure, "correlated", ("judge", "expect", position))

    def check_metric(self, key: Scalar, measure: Measure | None, use: str, within: Keys) -> None:
        """Note a metric that is unknown, or that is not measured in this space; `use` says what for."""
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
        """Note a metric that needs a field of the space which is not given."""
        address = self.metrics[str(key.value)].field
        section, _, name = address.partition(".")
        located = self.located.get(section) if address else None
        value = located.get(name) if isinstance(located, Mapping) else None
        if isinstance(located, Mapping) and (value is None or (isinstance(value, Scalar) and value.value in ABSENT)):
            message = f"{key.text} is {use} but {address} is not given"
            both = ((*within, key.text), (section, name) if value is not None else (section,))
            self.origins.add(self.problems, message, *both, notes=HINTS.way(address))
