"""Promised rates of verdicts, each with tables of real noise (`kept_noise`) that hold it to account.

A row draws tables and says of each whether what was promised against happened (or, of power, what was promised). Its
twin is the same tables judged wrongly on purpose: a row whose twin would pass could not tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from zlib import crc32

import numpy as np
from accounts import Folder, at
from asking_again import ATTACKS, FIRST, Attack
from designed_fixtures import FREE, LOOKS, ends, rules
from kept_noise import Floats, Trained, as_they_are, drawn, normal, normal_seeds
from search_winners import every_winner

from ablate.plan.plan import Plan
from ablate.space.judge import Expected, Judge
from ablate.statistics import wilson
from ablate.statistics.planning import floor_of_edits
from ablate.verdict.experiment import Final, experiment_of
from ablate.verdict.judge import judge
from ablate.verdict.summary import Effect, Summary

LOSS, PEAK = "eval_loss", "peak_kurtosis"
LOG = FREE.model_copy(update={"scale": "log"})
SAID = ("better", "worse")


@dataclass(frozen=True)
class Hit:
    """What came of one table: of which space (or attack), by the judge, and by the twin."""

    source: str
    ours: bool
    twin: bool


Drawing = Callable[[Sequence[Trained], int, np.random.Generator], Iterator[Hit]]
"""The hits of a row in tables of these spaces, about so many of each, drawn at random."""


@dataclass(frozen=True)
class Row:
    """A promised rate, at most so much (or, of power, at least): where it is said, and the tables that test it.

    Where it is not kept, for a `reason`, the rate that is `known` is not exceeded.
    """

    name: str
    promise: float
    where: str
    broken: str
    hits: Drawing
    tables: int
    least: bool = False
    reason: str = ""
    known: float | None = None

    def random(self) -> np.random.Generator:
        """Numbers of the row's own, whatever rows are drawn beside it."""
        return np.random.default_rng(crc32(self.name.encode()))


@dataclass(frozen=True)
class Found:
    """How often, of how many tables, by the judge and by the twin, and by source: hits and tables of each."""

    hits: int
    twins: int
    tables: int
    by_source: Mapping[str, tuple[int, int]]

    @property
    def rate(self) -> float:
        """The share of tables."""
        return self.hits / self.tables

    def worst(self, *, least: bool) -> tuple[str, float]:
        """The source with the highest share, or with the least."""
        shares = {name: hits / of for name, (hits, of) in self.by_source.items()}
        name = (min if least else max)(shares, key=lambda name: shares[name])
        return name, shares[name]


def broken(promise: float, hits: int, tables: int, *, least: bool = False) -> bool:
    """Whether a rate is beyond its promise by more than chance: Wilson's 95 % interval lies on the wrong side."""
    low, high = wilson(hits, tables)
    return high < promise if least else low > promise


def tables_of(row: Row, share: float) -> int:
    """The number of tables of each space that a share of the bench draws."""
    return max(1, round(share * row.tables))


def counted(row: Row, spaces: Sequence[Trained], share: float = 1.0) -> Found:
    """Draw the tables of a row, that share of its number."""
    ours: Counter[str] = Counter()
    of: Counter[str] = Counter()
    twins = 0
    for hit in row.hits(spaces, tables_of(row, share), row.random()):
        ours[hit.source] += hit.ours
        of[hit.source] += 1
        twins += hit.twin
    by_source = {name: (ours[name], of[name]) for name in of}
    return Found(hits=ours.total(), twins=twins, tables=of.total(), by_source=by_source)


def only(spaces: Sequence[Trained], *names: str) -> list[Trained]:
    """The spaces of these names."""
    return [space for space in spaces if space.name in names]


def noise_of(space: Trained, plan: Plan, metric: str = LOSS, *, log: bool = False) -> Floats:
    """The residuals of the arms of a plan [variants, seeds], in its order."""
    return space.residuals(metric, log=log)[space.places(plan)]


def level_of(space: Trained, plan: Plan, metric: str = LOSS, *, log: bool = False) -> float:
    """The mean that all arms get: that of the baseline."""
    row = next(i for i, variant in enumerate(plan.variants) if variant.id == plan.baseline)
    return float(space.level(metric, log=log)[space.places(plan)[row]])


def claims(summary: Summary) -> bool:
    """Whether anything is called better or worse."""
    return any(effect.verdict in SAID for effect in summary.effects)


def careless(effects: Sequence[Effect], level: float = 0.1) -> bool:
    """Whether any comparison would be called different at that level, each by itself."""
    return any(effect.p is not None and effect.p < level for effect in effects)


COMPARED = ("optimizers", "masked_words", "regression")


def nothing(
    spaces: Sequence[Trained],
    times: int,
    random: np.random.Generator,
    *,
    design: str = "",
    seeds: int = 5,
    draw: Callable[[Floats, int, int, np.random.Generator], Iterator[Floats]] = drawn,
) -> Iterator[Hit]:
    """Nothing differs."""
    for space in spaces:
        plan = space.plan(seeds, design)
        level = level_of(space, plan)
        for table in draw(noise_of(space, plan), seeds, times, random):
            summary = judge(plan, rules(), ends(plan, {LOSS: level + table}))
            yield Hit(space.name, claims(summary), careless(summary.effects))


def of_as_many_normal_seeds(spaces: Sequence[Trained], sets: int, times: int, *, design: str = "") -> list[float]:
    """The rates of `nothing` that as many seeds of normal noise come to, so many times; sorted.

    They differ, though the promise is kept of normal noise: by this much does a rate depend on which seeds there are.
    """
    random = np.random.default_rng(sets)
    rates = []
    for _ in range(sets):
        found = 0
        for space in spaces:
            plan = space.plan(5, design)
            made, level = normal_seeds(noise_of(space, plan), random), level_of(space, plan)
            for table in drawn(made, 5, times, random):
                found += claims(judge(plan, rules(), ends(plan, {LOSS: level + table})))
        rates.append(found / (times * len(spaces)))
    return sorted(rates)


def ratios(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """Geometric means of kurtosis are the same."""
    for space in spaces:
        plan = space.plan(5)
        level = level_of(space, plan, PEAK, log=True)
        for table in drawn(noise_of(space, plan, PEAK, log=True), 5, times, random):
            summary = judge(plan, rules(PEAK, judged=LOG), ends(plan, {PEAK: np.exp(level + table)}))
            yield Hit(space.name, claims(summary), careless(summary.effects))


def page(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """Both metrics in one family, with their seeds drawn together."""
    judged = Judge(metrics={LOSS: FREE, PEAK: LOG}, against="pre_ln", confidence=0.95, family="page")
    for space in spaces:
        plan = space.plan(5)
        both = np.concatenate([noise_of(space, plan), noise_of(space, plan, PEAK, log=True)])
        levels = level_of(space, plan), level_of(space, plan, PEAK, log=True)
        for table in drawn(both, 5, times, random):
            loss, peak = np.split(table, 2)
            summary = judge(plan, judged, ends(plan, {LOSS: levels[0] + loss, PEAK: np.exp(levels[1] + peak)}))
            yield Hit(space.name, claims(summary), careless(summary.effects))


def looks(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """Interim analyses; the twin looks as often at the whole level."""
    for space in spaces:
        plan = space.plan(LOOKS[-1])
        looked = replace(plan, looks=LOOKS)
        level = level_of(space, plan)
        for table in drawn(noise_of(space, plan), LOOKS[-1], times, random):
            finals = ends(plan, {LOSS: level + table})
            again = any(claims(judge(at(plan, range(n)), rules(), finals)) for n in LOOKS)
            yield Hit(space.name, claims(judge(looked, rules(), finals)), again)


MOST = 20
"""The most seeds that are trained where more are advised."""


def advised(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """The advised number of seeds is trained (at most `MOST`) and judged again; the twin judges them as if anew."""
    for space in spaces:
        plan = space.plan(MOST)
        level = level_of(space, plan)
        sd = float(np.median((noise_of(space, plan)[1:] - noise_of(space, plan)[:1]).std(axis=1)))
        judged = rules(judged=FREE.model_copy(update={"margin": sd}))
        for table in drawn(noise_of(space, plan), MOST, times, random):
            values = {variant.id: level + row for variant, row in zip(plan.variants, table, strict=True)}
            with TemporaryDirectory() as path:
                folder = Folder(Path(path), values)
                first = folder.ask(at(plan, range(5)), judged)
                more = max((effect.seeds_needed or 0 for effect in first.effects), default=0)
                more = min(more, MOST)
                then = folder.ask(at(plan, range(more)), judged) if more else first
                anew = judge(at(plan, range(more or 5)), judged, folder.finals(plan))
            again = careless(first.effects) or careless(anew.effects)
            yield Hit(space.name, claims(first) or claims(then), again)


def attacked(
    spaces: Sequence[Trained], times: int, random: np.random.Generator, *, attacks: Sequence[Attack] = ATTACKS
) -> Iterator[Hit]:
    """Whoever asks again in every way there is; the twin's folder is forgotten in between."""
    for attack in attacks:
        for turn in range(times):
            space = spaces[turn % len(spaces)]
            plan = space.plan(12)
            level = level_of(space, plan)
            (table,) = drawn(noise_of(space, plan), 12, 1, random)
            values = {variant.id: level + row for variant, row in zip(plan.variants, table, strict=True)}
            with TemporaryDirectory() as path:
                folder, now = Folder(Path(path), values), at(plan, range(FIRST))
                first = folder.ask(now)
                answers = [first, *attack(folder, plan, now, first)]
            alone = careless(first.effects, 0.05) or careless(judge(plan, rules(), folder.finals(plan)).effects, 0.05)
            yield Hit(attack.__name__, any(map(claims, answers)), alone)


def at_margin(
    spaces: Sequence[Trained], times: int, random: np.random.Generator, *, quiet: bool = True
) -> Iterator[Hit]:
    """Arms exactly at the margin, none of which is equivalent; unless `quiet`, one more without a difference.

    The twin's margin is 1.3 times as wide.
    """
    for space in spaces:
        plan = space.plan(12)
        noise = noise_of(space, plan)
        level, arms = level_of(space, plan), len(plan.variants)
        margin = 2 * float(np.median((noise[1:] - noise[:1]).std(axis=1)))
        shifts = np.array([0.0, *(margin * (-1) ** k for k in range(arms - 1))])
        if not quiet:
            shifts[1] = 0.0
        at_it = {variant.id for variant, shift in zip(plan.variants, shifts, strict=True) if shift}

        def wrong(
            finals: Mapping[str, Final], wide: float, plan: Plan = plan, at_it: set[str] = at_it, margin: float = margin
        ) -> bool:
            summary = judge(plan, rules(judged=FREE.model_copy(update={"margin": wide * margin})), finals)
            return any(
                effect.verdict == "equivalent" if effect.after in at_it else effect.verdict in SAID or effect.differs
                for effect in summary.effects
            )

        for table in drawn(noise, 12, times, random):
            finals = ends(plan, {LOSS: level + table + shifts[:, None]})
            yield Hit(space.name, wrong(finals, 1.0), wrong(finals, 1.3))


def mixed(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """Some arms differ by much and some by nothing; what counts is what is said of the latter."""
    for space in spaces:
        plan = space.plan(5)
        noise = noise_of(space, plan)
        level, arms = level_of(space, plan), len(plan.variants)
        shifts = np.array([0.0, 1.0, *([0.0] * (arms - 2))])[:, None] * 20 * noise.std()
        null = {variant.id for variant, shift in zip(plan.variants, shifts[:, 0], strict=True) if not shift}
        for table in drawn(noise, 5, times, random):
            summary = judge(plan, rules(), ends(plan, {LOSS: level + table + shifts}))
            of = [effect for effect in summary.effects if effect.after in null]
            yield Hit(space.name, any(effect.verdict in SAID for effect in of), careless(of))


def skewed(spaces: Sequence[Trained], times: int, random: np.random.Generator, *, sd: float = 0.5) -> Iterator[Hit]:
    """A baseline that hardly varies; what arms have beyond it, as logarithms with that sd, so that a tail goes up."""
    for space in spaces:
        plan = space.plan(5)
        noise = noise_of(space, plan)
        beyond = noise[1:] - noise[:1]
        z = sd * np.concatenate([noise[:1] / noise.std() / 50, beyond / beyond.std(axis=1, keepdims=True)])
        mean = np.cosh(z).mean(axis=1, keepdims=True)  # of exp(z), whose signs are turned
        for table in drawn(z, 5, times, random):
            summary = judge(plan, rules(), ends(plan, {LOSS: 10 + np.exp(table) - mean}))
            yield Hit(space.name, claims(summary), careless(summary.effects, 0.15))


def ranked(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """An arm whose worst fifth diverges is not better; the twin judges its survivors."""
    for space in spaces:
        plan = space.plan(8)
        noise = noise_of(space, plan)
        level, arm = level_of(space, plan), plan.variants[1].id
        bad = np.quantile(np.abs(noise[1]), 0.6)  # a fifth is above, as signs are turned
        for table in drawn(noise, 8, times, random):
            finals = ends(plan, {LOSS: level + table})
            lost = {seed for seed, value in zip(plan.seeds, table[1], strict=True) if value > bad}
            gone = {trial.id for trial in plan.trials if trial.variant == arm and trial.seed in lost}
            diverged = finals | {id: Final(status="diverged", step=3, metrics={}) for id in gone}
            failed = finals | {id: Final(status="bug", step=3, metrics={}) for id in gone}
            ours, twin = (judge(plan, rules(), of).effects for of in (diverged, failed))
            better = any(effect.after == arm and effect.improves for effect in ours)
            survivors = [e for e in twin if e.after == arm and e.estimate is not None and e.estimate < 0]
            yield Hit(space.name, better, careless(survivors))


def claimed(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """A space claims of each arm that it is better; that no claim comes out as expected is what is promised."""
    for space in spaces:
        plan = space.plan(5)
        level = level_of(space, plan)
        names = [variant.name for variant in plan.variants[1:]]
        expect = tuple(Expected(claim="c", of=name, metric=LOSS, verdict=("better",)) for name in names)
        judged = rules().model_copy(update={"expect": expect})
        for table in drawn(noise_of(space, plan), 5, times, random):
            summary = judge(plan, judged, ends(plan, {LOSS: level + table}))
            came = any(one.outcome == "as expected" for one in summary.expectations)
            down = [effect for effect in summary.effects if effect.estimate is not None and effect.estimate < 0]
            yield Hit(space.name, came, careless(down, 0.2))


def tuned(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """Each arm is the best of three by two tuning seeds, and is judged at five others; the twin chooses by these."""
    for space in spaces:
        plan = space.plan(5)
        noise, level = noise_of(space, plan), level_of(space, plan)
        count = len(plan.variants)
        for table in drawn(noise, 7, times, random):
            at_two, at_five = table[:, :2].mean(axis=1), table[:, 2:]
            own = [random.permutation(count)[:3] for _ in range(count)]
            fair = np.array([at_five[values[np.argmin(at_two[values])]] for values in own])
            fair += 0.3 * noise.std() * random.standard_normal(fair.shape)  # else the same trial is on both sides
            seen = fair.copy()
            for arm in range(1, count):
                tries = at_five[own[arm]] + noise.std() * random.standard_normal((3, 5))
                seen[arm] = tries[np.argmin(tries.mean(axis=1))]
            ours, twin = (judge(plan, rules(), ends(plan, {LOSS: level + arms})) for arms in (fair, seen))
            yield Hit(space.name, claims(ours), careless(twin.effects))


def powered(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """An arm differs by what the plan says its seeds detect; the twin by 0.7 of it."""
    for space in spaces:
        plan = space.plan(8)
        noise, level = noise_of(space, plan), level_of(space, plan)
        arms = len(plan.variants)
        pairs = [list(zip(noise[0], noise[arm], strict=True)) for arm in range(1, arms)]
        floor = floor_of_edits(LOSS, pairs, log=False, whose="kept")
        seen, _, _ = floor.visible(8, 0.04 / (arms - 1))
        for arm in range(1, arms):
            for table in drawn(noise, 8, times, random):
                hits = []
                for part in (1.0, 0.7):
                    shifted = level + table
                    shifted[arm] += part * seen
                    effects = judge(plan, rules(), ends(plan, {LOSS: shifted})).effects
                    hits.append(any(e.after == plan.variants[arm].id and e.verdict == "worse" for e in effects))
                yield Hit(f"{space.name}, {plan.variants[arm].name}", *hits)


SPEED = 1.3
"""By how much the treatment of a ladder is faster, at every size."""


FLOOR = 0.9
"""The irreducible loss of a law that bends, as a share of the loss at the largest size."""


def laws(compute: Floats, means: Floats) -> dict[str, Callable[[Floats], Floats]]:
    """Losses by training compute, near these means: by a power of it, with E most of the least, or bent as they are."""
    x, lower = np.log(compute), FLOOR * means.min()
    power, above, bent = (
        np.polyfit(x, np.log(means), 1),
        np.polyfit(x, np.log(means - lower), 1),
        np.polyfit(x, np.log(means), 2),
    )
    return {
        "power": lambda at: np.exp(np.polyval(power, np.log(at))),
        "saturating": lambda at: lower + np.exp(np.polyval(above, np.log(at))),
        "trained": lambda at: np.exp(np.polyval(bent, np.log(at))),
    }


@dataclass(frozen=True)
class Trend:
    """A trend that is not there: whether it is called, its p alone, whether a bend is told, and the p of that."""

    called: bool
    p: float
    warned: bool
    curvature: float


@cache
def trends(space: Trained, law: str, times: int, seeds: int = 5) -> tuple[Trend, ...]:
    """Ladders with a speed-up that is the same at every size, by one of the `laws`, judged as by a power law."""
    plan, random = space.plan(seeds), np.random.default_rng(crc32(law.encode()))
    noise = noise_of(space, plan)
    place = {variant.id: i for i, variant in enumerate(plan.variants)}
    compute = np.array([treatment.compute for treatment in experiment_of(plan).variants], dtype=np.float64)
    ((_, planned),) = plan.ladders
    base = [place[dict(step.variants)[planned.baseline]] for step in planned.steps]
    true = laws(compute[base], space.level(LOSS)[space.places(plan)][base])[law]
    fast = np.array([1.0 if i in base else SPEED for i in range(len(compute))])
    levels, came = true(compute * fast)[:, None], []
    for table in drawn(noise, seeds, times, random):
        summary = judge(plan, rules(), ends(plan, {LOSS: levels + table}))
        (trend,) = (effect for effect in summary.effects if effect.kind == "trend")
        ((curvature,),) = ({one.curvature_p for one in summary.ladders},)
        assert trend.p is not None and curvature is not None
        came.append(Trend(trend.verdict in SAID, trend.p, "bend away" in trend.note, curvature))
    return tuple(came)


def ladder(
    spaces: Sequence[Trained],
    times: int,
    random: np.random.Generator,
    *,
    law: str = "power",
    what: Literal["called", "unwarned", "warned"] = "called",
) -> Iterator[Hit]:
    """What is said of `trends`: it is called; it is, and no bend is told; or a bend is told. Rows share the tables.

    The twin of a bend is one of a law that bends, told at p < 0.2.
    """
    for space in spaces:
        bent = trends(space, "saturating", times) if what == "warned" else ()
        for number, one in enumerate(trends(space, law, times)):
            ours = {"called": one.called, "unwarned": one.called and not one.warned, "warned": one.warned}[what]
            yield Hit(space.name, ours, bent[number].curvature < 0.2 if bent else one.p < 0.2)


def won(spaces: Sequence[Trained], times: int, random: np.random.Generator) -> Iterator[Hit]:
    """The best of searches: the truth is in the confirmed interval; the twin has it about what the search saw."""
    for space in spaces:
        for winner in every_winner(space, times):
            yield Hit(winner.sampler, winner.holds(), winner.holds(promised=True))


def of(names: Sequence[str], drawing: Drawing) -> Drawing:
    """A drawing from some of the spaces."""
    return lambda spaces, times, random: drawing(only(spaces, *names), times, random)


BENDS = (
    "the speed-up is read off a power law, from which the baseline's losses bend away: what is the same at every size "
    "then seems to grow or to shrink. The manual says that all this holds where the law does, and that a bend is told: "
    "see the next row."
)
TAIL = (
    "the 7 % of the manual is of lognormal differences; those of real trainings are not normal before they are given "
    "their tail (two values, few seeds), and a quiet baseline cancels none of it."
)
FEW = (
    "twenty seeds are few: those of the first edit happen to have light tails (kurtosis 2.1), by which t at five seeds "
    "errs more often. See below how far the rates of as many normal seeds lie apart."
)
TWO = (
    "differences of the SGD arms of `regression` lie about two values rather than one (kurtosis 1.4; of two values "
    "alone it is 1), so that at five seeds all of them lie on one side, and near together, more often than t expects. "
    "Twenty seeds are few, too: see below."
)
PAGE = (
    "as in the row of `compare`, and by the logarithms of kurtosis of `optimizers`, which err in 7 % at these twenty "
    "seeds by themselves (the worst of `scale: log`). Not told apart yet from the choice of seeds."
)
TAILS = (
    "differences of real trainings have a tail on one side (skewness to -2), for which the manual promises nothing, as "
    "it says; and of twenty seeds drawn with replacement some come twice, as in the next row."
)
TWICE = "no fault of the judge: of twenty seeds drawn with replacement some come twice. It measures the row before."
EDITS, SIZES = ("edits",), ("sizes",)
STATISTICS, VERDICTS = "statistics", "verdicts"
ALONE = "each comparison alone, at 10 %"
PATH, LEAVE, ADD = (f"{{{design}: {{from: pre_ln, to: op}}}}" for design in ("path", "leave_one_out", "add_one_in"))
WON = Row("a search's winners: the truth is in the confirmed interval", 0.95, "search", "about what the search saw",
    of(("masked_words",), won), 40, least=True)  # fmt: skip
ROWS = (
    Row("A/A, compare, 5 seeds", 0.04, STATISTICS, ALONE, of(COMPARED, nothing), 800, reason=TWO,
        known=0.05),
    Row("the same, of normal noise", 0.04, STATISTICS, ALONE,
        of(COMPARED, partial(nothing, draw=partial(normal, turned=True))), 800),
    Row("A/A, compare, 12 seeds", 0.04, STATISTICS, ALONE, of(COMPARED, partial(nothing, seeds=12)), 300),
    Row("A/A, compare, 5 seeds, tails as they are", 0.04, STATISTICS, ALONE,
        of(COMPARED, partial(nothing, draw=as_they_are)), 800, reason=TAILS, known=0.102),
    Row("the same, of normal noise at as many seeds", 0.04, STATISTICS, ALONE,
        of(COMPARED, partial(nothing, draw=normal)), 800, reason=TWICE, known=0.052),
    Row("A/A, factorial, 5 seeds", 0.04, STATISTICS, ALONE, of(EDITS, nothing), 1000),
    Row("A/A, path, 5 seeds", 0.04, STATISTICS, ALONE, of(EDITS, partial(nothing, design=PATH)), 2000),
    Row("A/A, leave_one_out, 5 seeds", 0.04, STATISTICS, ALONE, of(EDITS, partial(nothing, design=LEAVE)), 2000),
    Row("A/A, add_one_in, 5 seeds", 0.04, STATISTICS, ALONE, of(EDITS, partial(nothing, design=ADD)), 2000,
        reason=FEW, known=0.08),
    Row("A/A, `scale: log`, 5 seeds", 0.04, STATISTICS, ALONE, of(COMPARED, ratios), 800),
    Row("A/A, `family: page`, 5 seeds", 0.04, STATISTICS, ALONE, of(COMPARED, page), 800,
        reason=PAGE, known=0.062),
    Row("interim analyses at 4, 6, 9, 13, 20", 0.05, STATISTICS, "each look at 4 %", of(COMPARED, looks), 150),
    Row("+k seeds, judged again", 0.05, STATISTICS, "both alone, at 10 %", of(COMPARED, advised), 100),
    Row("asked again in twelve ways", 0.05, STATISTICS, "both alone, at 5 %", of(COMPARED, attacked), 60),
    Row("equivalent, at the margin, 12 seeds", 0.04, STATISTICS, "a margin 1.3 times as wide",
        of(COMPARED, at_margin), 400),
    Row("at the margin or without a difference, 12 seeds", 0.075, STATISTICS, "a margin 1.3 times as wide",
        of(COMPARED, partial(at_margin, quiet=False)), 400),
    Row("no difference beside a large one", 0.04, STATISTICS, ALONE, of(COMPARED, mixed), 800, reason=TWO,
        known=0.055),
    Row("a tail upwards (log-sd 0.5), a quiet baseline", 0.07, STATISTICS, "each comparison alone, at 15 %",
        of(COMPARED, skewed), 800, reason=TAIL, known=0.086),
    Row("better by rank, the worst fifth diverged, 8 seeds", 0.025, VERDICTS, "survivors by t, at 10 %",
        of(COMPARED, ranked), 300),
    Row("a claim `better` as expected", 0.04, STATISTICS, "alone, at 20 %", of(COMPARED, claimed), 600),
    Row("arms tuned at other seeds", 0.04, "fair", "tuned at the seeds judged", of(COMPARED, tuned), 600),
    Row("power of a difference that the plan says is seen", 0.8, VERDICTS, "0.7 of that difference",
        of(COMPARED, powered), 150, least=True),
    Row("trend, a power law, 5 seeds", 0.04, STATISTICS, "at 20 %", of(SIZES, ladder), 250),
    Row("trend, the law bends (E 0.9 of the least loss)", 0.04, STATISTICS, "at 20 %",
        of(SIZES, partial(ladder, law="saturating")), 250, reason=BENDS, known=0.22),
    Row("the same, and no bend is told", 0.04, STATISTICS, "at 20 %",
        of(SIZES, partial(ladder, law="saturating", what="unwarned")), 250),
    Row("trend, the law bends as in the trainings", 0.04, STATISTICS, "at 20 %",
        of(SIZES, partial(ladder, law="trained")), 250),
    Row("the same, and no bend is told (as in the trainings)", 0.04, STATISTICS, "at 20 %",
        of(SIZES, partial(ladder, law="trained", what="unwarned")), 250),
    Row("a bend is told of a power law", 0.05, "ladder", "of a law that bends, at p < 0.2",
        of(SIZES, partial(ladder, what="warned")), 250),
    WON,
)  # fmt: skip
