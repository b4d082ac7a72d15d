"""How a probe declares itself: the names that every probe's file starts from.

A probe's file has two halves. The head declares, without torch, what it reads and what its numbers mean; below the
first import of torch stands the function that measures.

    @probe("kurtosis", reads="stream", sites=True, source="He et al. 2024, Eq. 1, arXiv:2405.19279", version=1)
    class Kurtosis:
        kurtosis = metric("mean_j s_j^4 / (mean_j s_j^2)^2, …", "He et al. 2024, Eq. 1, arXiv:2405.19279")

    from torch import Tensor

    @implements(Kurtosis)
    def kurtosis(x: Tensor) -> dict[str, Tensor]: ...

What the function is given, always in float64, and what it gives:

    stream       X [n, d], the tokens of the whole batch as they enter a block, or the head     a number a metric
    sequences    X [B, T, d], the same within each sequence                                     a number a metric
    kernel       X [B, T, d], at a few places and evaluations                                   one matrix [R, R]
    attention    the core, and queries and keys [B, H, T, K] as they enter it                   a number a metric
    parameters   the model, behind the backward pass and before clipping                        Readings, one by one

A function of activations reads held-out text at each evaluation, without dropout and gradients; one of parameters reads
in the measured steps of training. It draws no random numbers, and keeps nothing. `sites` lets a space read a probe of
the stream at other places too (`sites.py`).

Of each metric the numbers `<metric>`, `peak_<metric>` and `mean_<metric>` can be judged (`space/metrics.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from ablate.extension.declaration import WORD, DeclarationError, DeclarationFault, common_faults, implements, place_of
from ablate.extension.kinds import PROBE
from ablate.source.problems import suggest
from ablate.space.metrics import Peak, ProbeMetric, ProbeSpec, Reads

__all__ = ["Peak", "implements", "metric", "probe"]

T = TypeVar("T")
READS: tuple[str, ...] = get_args(Reads)


def metric(
    definition: str,
    source: str,
    *,
    peak: Peak | None = None,
    peak_at: Mapping[str, Peak] | None = None,
    at_most: float | None = None,
) -> Any:
    """A metric by what its numbers mean, and where that is from; its name is that of the attribute.

    `peak` defines its largest value, where that is a number of its own in the literature, and `peak_at` that at a site.
    """
    return ProbeMetric("", definition, source, peak=peak, peak_at=peak_at or {}, at_most=at_most)


def probe(
    name: str, *, reads: Reads, source: str = "", sites: bool = False, asked: bool = True, version: int = 1
) -> Callable[[type[T]], type[T]]:
    """Declare a probe whose metrics are the attributes of the class; its file's docstring opens with what it answers.

    `asked=False` is of a probe that reads in every trial. Raises DeclarationError with everything that is wrong.
    """

    def declare(cls: type[T]) -> type[T]:
        metrics = {at: value for at, value in vars(cls).items() if isinstance(value, ProbeMetric)}
        faults = [*common_faults(PROBE, name, source, version), *_faults(reads, sites, cls, metrics)]
        if faults:
            raise DeclarationError(cls.__qualname__, tuple(faults))
        named = tuple(
            ProbeMetric(at, value.definition, value.source, value.peak, value.peak_at, value.at_most)
            for at, value in metrics.items()
        )
        cls.spec = ProbeSpec(  # type: ignore[attr-defined]
            name=name,
            source=source,
            version=version,
            reads=reads,
            metrics=named,
            asked=asked,
            sites=sites,
            **place_of(cls),
        )
        return cls

    return declare


def _faults(reads: object, sites: bool, cls: type, metrics: Mapping[str, ProbeMetric]) -> list[DeclarationFault]:
    found = []
    if reads not in READS:
        label = suggest(str(reads), READS) or ""
        found.append(
            DeclarationFault(f"no probe reads {reads!r}", "reads", (f"it reads one of: {', '.join(READS)}",), label)
        )
    if sites and reads not in ("stream", "sequences"):
        found.append(
            DeclarationFault("only a probe of the stream is read at other sites", "sites", ("leave sites out",))
        )
    if not metrics:
        way = 'such as kurtosis = metric("what the number means", "where that is from")'
        found.append(DeclarationFault("a probe says what it measures", "class", (way,), "this class has no metric"))
    if reads == "kernel" and len(metrics) > 1:
        found.append(DeclarationFault("a matrix over positions is one metric", "class", ("declare a probe for each",)))
    for at, each in metrics.items():
        if WORD.fullmatch(at) is None or not each.definition.strip() or not each.source.strip():
            way = "its definition and its source travel with its numbers"
            found.append(DeclarationFault(f"the metric {at!r} says what it means and where that is from", at, (way,)))
    return found
