"""A small plan and what its trials yield, for the tests of the store. No model is trained here."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from pathlib import Path

import duckdb
from altered_trials import altered
from builders import architecture, op, pre_ln
from recipes import recipe

from ablate.components.registry import declarations
from ablate.plan.identity import ModelTraining
from ablate.plan.plan import Comparison, KeptProposal, Plan, Trial, Variant, conditions_of
from ablate.space.data import Data
from ablate.space.judge import Evaluation, Judge, Judged, Measure
from ablate.space.metrics import Definition
from ablate.store import journal
from ablate.store.documents import Documents
from ablate.store.results import Results
from ablate.train.events import Checkpoint, Event, Outcome, Row, Saved, Timing

VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "ablate": "0.1.0", "platform": "linux-x86_64", "cpu": "test"}
ADDRESSES = ("layers.1", "layers.2", "head")
STEPS = (0, 10, 20, 30)
VARIANTS = {"a1": "pre_ln", "b2": "half", "c3": "op"}

RECIPE = recipe(steps=40, batch=4)
DOCUMENTS = Documents(
    source='space: small\n# the user\'s own words: "quoted"\n',
    resolved={"space": "small", "seeds": [0, 1]},
    definitions=(Definition(metric="kurtosis", definition="mean s⁴ / (mean s²)²", source="Eq. 1"),),
    corpus={"files": 3, "tokens": 1000},
)
RULES = Judge(
    metrics={"eval_loss": Judged(margin="1%", scale="linear", better="lower")}, against="pre_ln", confidence=0.95
)


def trial(variant: str = "a1", seed: int = 0, id: str | None = None) -> Trial:
    """One trial of a variant; its id is readable here."""
    made = Trial(
        id=id or f"{variant}{seed:04x}",
        variant=variant,
        work=ModelTraining(
            architecture=architecture(op() if variant == "c3" else pre_ln()),
            data=Data(corpus="python_stdlib", tokenizer="bytes", tuning=0.05, verdict=0.05),
            corpus="f00d",
            folder="/spaces",
            recipe=RECIPE,
            measure=Measure(
                every=10, probes=("kurtosis",), evaluation=Evaluation(every=20, windows=4), checkpoint_every=20
            ),
            threads=1,
        ),
        seed=seed,
        salt=0,
    )
    return under(made)


def under(trial: Trial, **changes: object) -> Trial:
    """A trial with changes, and with the conditions that it then has."""
    changed = altered(trial, **changes)
    return replace(changed, conditions=conditions_of(changed, changed.work.conditions(declarations())))


def plan(seeds: tuple[int, ...] = (0, 1), space: str = "small") -> Plan:
    """A path of three variants."""
    edits = {"a1": (), "b2": ("+qk_norm",), "c3": ("+qk_norm", "residual.gain=0.5")}
    variants = tuple(
        Variant(
            id=id,
            names=(name, f"also_{name}"),
            block=op() if id == "c3" else pre_ln(),
            edits=edits[id],
            parameters=1000,
            flops=2000,
            spared=200 if id == "c3" else 0,
        )
        for id, name in VARIANTS.items()
    )
    return Plan(
        space=space,
        question="Is it so?",
        design="path",
        baseline="a1",
        variants=variants,
        comparisons=(
            Comparison(kind="edit", change="+qk_norm", detail="nothing → qk_norm", before="a1", after="b2"),
            Comparison(kind="edit", change="residual.gain=0.5", detail="1 → 0.5", before="b2", after="c3"),
            Comparison(kind="baseline", change="half", detail="against the baseline", before="a1", after="b2"),
            Comparison(kind="baseline", change="op", detail="against the baseline", before="a1", after="c3"),
        ),
        seeds=seeds,
        trials=tuple(trial(variant, seed) for seed in seeds for variant in VARIANTS),
        notes=("nothing was folded",),
        proposals=(
            KeptProposal(k=0, derivation=2**70, variant="b2", repeat=False, choices=3, random=3),
            KeptProposal(k=1, derivation=5, variant="b2", repeat=True, choices=2, random=0),
        ),
    )


def number(trial_id: str, step: int, metric: str, address: str = "") -> float:
    """A number that depends on everything it is keyed by, with all of its 53 bits in use."""
    return 1 + abs(math.sin(hash_of(f"{trial_id}|{step}|{metric}|{address}")))


def hash_of(text: str) -> float:
    """A stable number of a text (`hash` changes from process to process)."""
    return sum(ord(letter) * 1.37**place for place, letter in enumerate(text)) % 1000


def rows_at(trial_id: str, step: int) -> list[Event]:
    """What one measured step yields."""
    rows: list[Event] = [Row(step, "train_loss", "", number(trial_id, step, "train_loss"))]
    for address in ADDRESSES:
        rows += [
            Row(step, metric, address, number(trial_id, step, metric, address))
            for metric in ("kurtosis", "token_correlation_rms")
        ]
    return [*rows, Timing(step, "step", 0.25)]


def state_of(trial_id: str) -> bytes:
    """The state of a trial's checkpoint."""
    return f"state of {trial_id}".encode()


def saved(step: int, state: bytes) -> Saved:
    """What a worker says of a state that it has written."""
    return Saved(step, zlib.crc32(state), len(state))


def hear(results: Results, trial_id: str, events: list[Event]) -> None:
    """What a worker and its driver do: each state is on the disk before it is spoken of."""
    for event in events:
        if isinstance(event, Saved):
            journal.write_checkpoint(results.folder, trial_id, Checkpoint(event.step, state_of(trial_id)))
        results.append(trial_id, [event])


def course(trial_id: str, after: int = 0) -> list[Event]:
    """All that a trial of 40 steps yields, or what is left of it after a checkpoint."""
    events: list[Event] = []
    for step in STEPS:
        if step >= after:
            events += rows_at(trial_id, step)
        if step == 20 and after < 20:
            events = [e for e in events if not (isinstance(e, Row | Timing) and e.step == 20)]
            events += [saved(20, state_of(trial_id)), *rows_at(trial_id, 20)]
    losses = [Row(40, name, "", number(trial_id, 40, name)) for name in ("eval_loss", "eval_bits_per_byte")]
    return [*events, *losses, Outcome("finished", 40)]


def diverged(trial_id: str) -> list[Event]:
    """A trial that diverged at step 20."""
    rows = [*rows_at(trial_id, 0), *rows_at(trial_id, 10)]
    detail = {"address": "layers.2.mlp", "cause": "loss", "last": {"train_loss": math.nan}}
    return [
        *rows,
        Row(20, "train_loss", "", math.nan),
        Row(20, "kurtosis", "layers.1", math.inf),
        Outcome("diverged", 20, detail),
    ]


def opened(folder: Path, **changes: object) -> Results:
    """The folder as a driver of these tests opens it; what it says is an error unless the test takes it."""
    return Results(folder, **{"versions": VERSIONS, "say": refuse, **changes})  # type: ignore[arg-type]


def refuse(said: str) -> None:
    raise AssertionError(f"nothing should have been said, but: {said}")


def fill(folder: Path, the_plan: Plan | None = None, diverge: str = "c30001") -> None:
    """Run a whole plan."""
    the_plan = the_plan or plan()
    with opened(folder) as results:
        results.record_plan(the_plan, DOCUMENTS)
        known = results.outcomes()
        for one in the_plan.trials:
            if one.id not in known:
                results.begin(one)
                results.append(one.id, diverged(one.id) if one.id == diverge else course(one.id))
        results.refresh()


def contents(folder: Path, but: tuple[str, ...] = ("timings",)) -> dict[str, list[tuple[object, ...]]]:
    """Every table and view of the DuckDB file but what clocks said, sorted; NaN as text, so that it equals itself.

    Names and digests of files are left out too: there are times in the files.
    """
    clocks = ("first_seen", "judged_at")
    with duckdb.connect(folder / "ablate.duckdb", read_only=True) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        return {
            name: [
                tuple(map(repr, row))
                for row in connection.execute(
                    f"SELECT COLUMNS(lambda c: c NOT IN {clocks}) FROM {name} ORDER BY ALL"
                ).fetchall()
            ]
            for name in names
            if name not in (*but, "files", "projection")
        }


def salted(one: Trial, salt: int) -> Trial:
    """The same trial with another salt and id."""
    return replace(one, id=f"{one.id}s{salt}", salt=salt)
