"""`repair`: check everything in a results folder, report it, and repair what can be repaired."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import duckdb

from ablate.errors import InputError, RefusedError
from ablate.store import checkpoints, claim, ledger, lock, projection, sealed
from ablate.store.claim import Holder
from ablate.store.durable import check_folder
from ablate.store.lock import Lock
from ablate.store.projection import DATABASE, Say
from ablate.store.repair import (
    around,
    corpora,
    database,
    judgements,
    leftovers,
    open_trials,
    plans,
    runs,
    sealed_trials,
    seen,
)
from ablate.store.repair.faults import Fault, put_right
from ablate.store.repair.report import UNDER_WAY, Finding, Repaired
from ablate.store.repair.seen import Seen

LATER = "checked when that is repaired"

Look = Callable[[Path], Iterable[Finding]]
Rebuild = Callable[[Path], object]


def repair(
    folder: Path,
    *,
    dry_run: bool,
    say: Say = warnings.warn,
    mirror: Look | None = None,
    rebuild_mirror: Rebuild | None = None,
) -> Repaired:
    """Check everything in `folder` and repair what can be repaired; return what was found, done and is left.

    With `dry_run` nothing is written and no lock is needed: the report says what would be done. The same holds for a
    folder in use, where findings that may only be unfinished work are left out. `mirror` checks the copy in MLflow, and
    `rebuild_mirror` is called if that still finds something after all other repairs; `say` gets what is not in the
    report. InputError for a folder without results, RefusedError if it cannot be written or a run has begun meanwhile.
    """
    check_folder(folder)
    if not any((folder / name).exists() for name in (ledger.PLANS, ledger.OUTCOMES, DATABASE, sealed.FOLDER)):
        raise InputError(f"no results in {folder}\n  = run a space first, or name another folder with --results")
    workers = claim.holders(folder)
    holder = lock.holder(folder) or _worker(workers)
    killed = () if holder else tuple(around.killed(folder))
    if dry_run or holder:
        looked, faults = _look(folder, workers)
        findings = (*killed, *_findings(faults), *around.notes(folder), *_mirrored(folder, mirror))
        shown = tuple(finding for finding in findings if not (holder and finding.kind in UNDER_WAY))
        return Repaired(folder, shown, holder, _looked_at(looked))
    with Lock(folder):
        looked, faults = _look(folder, workers)
        findings = (*killed, *_findings(faults), *around.notes(folder), *_mirrored(folder, mirror))
        report = Repaired(folder, findings, None, _looked_at(looked), done=True)
        put_right(faults, say if not report.to_repair else _nobody)
        if report.to_repair and rebuild_mirror:
            _rebuild(folder, mirror, rebuild_mirror, say)
    if not report.to_repair:
        return report
    return replace(report, left=repair(folder, dry_run=True, mirror=mirror).to_repair)


def _look(folder: Path, workers: Mapping[str, Holder]) -> tuple[Seen, tuple[Fault, ...]]:
    """Read everything; return it with its faults, in the order in which they are repaired."""
    looked = seen.look(folder, projection.read_stored(folder / DATABASE))
    over = dict(open_trials.over(folder, looked.segments.items(), looked.endings))
    endings = [file.ending for file in looked.examined.values() if file.ending]
    faults = (
        *leftovers.faults(folder, workers),
        *seen.faults_of_lines(looked),
        *plans.faults(folder, looked.kept, looked.back, looked.examined),
        *sealed_trials.faults(folder, looked.known, looked.examined, looked.back_trials),
        *runs.faults(folder, looked.ledgers, looked.kept),
        *judgements.faults(folder, looked.ledgers, looked.mended, looked.stored),
        *corpora.faults(folder),
        Fault(tuple(around.clocks(folder, endings))),
        *over.values(),
        *open_trials.unfinished(folder, looked.segments, looked.kept.trials, over),
        *open_trials.checkpoints_of_nobody(folder, looked.segments, looked.endings),
        database.faults(looked),
    )
    return looked, faults


def _findings(faults: Iterable[Fault]) -> Iterator[Finding]:
    for fault in faults:
        yield from fault.findings


def _nobody(told: str) -> None:
    """Ignore what is already in the report."""


def _mirrored(folder: Path, mirror: Look | None) -> Iterator[Finding]:
    """Find what is wrong with the copy in MLflow, compared with the DuckDB file."""
    try:
        yield from mirror(folder) if mirror else ()
        return
    except RefusedError as refused:
        why = str(refused).splitlines()[0]
    except duckdb.CatalogException:
        why = f"{DATABASE} has the tables of another version"
    yield Finding("mirror", "harmless", f"was not checked ({why})", folder / "mlflow.db", LATER)


def _rebuild(folder: Path, mirror: Look | None, rebuild: Rebuild, say: Say) -> None:
    """Rebuild the copy in MLflow if something is wrong with it after the DuckDB file is repaired."""
    if any(finding.severity != "harmless" for finding in _mirrored(folder, mirror)):
        try:
            rebuild(folder)
        except RefusedError as refused:  # it is a copy: a failure there costs no result
            say(str(refused))


def _worker(workers: Mapping[str, Holder]) -> str | None:
    """Describe who is still training here, with or without a run."""
    alive = [worker for worker in workers.values() if worker.alive]
    return f"process {alive[0].pid} on {alive[0].host}, which trains trial {alive[0].trial_id}" if alive else None


def _looked_at(looked: Seen) -> dict[str, int]:
    return {
        "plan": len(looked.kept.plans),
        "specification": len(looked.kept.trials),
        "ended trial": len(looked.examined),
        "row": sum(file.ending.rows for file in looked.examined.values() if file.ending),
        "open trial": len(looked.segments),
        "checkpoint": sum(1 for _ in (looked.folder / checkpoints.FOLDER).glob("*.pt")),
    }
