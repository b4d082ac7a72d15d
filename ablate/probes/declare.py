"""How a probe declares itself: the names that every probe's file starts from.

A probe's file has two halves. The head declares, without torch, what it reads and what its numbers mean; below the
first import of torch is the function that measures.

    @probe("kurtosis", reads="stream", sites=True, source="He et al. 2024, Eq. 1, arXiv:2405.19279", version=1)
    class Kurtosis:
        kurtosis = metric("mean_j s_j^4 / (mean_j s_j^2)^2, …", "He et al. 2024, Eq. 1, arXiv:2405.19279")

    from torch import Tensor

    @implements(Kurtosis)
    def kurtosis(x: Tensor) -> dict[str, Tensor]: ...

`ablate docs probe` says what the function receives and returns, by what it `reads`, and which numbers can be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args

from ablate.extension.declaration import (
    PROBE,
    WORD,
    DeclarationError,
    DeclarationFault,
    common_faults,
    implements,
    place_of,
)
from ablate.source.problems import suggest
from ablate.space.metrics import Better, Peak, ProbeMetric, ProbeSpec, Reads

__all__ = ["Peak", "implements", "metric", "probe"]

T = TypeVar("T")
READS: tuple[str, ...] = get_args(Reads)
SIDES: tuple[str, ...] = get_args(Better)


def metric(
    definition: str,
    source: str,
    *,
    peak: Peak | None = None,
    peak_at: Mapping[str, Peak] | None = None,
    at_most: float | None = None,
    better: Better = "lower",
) -> Any:
    """Declare a metric by what its numbers mean and the source of that; its name is that of the attribute.

    `peak` defines its largest value, if the literature reports that as a number of its own, and `peak_at` that at a
    site. `better` is the side that is better: `lower`, `higher`, or `none` for one that is only higher or lower.
    """
    return ProbeMetric("", definition, source, peak=peak, peak_at=peak_at or {}, at_most=at_most, better=better)


def probe(
    name: str, *, reads: Reads, source: str = "", sites: bool = False, asked: bool = True, version: int = 1
) -> Callable[[type[T]], type[T]]:
    """Declare a probe whose metrics are the attributes of the class; its file's docstring opens with what it answers.

    `asked=False` marks a probe that reads in every trial. Raises DeclarationError with everything that is wrong.
    """

    def declare(cls: type[T]) -> type[T]:
        metrics = {at: value for at, value in vars(cls).items() if isinstance(value, ProbeMetric)}
        faults = [*common_faults(PROBE, name, source, version), *_faults(reads, sites, metrics)]
        if faults:
            raise DeclarationError(cls.__qualname__, tuple(faults))
        named = tuple(replace(value, metric=at) for at, value in metrics.items())
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


def _faults(reads: object, sites: bool, metrics: Mapping[str, ProbeMetric]) -> Iterator[DeclarationFault]:
    if reads not in READS:
        way, label = f"it reads one of: {', '.join(READS)}", suggest(str(reads), READS) or ""
        yield DeclarationFault(f"no probe reads {reads!r}", "reads", (way,), label)
    if sites and reads not in ("stream", "sequences"):
        yield DeclarationFault("only a probe of the stream is read at other sites", "sites", ("leave sites out",))
    if not metrics:
        way = 'such as kurtosis = metric("what the number means", "where that is from")'
        yield DeclarationFault("a probe must declare what it measures", "class", (way,), "this class has no metric")
    if reads == "kernel" and len(metrics) > 1:
        yield DeclarationFault("a matrix over positions has one metric", "class", ("declare a probe per metric",))
    for at, each in metrics.items():
        if WORD.fullmatch(at) is None or not _is_text(each.definition) or not _is_text(each.source):
            message = f"the metric {at!r} needs a definition and a source"
            way = 'give both as texts; a source is a paper (arXiv id or DOI), a URL, a book, or "this work"'
            yield DeclarationFault(message, at, (way,))
        if each.better not in SIDES:
            message, label = f"the metric {at!r} has no side {each.better!r}", suggest(str(each.better), SIDES) or ""
            yield DeclarationFault(message, at, (f"better is one of: {', '.join(SIDES)}",), label)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
