"""Results folders that make claims at given dates, without training: what was kept when, and what had ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import store_fixtures

from ablate.block.expression import Sequence as Parts
from ablate.plan.plan import Comparison, Plan, Variant
from ablate.session.judging import judged
from ablate.space.judge import Expected, Judge, Judged
from ablate.store.documents import Documents
from ablate.train.events import Event, Outcome, OutcomeKind, Row
from ablate.verdict.summary import Summary

BASE, NAMES = "base", ("base", "hot", "cold")
LOSSES: Mapping[str, float] = {"base": 3.0, "hot": 2.5, "cold": 3.4}
"""The loss of each variant, to which each seed adds its own."""


def day(number: int) -> float:
    """The moment of the n-th day of these tests."""
    return datetime(2026, 12, number, 9, 30, tzinfo=UTC).timestamp()


WARMTH: Mapping[str, float] = {"base": 2.0, "hot": 1.0, "cold": 4.0}
"""What the kurtosis of each variant is about: it goes with the loss."""


def order(text: str = "hot < base < cold", words: str = "Fig. 2: the warmer the better") -> dict[str, Any]:
    return {"claim": words, "order": text, "metric": "eval_loss"}


def equivalent(*names: str) -> dict[str, Any]:
    return {"claim": "Fig. 3: heat is no matter", "equivalent": list(names), "metric": "eval_loss"}


def correlation(sign: str = "positive") -> dict[str, Any]:
    return {"claim": "Fig. 4: they go together", "correlation": "peak_kurtosis", "metric": "eval_loss", "verdict": sign}


def claim(verdict: str | list[str] = "better", of: str = "hot") -> dict[str, Any]:
    return {"claim": "Fig. 1: heat helps", "of": of, "metric": "eval_loss", "verdict": verdict}


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A run: on which day, of which space with which claims, and how each of its trials ended ("" for not at all).

    `salt` is in the ids of variants, as other sizes would be.
    """

    day: int
    claims: Sequence[Mapping[str, Any]] = ()
    space: str = "heat"
    seeds: int = 3
    names: Sequence[str] = NAMES
    profile: str | None = None
    salt: str = ""
    margin: str = "1%"
    ends: Mapping[str, OutcomeKind | str] = field(default_factory=dict)
    lose: Sequence[str] = ()
    trend: bool = False

    @property
    def rules(self) -> Judge:
        metrics = {"eval_loss": Judged(margin=self.margin, scale="linear", better="lower")}
        expect = tuple(Expected.model_validate(each) for each in self.claims)
        return Judge(metrics=metrics, against=BASE, confidence=0.95, expect=expect)

    @property
    def plan(self) -> Plan:
        ids = {name: f"{name}{self.salt}" for name in self.names}
        variants = tuple(
            Variant(id=id, names=(name,), block=Parts(()), edits=(), parameters=1000, flops=2000)
            for name, id in ids.items()
        )
        against = (
            Comparison(kind="baseline", change=name, detail="against the baseline", before=ids[BASE], after=id)
            for name, id in ids.items()
            if name != BASE
        )
        weights = tuple((ids[name], weight) for name, weight in (("cold", -1.0), ("hot", 1.0)) if name in ids)
        over = Comparison(kind="main", change="heat: trend", detail="", before="", after="", weights=weights)
        seeds = tuple(range(self.seeds))
        return Plan(
            space=self.space,
            question="Does heat help?",
            design="compare",
            baseline=ids[BASE],
            variants=variants,
            comparisons=(*against, *([over] if self.trend else [])),
            seeds=seeds,
            trials=tuple(store_fixtures.trial(id, seed) for seed in seeds for id in ids.values()),
            notes=(),
            profile=self.profile,
        )

    @property
    def documents(self) -> Documents:
        judge = {"against": BASE, "metrics": {"eval_loss": {"margin": self.margin}}, "expect": list(self.claims)}
        resolved = {"space": self.space, "seeds": self.seeds, "design": {"compare": list(self.names)}, "judge": judge}
        return Documents(source="", resolved=resolved, profile=self.profile)


def course(name: str, seed: int, kind: str) -> list[Event]:
    """What a trial yields: a loss of its variant and its seed."""
    if kind != "finished":
        return [Outcome(kind, 20)]  # type: ignore[arg-type]
    noise = ((seed * 7 + ord(name[0])) * (seed + ord(name[1])) % 5) / 100
    kurtosis = WARMTH[name] + (0.0 if name != "base" or seed % 3 else 5.0)
    rows = [Row(40, "kurtosis", "layers.1", kurtosis), Row(40, "eval_loss", "", LOSSES[name] + 0.3 * seed + noise)]
    return [*rows, Outcome("finished", 40)]


def carry_out(folder: Path, runs: Sequence[Ran], monkeypatch: pytest.MonkeyPatch) -> Summary:
    """Carry out runs one after another; return the verdicts of the last."""
    clock = [0.0]
    monkeypatch.setattr("time.time", lambda: clock[0])
    summary: Summary | None = None
    said: list[str] = []
    for run in runs:
        clock[0], plan = day(run.day), run.plan
        names = {variant.id: variant.name for variant in plan.variants}
        with store_fixtures.opened(folder, say=said.append) as results:
            results.record_plan(plan, run.documents)
            known = results.outcomes()
            for trial in plan.trials:
                clock[0] += 60.0
                kind = run.ends.get(names[trial.variant], "finished")
                if trial.id not in known and kind:
                    results.begin(trial)
                    results.append(trial.id, course(names[trial.variant], trial.seed, kind))
            summary = judged(plan, run.rules, results)
        if run.lose:
            (folder / "ablate.duckdb").unlink()
        for name in run.lose:
            for path in (folder / "trials").glob(f"{name}*"):
                path.unlink()
    assert summary is not None
    return summary
