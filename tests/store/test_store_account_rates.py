"""How often is anything false found, where nothing differs, by someone who asks again in every way there is?

Results are drawn in process, with effects of edits that vary over seeds; what accounts keep is written to a folder and
read from it. A table counts once, whatever is false in it and however often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from accounts import Folder, at, of
from asking_again import ATTACKS, FIRST, Attack, delete, deleted_and_more, deleted_and_moved, found
from designed_fixtures import designed, rules, tables

from ablate.plan.plan import Plan
from ablate.space.judge import Judge
from ablate.verdict.summary import Summary

TIMES, FEW = 1000, 60
SEEDS = 12
ARMS = ("op", "sas", "sas_p", "post_ln", "pre_rms", "parallel", "sandwich", "macaron")
MOST = 0.064
"""5 % and two standard errors of 1,000 tables."""


@cache
def whole(arms: int) -> Plan:
    return designed(f"{{compare: [pre_ln, {', '.join(ARMS[:arms])}]}}", seeds=SEEDS)


def five(arms: int) -> Plan:
    return at(whole(arms), range(FIRST))


class Twin(Folder):
    """A folder as it was before: each set of comparisons, on each scale and in each direction, has its own account."""

    def ask(self, plan: Plan, judged: Judge | None = None) -> Summary:
        ruled = judged or rules()
        ways = [(name, one.scale, one.better) for name, one in ruled.metrics.items()]
        known = sorted(c.after for c in plan.comparisons)
        own = Folder(self.path / str(abs(hash((*known, *ways, ruled.family)))), self.values)
        own.path.mkdir(exist_ok=True)
        return own.ask(plan, judged)


def drawn(plan: Plan, times: int, rng: int) -> Iterator[dict[str, np.ndarray]]:
    made = tables(plan, times, random=np.random.default_rng(rng))
    for table in made:
        yield {variant.id: table[place] for place, variant in enumerate(plan.variants)}


def rate(attack: Attack, arms: int, times: int, kind: type[Folder] = Folder) -> float:
    """The share of tables in which anything is found, at first or by the attack."""
    plan, now = whole(arms), five(arms)
    hits = 0
    for values in drawn(plan, times, rng=arms):
        with TemporaryDirectory() as path:
            folder = kind(Path(path), values)
            first = folder.ask(now)
            hits += found(first) or any(map(found, attack(folder, plan, now, first)))
    print(f"{attack.__name__}, {arms} arms, {kind.__name__.lower()}: {100 * hits / times:.1f} % of {times} tables")
    return hits / times


@pytest.mark.slow
@pytest.mark.parametrize("arms", [3, 5, 8])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_asking_again_finds_nothing_where_nothing_is(attack, arms):
    assert rate(attack, arms, TIMES) <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("attack", [delete, deleted_and_moved, deleted_and_more], ids=lambda attack: attack.__name__)
def test_by_families_alone_it_would(attack):
    assert rate(attack, 5, TIMES, Twin) > 0.08


@pytest.mark.full
def test_in_a_few_tables_accounts_find_less_than_half_of_what_families_alone_do():
    ours, twin = (rate(delete, 8, FEW, kind) for kind in (Folder, Twin))
    assert ours <= MOST + 0.04 and ours < twin / 2


def grown(folder: Folder, plan: Plan, ruled: Judge) -> Iterator[Summary]:
    """Arms added one at a time, with more seeds in between."""
    for arms in range(1, len(ARMS) + 1):
        yield folder.ask(at(of(plan, ARMS[:arms]), range(FIRST)), ruled)
        if arms in (3, 6):
            yield folder.ask(at(of(plan, ARMS[:arms]), range(8)), ruled)


def one_by_one(folder: Folder, plan: Plan, ruled: Judge) -> Iterator[Summary]:
    """Spaces of one arm each, with more seeds in between."""
    for place, arm in enumerate(ARMS):
        yield folder.ask(replace(at(of(plan, [arm]), range(FIRST)), space=f"space_{place}"), ruled)
        if place in (2, 5):
            yield folder.ask(replace(at(of(plan, [arm]), range(8)), space=f"space_{place}"), ruled)


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["question", "folder"])
@pytest.mark.parametrize("way", [grown, one_by_one], ids=lambda way: way.__name__)
def test_what_is_added_is_false_as_often_as_printed(way, budget):
    plan, ruled = whole(8), rules().model_copy(update={"budget": budget})
    hits, said = 0, 0.0
    for values in drawn(plan, TIMES, rng=8):
        with TemporaryDirectory() as path:
            answers = list(way(Folder(Path(path), values), plan, ruled))
            hits += any(map(found, answers))
            said = answers[-1].judgements[0].among
    had = hits / TIMES
    print(f"{way.__name__}, budget {budget}: {100 * had:.1f} %, printed {100 * said:.1f} %")
    assert had <= said + 2 * np.sqrt(said * (1 - said) / TIMES)
    assert budget == "question" or had <= MOST
    assert budget == "folder" or had > MOST


@pytest.mark.slow
def test_an_arm_that_is_added_is_found():
    """A true difference of three sd of a paired difference, n = 5: two arms added to a question of three."""
    plan = at(whole(5), range(FIRST))
    hits = 0
    for values in drawn(whole(5), TIMES, rng=5):
        differences = np.sqrt(2 * 0.01**2 + 0.01**2)  # of two trials, and of the edits' effect over seeds
        added = next(variant.id for variant in plan.variants if variant.name == ARMS[3])
        with TemporaryDirectory() as path:
            folder = Folder(Path(path), {**values, added: values[added] - 3 * differences})
            folder.ask(of(plan, ARMS[:3]))
            effects = folder.ask(plan).effects
            hits += next(effect.verdict for effect in effects if effect.change == ARMS[3]) == "better"
    print(f"found in {100 * hits / TIMES:.1f} % of {TIMES} tables")
    assert hits / TIMES >= 0.8
