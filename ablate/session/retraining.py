"""Trials of a folder that one got trained again, and compared bit by bit with what was sealed.

Where the bits differ on a machine that computes alike, a number was changed; on another machine that proves nothing, so
the first step that differs is told, and the difference at the end beside the standard deviation between seeds.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ablate.components.registry import declarations
from ablate.data.streams import prepare
from ablate.errors import AblateError, RefusedError
from ablate.execute.task import Task, cache_of
from ablate.plan.trial import Trial
from ablate.session.checks import Answer, Check
from ablate.store import trial_numbers
from ablate.store.files import Ending
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.store.versions import of_machine
from ablate.train.events import WITH_RESULT


def retrained(
    now: Snapshot, space: str, trials: Sequence[Trial], plugins: tuple[Path, ...], number: int
) -> Iterator[Check]:
    """Train `number` random trials of a space again, each from its beginning, and compare every row."""
    ended = {trial for trial, ending in now.endings.items() if ending.kind in WITH_RESULT}
    there = {trial.id: trial for trial in trials if trial.id in ended}
    if not there:
        yield Check(space, "retrained", "told", "no trial that was made anew has a result that could be trained again")
        return
    chosen = random.SystemRandom().sample(sorted(there), min(number, len(there)))
    with tempfile.TemporaryDirectory(prefix="ablate-") as place:
        folder = Path(place)
        if cache_of(now.folder).exists():
            cache_of(folder).symlink_to(cache_of(now.folder).resolve(), target_is_directory=True)
        for trial in chosen:
            yield Check(space, "retrained", *_again(now, there[trial], plugins, folder))


def _again(now: Snapshot, trial: Trial, plugins: tuple[Path, ...], folder: Path) -> tuple[Answer, str]:
    label, before = f"{trial.id} (seed {trial.seed})", now.endings[trial.id]
    try:
        streams = prepare(trial.data, Path(trial.folder), cache_of(folder), declarations(plugins))
    except AblateError as error:
        return "told", f"{label}: its text is not here ({str(error).splitlines()[0]})"
    if streams.fingerprint != trial.corpus:
        return "told", f"{label}: the text here is another one than it was trained on"
    after = train_again(trial, folder, before, plugins)
    if (after.digest, after.kind, after.step) == (before.digest, before.kind, before.step):
        return "right", f"{label}: bit for bit the same, {before.rows:,} rows"
    told, then, here = _difference(now, trial, folder), of_machine(before.versions), of_machine(after.versions)
    if then == here:
        return "wrong", f"{label}: {told}, on a machine that computes the same"
    apart = sorted(name for name in {**then, **here} if then.get(name) != here.get(name))
    return "told", f"{label}: {told}; this machine computes otherwise ({', '.join(apart)})"


def train_again(trial: Trial, folder: Path, ending: Ending, plugins: tuple[Path, ...]) -> Ending:
    """Train a trial from its beginning in a folder of its own, divided as it was, and return how it ended."""
    from ablate.execute.worker import messages  # loads torch, which nothing else here needs

    parts, ranks = (int(ending.versions.get(name, 1)) for name in ("parts", "ranks"))
    with Results(folder, say=lambda said: None) as store:
        store.begin(trial)
        task = Task(trial=trial, folder=folder, plugins=plugins, parts=parts, ranks=ranks)
        for message in messages(task, lambda: False):
            store.append(trial.id, message.events)
    again = Snapshot(folder).endings.get(trial.id)
    if again is None:
        raise RefusedError(f"trial {trial.id} could not be trained again\n  = free memory or disk, and try again")
    return again


def _difference(now: Snapshot, trial: Trial, folder: Path) -> str:
    """Return the first step at which two trainings differ, and what that is at the end beside the sd between seeds."""
    before, after = _rows(now.folder, trial.id), _rows(folder, trial.id)
    differ = sorted(key for key in {**before, **after} if not _bits(before.get(key), after.get(key)))
    if not differ:
        return "the same rows, and another end"
    step, metric, address = differ[0]
    told = f"differs from step {step} on ({metric}{f' of {address}' if address else ''})"
    losses, again = _losses(before), _losses(after)
    if not (losses and again):
        return told
    like = [_losses(_rows(now.folder, other))[-1:] for other in now.endings if _is_like(now, other, trial)]
    at_ends = [loss for of_seed in like for loss in of_seed]
    spread = f", where seeds have a sd of {statistics.stdev(at_ends):.2g}" if len(at_ends) > 1 else ""
    return f"{told}; its eval loss at the end by {abs(losses[-1] - again[-1]):.2g}{spread}"


def _rows(folder: Path, trial: str) -> dict[tuple[int, str, str], float]:
    rows = trial_numbers.ended(folder, trial).rows.to_pylist()
    return {(row["step"], row["metric"], row["address"]): row["value"] for row in rows if row["kind"] == "row"}


def _losses(rows: Mapping[tuple[int, str, str], float]) -> list[float]:
    return [rows[key] for key in sorted(rows) if key[1] == "eval_loss"]


def _bits(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return False
    return before == after or (math.isnan(before) and math.isnan(after))


def _is_like(now: Snapshot, other: str, trial: Trial) -> bool:
    """Return whether another trial is of the same variant and settings at any seed."""
    specified = now.specification(other)
    asked = trial.variant, trial.conditions, trial.salt
    return (specified.get("variant"), specified.get("conditions"), specified.get("salt")) == asked
