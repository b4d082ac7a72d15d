"""Ways to ask a results folder again what it has answered, in the hope of another answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from accounts import Folder, at, of, renamed
from designed_fixtures import FREE, rules

from ablate.plan.plan import Plan
from ablate.verdict.summary import Summary

FIRST = 5
"""The seeds of the first question."""
LOG = FREE.model_copy(update={"scale": "log"})
UPWARDS = FREE.model_copy(update={"better": "higher"})


def found(summary: Summary) -> bool:
    return any(effect.verdict in ("better", "worse") for effect in summary.effects)


def best(summary: Summary, arms: int = 1) -> list[str]:
    """The arms with the smallest p, as one would keep them."""
    kept = sorted((e for e in summary.effects if e.p is not None), key=lambda e: e.p)[:arms]
    return [e.change.removesuffix("_again") for e in kept]


Attack = Callable[[Folder, Plan, Plan, Summary], Iterator[Summary]]
"""What is asked of a folder next: the whole plan, its first seeds, and what was answered to these."""


def delete(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(of(now, best(first)))


def subset(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(of(now, best(first, 2)))
    yield folder.ask(of(now, best(first, 1)))


def other_seeds(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(at(of(plan, best(first)), range(FIRST, 2 * FIRST)))


def more_seeds(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    for seeds in (7, 9, 12):
        yield folder.ask(at(of(plan, best(first)), range(seeds)))


def moved(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(replace(of(now, best(first)), space="elsewhere"))


def other_names(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(renamed(of(now, best(first))))


def reordered(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(of(now, best(first, len(first.effects))[::-1]))
    yield folder.ask(at(of(now, best(first)), range(FIRST)[::-1]))


def other_scale(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(now, rules(judged=LOG))
    yield folder.ask(of(now, best(first)), rules(judged=LOG))


def other_direction(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(of(now, best(first)), rules(judged=UPWARDS))


def function_of_it(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(now, rules("perplexity"))
    yield folder.ask(of(now, best(first)), rules("perplexity", judged=LOG))


def other_family(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(of(now, best(first)), rules(family="page"))


def chain(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    kept = of(now, best(first))
    yield folder.ask(kept)
    yield folder.ask(renamed(kept))
    yield folder.ask(kept, rules(judged=LOG))
    yield folder.ask(kept, rules("perplexity"))
    yield folder.ask(at(of(plan, best(first)), range(8)))
    yield folder.ask(at(of(plan, best(first)), range(12)), rules(family="page"))


def deleted_and_moved(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(of(now, best(first)))
    yield folder.ask(replace(of(now, best(first)), space="elsewhere"))


def deleted_and_more(folder: Folder, plan: Plan, now: Plan, first: Summary) -> Iterator[Summary]:
    yield folder.ask(of(now, best(first)))
    yield folder.ask(at(of(plan, best(first)), range(8)))


ATTACKS: list[Attack] = [
    delete,
    subset,
    other_seeds,
    more_seeds,
    moved,
    other_names,
    reordered,
    other_scale,
    other_direction,
    function_of_it,
    other_family,
    chain,
]
