"""Three spaces with all that the cookbook asks about, and what was told of each trial, kept beside them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from altered_trials import altered
from recipes import adamw, chosen
from store_fixtures import DOCUMENTS, RECIPE, STEPS, VARIANTS, VERSIONS, number, opened, plan, rows_at

from ablate.plan.plan import Plan
from ablate.space.metrics import Definition
from ablate.store.snapshot import Snapshot
from ablate.train.events import Event, Outcome, Row, Timing

METRICS = ("eval_loss", "log_peak_kurtosis", "token_correlation", "eval_bits_per_byte")
NAMES = ("pre_ln", "half", "op")
ATTENTIONS = ("layers.1.attention", "layers.2.attention")
SPIKED = {"b20001": 20}
"""Trials whose gradient norm is many times the usual at a step."""
OTHERWISE = {**VERSIONS, "torch": "2.14.0"}
TRACE = """Traceback (most recent call last):
  File "a.py", line 3, in f
    g()
  File "b.py", line 7, in g
ValueError: no
"""
LAST = {"step": 19, "train_loss": 7.5, "gradient_norm": math.inf}
ELSEWHERE = (Definition("kurtosis", "that minus 3", "another paper"),)


@dataclass
class Told:
    """Where the results are; for each space its trials by (variant, seed), and for each trial what it yielded."""

    folder: Path
    spaces: dict[str, dict[tuple[str, int], str]] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)

    def ended(self, trial_id: str) -> Outcome | None:
        """How a trial ended, if it has."""
        return next((e for e in self.events.get(trial_id, []) if isinstance(e, Outcome)), None)

    def finished(self, space: str, variant: str) -> dict[int, str]:
        """The finished trials of a variant, by seed."""
        mine = {seed: id for (name, seed), id in self.spaces[space].items() if name == variant}
        return {s: id for s, id in sorted(mine.items()) if (end := self.ended(id)) and end.kind == "finished"}

    def rows(self, trial_id: str, metric: str) -> list[Row]:
        """What was told of one metric."""
        return [e for e in self.events.get(trial_id, []) if isinstance(e, Row) and e.metric == metric]

    def timings(self, trial_id: str, name: str) -> list[float]:
        """What a clock was told to have measured."""
        return [e.seconds for e in self.events.get(trial_id, []) if isinstance(e, Timing) and e.name == name]

    def judged(self, trial_id: str) -> dict[str, float]:
        """The numbers that a finished trial is judged by."""
        return {
            "eval_loss": self.rows(trial_id, "eval_loss")[-1].value,
            "eval_bits_per_byte": self.rows(trial_id, "eval_bits_per_byte")[-1].value,
            "log_peak_kurtosis": math.log(max(row.value for row in self.rows(trial_id, "kurtosis"))),
            "token_correlation": max(row.value for row in self.rows(trial_id, "token_correlation_rms")),
        }


def measured(numbers_of: str, step: int, spiked: int | None = None) -> list[Event]:
    """What a step yields, with gradient norms, entropies and a speed."""
    norm = number(numbers_of, step, "gradient_norm") * (20 if step == spiked else 1)
    return [
        *rows_at(numbers_of, step),
        Row(step, "gradient_norm", "", norm),
        *(Row(step, "attention_entropy", place, number(numbers_of, step, "entropy", place)) for place in ATTENTIONS),
        Timing(step, "tokens_per_second", 1000 * number(numbers_of, step, "speed")),
    ]


def course(trial_id: str, numbers_of: str) -> list[Event]:
    """A whole trial, with the numbers of another one if that is said."""
    rows = [event for step in STEPS for event in measured(numbers_of, step, SPIKED.get(trial_id))]
    losses = [Row(40, name, "", number(numbers_of, 40, name)) for name in ("eval_loss", "eval_bits_per_byte")]
    return [*rows, *losses, Outcome("finished", 40)]


def hot(seeds: tuple[int, ...] = (0, 1)) -> Plan:
    """The same blocks at three times the learning rate: trials of its own."""
    asked = plan(seeds, "hot")
    recipe = RECIPE.model_copy(update={"optimizer": chosen(adamw(lr=3e-2))})
    return replace(asked, trials=tuple(altered(one, id=f"h{one.id}", recipe=recipe) for one in asked.trials))


def tell(folder: Path) -> Told:
    """Space small (one trial diverged); wider (one trial with other versions, a bug); hot (one runs, one is to come).

    In `hot` the third variant has the second one's numbers, bit for bit.
    """
    told = Told(folder)
    detail = {"cause": "train_loss is inf", "seen": "output", "address": "layers.2.mlp", "layer": 2, "last": LAST}
    lost = [*measured("c30001", 0), *measured("c30001", 10), Row(20, "train_loss", "", math.inf)]
    special: dict[str, list[Event]] = {
        "c30001": [*lost, Outcome("diverged", 20, detail)],
        "c30002": [*measured("c30002", 0), Outcome("bug", 10, {"error": "ValueError: no", "trace": TRACE})],
        "ha10001": measured("ha10001", 0),
        "hc30001": [],
    }
    for asked in (plan(), plan((0, 1, 2), "wider"), hot()):
        told.spaces[asked.space] = {(VARIANTS[one.variant], one.seed): one.id for one in asked.trials}
        documents = replace(DOCUMENTS, definitions=ELSEWHERE) if asked.space == "hot" else DOCUMENTS
        for one in asked.trials:
            versions = OTHERWISE if one.id == "a10002" else VERSIONS
            with opened(folder, versions=versions) as results:
                results.record_plan(asked, documents)
                if one.id not in results.outcomes():
                    same_as = one.id.replace("c3", "b2") if asked.space == "hot" else one.id
                    told.events[one.id] = special.get(one.id, course(one.id, same_as))
                    if told.events[one.id]:
                        results.begin(one)
                        results.append(one.id, told.events[one.id])
    with opened(folder) as results:
        results.refresh()
    return told


def keyed(rows, *names):
    """Rows by the values of some columns; each such key stands once."""
    """Rows by the values of some columns, each of them once."""
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows)
    return found


def sd(values):
    """Sample standard deviation; None for a single value."""
    return statistics.stdev(values) if len(values) > 1 else None


def about(value):
    """Equal but for the order in which floats were added; None equals None."""
    return None if value is None else pytest.approx(value, rel=1e-12)


def endings(told):
    """How trials ended, from the index."""
    return Snapshot(told.folder).endings


def parts(told, space, metric):
    """(variant, seed, row) of every finite number of a space's metric."""
    return [
        (name, seed, row)
        for (name, seed), id in told.spaces[space].items()
        for row in told.rows(id, metric)
        if math.isfinite(row.value)
    ]
