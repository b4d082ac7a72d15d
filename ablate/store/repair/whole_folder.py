"""`repair`: everything in a results folder looked at, said in plain lines, and put right where it can be."""

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

LATER = "looked at when that is repaired"

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
    """Look at everything in `folder` and put right what can be; what was found, done and is left.

    With `dry_run` nothing is written and no lock is needed: what is reported is what would be done. So it is with a
    folder in use, of which what may only be unfinished is not reported either. `mirror` looks at the copy in MLflow,
    and `rebuild_mirror` is called if that still finds something when all else is right; `say` hears what is not in the
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
        found = (*killed, *_findings(faults), *around.notes(folder), *_mirrored(folder, mirror))
        shown = tuple(finding for finding in found if not (holder and finding.kind in UNDER_WAY))
        return Repaired(folder, shown, holder, _looked_at(looked))
    with Lock(folder):
        looked, faults = _look(folder, workers)
        found = (*killed, *_findings(faults), *around.notes(folder), *_mirrored(folder, mirror))
        report = Repaired(folder, found, None, _looked_at(looked), done=True)
        put_right(faults, say if not report.to_repair else _nobody)
        if report.to_repair and rebuild_mirror:
            _rebuild(folder, mirror, rebuild_mirror, say)
    if not report.to_repair:
        return report
    return replace(report, left=repair(folder, dry_run=True, mirror=mirror).to_repair)


def _look(folder: Path, workers: Mapping[str, Holder]) -> tuple[Seen, tuple[Fault, ...]]:
    """Everything that is read, and what is wrong with it, in the order in which it is put right."""
    looked = seen.look(folder, projection.read_stored(folder / DATABASE))
    over = dict(open_trials.over(folder, looked.segments.items(), looked.endings))
    endings = [found.ending for found in looked.examined.values() if found.ending]
    faults = (
        *leftovers.faults(folder, workers),
        *seen.faults_of_lines(looked),
        *plans.faults(folder, looked.asked, looked.back, looked.examined),
        *sealed_trials.faults(folder, looked.known, looked.examined, looked.back_trials),
        *runs.faults(folder, looked.ledgers, looked.asked),
        *judgements.faults(folder, looked.ledgers, looked.mended, looked.stored),
        *corpora.faults(folder),
        Fault(tuple(around.clocks(folder, endings))),
        *over.values(),
        *open_trials.unfinished(folder, looked.segments, looked.asked.trials, over),
        *open_trials.checkpoints_of_nobody(folder, looked.segments, looked.endings),
        database.faults(looked),
    )
    return looked, faults


def _findings(faults: Iterable[Fault]) -> Iterator[Finding]:
    for fault in faults:
        yield from fault.findings


def _nobody(told: str) -> None:
    """Tell nobody what is in the report."""


def _mirrored(folder: Path, mirror: Look | None) -> Iterator[Finding]:
    """What is wrong with the copy in MLflow, which is compared with the DuckDB file."""
    try:
        yield from mirror(folder) if mirror else ()
        return
    except RefusedError as refused:
        why = str(refused).splitlines()[0]
    except duckdb.CatalogException:
        why = f"{DATABASE} has the tables of another version"
    yield Finding("mirror", "harmless", f"was not looked at ({why})", folder / "mlflow.db", LATER)


def _rebuild(folder: Path, mirror: Look | None, rebuild: Rebuild, say: Say) -> None:
    """Fill the copy in MLflow anew, if something is wrong with it now that the DuckDB file is right."""
    if any(finding.severity != "harmless" for finding in _mirrored(folder, mirror)):
        try:
            rebuild(folder)
        except RefusedError as refused:  # it is a copy: what goes wrong there costs no result
            say(str(refused))


def _worker(workers: Mapping[str, Holder]) -> str | None:
    """Who trains here still, with or without a run."""
    alive = [worker for worker in workers.values() if worker.alive]
    return f"process {alive[0].pid} on {alive[0].host}, which trains trial {alive[0].trial_id}" if alive else None


def _looked_at(looked: Seen) -> dict[str, int]:
    return {
        "plan": len(looked.asked.plans),
        "specification": len(looked.asked.trials),
        "ended trial": len(looked.examined),
        "row": sum(found.ending.rows for found in looked.examined.values() if found.ending),
        "open trial": len(looked.segments),
        "checkpoint": sum(1 for _ in (looked.folder / checkpoints.FOLDER).glob("*.pt")),
    }
