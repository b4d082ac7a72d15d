"""Metrics: those of probes and of training, and the numbers derived from them for each trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from ablate.block.catalogue import Catalogue
from ablate.extension.declaration import PROBE, Declaration, Kind

Better: TypeAlias = Literal["lower", "higher", "none"]  # the side of a metric that is better; `none` where neither is
Direction: TypeAlias = Literal["better", "worse", "higher", "lower"]
"""A word for a difference; `higher` and `lower` where neither side is better."""
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
Reads: TypeAlias = Literal[
    "stream", "sequences", "kernel", "attention", "parameters", "gradients", "layer_gradients", "update"
]
"""The object that a probe reads: the tokens of the stream, its sequences, the stream for a matrix over positions,
attention cores, parameters with their gradients, the gradients that the stream passes back at blocks and the head, or
at layers and behind the last of them, or the stream before and after a step.
"""

PASSED_BACK: frozenset[Reads] = frozenset({"gradients", "layer_gradients"})
"""The gradients of the stream, read in the backward pass."""
IN_STEPS: frozenset[Reads] = frozenset({"parameters", *PASSED_BACK, "update"})
"""The objects that are read in measured steps of training, on their batch; the others are read at evaluations."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place of the stream where a probe may read: the addition to the definitions of its metrics, and the source."""

    definition: str
    source: str


BEFORE_SUBLAYERS: Final = "before_sublayers"
BEHIND_NORMS: Final = "behind_norms"
IN_TRAINING: Final = "in_training"
"""The site that is read in steps of training: the same places as at evaluations, but with dropout."""
SITES: Mapping[str, Site] = {
    BEFORE_SUBLAYERS: Site(
        "read in the residual stream where the sub-layer of each attention and MLP begins", "App. G, arXiv:2405.19279"
    ),
    BEHIND_NORMS: Site(
        "read at what each attention and MLP is given, behind its norm where it has one", "App. G, arXiv:2405.19279"
    ),
    IN_TRAINING: Site("read with dropout, in the forward pass of the step", "Sec. 3.4, arXiv:2403.09635"),
}
"""Places where a probe of the stream may read, besides the inputs of the blocks and the head (`probes/sites.py`)."""

NATS, BITS = "eval_loss", "eval_bits_per_byte"
"""The held-out loss per token, comparable under one tokenizer, and per byte of text, comparable across tokenizers."""
AVERAGED: Final = "_averaged_weights"
"""The ending of the name of a number of the averaged weights at the end of a trial (`recipe.average`)."""
ACCURACY: Final = "eval_accuracy"  # the share of held-out targets that are predicted
OF_OBJECTIVE = frozenset({BITS, "perplexity", ACCURACY})
"""The numbers of an evaluation that only some objectives measure."""
SMOOTHED: Final = "train_loss_ema"
"""The moving average of the training loss, and the field of `measure` that is its decay."""
LOSSES = (NATS, BITS, "train_loss", SMOOTHED, f"{NATS}{AVERAGED}", f"{BITS}{AVERAGED}")
"""The metrics whose fall with training compute a law describes."""
OF_AVERAGE = tuple(f"{metric}{AVERAGED}" for metric in (NATS, BITS, ACCURACY))
MEASURED_IN_TIME = ("step_seconds", "tokens_per_second")
"""Metrics of the clock: they depend on the machine and its load."""
AT_THE_END = frozenset({NATS, *OF_OBJECTIVE, *OF_AVERAGE, "train_loss", SMOOTHED, "gradient_norm", *MEASURED_IN_TIME})
"""Numbers that do not depend on how often the model is evaluated during training."""


def direction(up: bool, better: Better) -> Direction:
    """Return the word for a difference upwards, or downwards, in a metric of which that side is better.

    >>> direction(True, "lower"), direction(True, "none")
    ('worse', 'higher')
    """
    if better == "none":
        return "higher" if up else "lower"
    return "better" if up == (better == "higher") else "worse"


def directions(better: Better) -> tuple[Direction, Direction]:
    """Return both words for a difference in such a metric: `better` and `worse`, or `higher` and `lower`."""
    return ("higher", "lower") if better == "none" else ("better", "worse")


def of_averaged_weights(metric: str) -> str:
    """Return the name of a number of an evaluation where it is of averaged weights.

    >>> of_averaged_weights("eval_loss")
    'eval_loss_averaged_weights'
    """
    return f"{metric}{AVERAGED}"


@dataclass(frozen=True, slots=True)
class Definition:
    """The meaning of the numbers of a metric: papers differ, so it is stored with the rows."""

    metric: str
    definition: str
    source: str


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest value of a metric, if it has its own definition, or another name than `peak_<metric>`."""

    definition: str
    source: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ProbeMetric(Definition):
    """A metric of a probe. `peak` describes its largest value where that differs from other metrics; `peak_at` by site.

    `at_most` is its upper bound: on a bounded scale, a ratio says little. `better` is its better side, if it has one.
    """

    peak: Peak | None = None
    peak_at: Mapping[str, Peak] = field(default_factory=dict)
    at_most: float | None = None
    better: Better = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSpec(Declaration):
    """A probe as planning sees it: what it reads, where, and its metrics.

    `asked`: it runs only if a space names it; otherwise it runs in every trial. `sites`: it may also read at other
    places of the stream, under other names. `site` is where it reads.
    """

    kind: ClassVar[Kind] = PROBE
    reads: Reads
    metrics: tuple[ProbeMetric, ...]
    asked: bool = True
    sites: bool = False
    site: str = "blocks"

    @property
    def judged(self) -> bool:
        """Return whether its readings are themselves numbers of a trial; the cells of a matrix are not."""
        return self.reads != "kernel"

    @property
    def in_steps(self) -> bool:
        return self.reads in IN_STEPS or self.site == IN_TRAINING


@dataclass(frozen=True, slots=True)
class Judgeable(Definition):
    """A number of a trial that a judge may compare; the probe `probe` must run for it (None: it needs none), and the
    field at the address `field` must be given (empty: it is always there). `better` is its better side unless a space
    names another.
    """

    probe: str | None = None
    field: str = ""
    better: Better = "lower"


OF_SMOOTHED = (
    "exponential moving average of train_loss over all steps, measured or not: a_s = d a_(s-1) + (1 - d) L_s, divided "
    "by 1 - d^(s+1), so that the weights of the losses so far add up to 1; decay d: measure.train_loss_ema"
)
OF_AVERAGED = (
    "at the end of a finished trial, of a model whose trained parameters are averaged as recipe.average says: the mean "
    "over the last checkpoints, so many steps apart, or an exponential moving average over all steps"
)
SOURCE_OF_AVERAGED = "Sec. 6.1, arXiv:1706.03762; Polyak & Juditsky 1992; see ablate/train/optimizer.py"
SOURCE_OF_SMOOTHED = "App. H.1, arXiv:2302.10322, where d = 0.99"

OURS = "this project"
TRAINING = (
    Judgeable(
        NATS,
        "mean of what the objective minimises over the targets of the evaluation, after the last step; of tokens and "
        "classes it is the cross-entropy in nats",
        OURS,
    ),
    Judgeable(
        BITS,
        "sum of nats over the evaluation windows / (ln 2 x UTF-8 bytes of the tokens predicted), after the last "
        "step; comparable across tokenizers, as nats per token are not",
        "arXiv:2101.00027, Section 3.1",
    ),
    Judgeable("perplexity", "exp(eval_loss), after the last step", "Jelinek et al. 1977"),
    Judgeable(
        ACCURACY,
        "share of the targets of the evaluation that have the largest of the logits, after the last step",
        OURS,
        better="higher",
    ),
    Judgeable(
        "mean_eval_loss",
        "mean over the evaluations of eval_loss: of two that end alike, the one that learned sooner is lower",
        OURS,
    ),
    Judgeable(
        "train_loss",
        "mean of what the objective minimises over the targets of the last step's batch, before its update; of tokens "
        "and classes it is the cross-entropy in nats",
        OURS,
    ),
    Judgeable("mean_train_loss", "mean over the measured steps of train_loss", OURS),
    *(
        Judgeable(
            of_averaged_weights(metric),
            f"{metric} {OF_AVERAGED}",
            SOURCE_OF_AVERAGED,
            field="recipe.average",
            better="higher" if metric == ACCURACY else "lower",
        )
        for metric in (NATS, BITS, ACCURACY)
    ),
    Judgeable(SMOOTHED, f"after the last step: {OF_SMOOTHED}", SOURCE_OF_SMOOTHED, field=f"measure.{SMOOTHED}"),
    Judgeable(
        "gradient_norm",
        "2-norm of the gradient of the whole model in the last step, before clipping",
        "Pascanu et al. 2013, arXiv:1211.5063",
        better="none",
    ),
    Judgeable(
        "step_seconds",
        "median over the measured stretches of the mean seconds of a training step; depends on the machine and on its "
        "other load",
        OURS,
    ),
    Judgeable(
        "tokens_per_second",
        "median over the measured stretches of the tokens trained on per second; depends on the machine and on its "
        "other load",
        OURS,
        better="higher",
    ),
)
"""Numbers of a trial that need no probe."""


def known_probes(catalogue: Catalogue) -> Mapping[str, ProbeSpec]:
    """Return every probe by name, with those at other sites: `kurtosis`, `kurtosis_behind_norms`, …"""
    probes = dict(catalogue.of_kind(ProbeSpec))
    for name, spec in catalogue.of_kind(ProbeSpec).items():
        if spec.sites:
            probes |= {f"{name}_{site}": at_site(spec, site) for site in SITES}
    return dict(sorted(probes.items()))


def askable_probes(catalogue: Catalogue) -> tuple[str, ...]:
    return tuple(name for name, spec in known_probes(catalogue).items() if spec.asked)


def at_site(spec: ProbeSpec, site: str) -> ProbeSpec:
    metrics = tuple(
        replace(
            metric,
            metric=f"{metric.metric}_{site}",
            definition=f"{metric.definition}; {SITES[site].definition}",
            source=f"{metric.source}; {SITES[site].source}",
            peak=metric.peak_at.get(site),
            peak_at={},
        )
        for metric in spec.metrics
    )
    return replace(spec, name=f"{spec.name}_{site}", metrics=metrics, site=site)


def judgeable(catalogue: Catalogue) -> Mapping[str, Judgeable]:
    """Return every number that can be judged, by name: those of training, and three for each metric of a probe.

        <metric>        at the end of a finished trial: of the whole model, else the mean over the parts measured
        peak_<metric>   the largest finite value over all parts and steps; some metrics have another name for it
        mean_<metric>   the mean over all parts and steps of a finished trial

    The store computes them from the rows of any metric (`store/summaries.sql`).
    """
    every = [*TRAINING, *(each for name, spec in known_probes(catalogue).items() for each in _of_probe(name, spec))]
    numbers: dict[str, Judgeable] = {}
    for each in every:
        numbers.setdefault(each.metric, each)
    return numbers


def _of_probe(name: str, spec: ProbeSpec) -> Iterator[Judgeable]:
    probe = name if spec.asked else None
    when = "in a measured step" if spec.in_steps else "at an evaluation"
    for metric in spec.metrics if spec.judged else ():
        largest = f"largest finite value, {when} and at any part, of: {metric.definition}"
        peak = metric.peak or Peak(largest, metric.source)
        last = f"mean over the parts measured, at the end, of: {metric.definition}"
        mean = f"mean over the parts and times measured of: {metric.definition}"
        yield Judgeable(peak_name(metric), peak.definition, peak.source, probe, better=metric.better)
        yield Judgeable(metric.metric, last, metric.source, probe, better=metric.better)
        yield Judgeable(f"mean_{metric.metric}", mean, metric.source, probe, better=metric.better)


def names_of(spec: ProbeSpec) -> Iterator[tuple[str, str]]:
    """Yield each name of a number of a probe with its metric, including those at other sites."""
    for each in (spec, *(at_site(spec, site) for site in SITES if spec.sites)):
        for metric, own in zip(each.metrics, spec.metrics, strict=True):
            for name in (metric.metric, f"mean_{metric.metric}", peak_name(metric)):
                yield name, own.metric


def bounded(catalogue: Catalogue) -> Mapping[str, float]:
    return {ACCURACY: 1.0} | {
        name: metric.at_most
        for spec in known_probes(catalogue).values()
        for metric in spec.metrics
        if metric.at_most is not None
        for name in (metric.metric, f"mean_{metric.metric}", peak_name(metric))
    }


def peak_name(metric: ProbeMetric) -> str:
    return (metric.peak.name if metric.peak else "") or f"peak_{metric.metric}"
