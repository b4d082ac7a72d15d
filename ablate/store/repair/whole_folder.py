"""`repair`: check everything in a results folder and around it, report it, and repair what can be repaired."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb

from ablate.data import cache
from ablate.errors import RefusedError, warn
from ablate.store import checkpoints, claim, earlier, files, lock, machines, open_trial, projection
from ablate.store.claim import Holder
from ablate.store.durable import DAMAGED, remove, set_aside, unfinished_in
from ablate.store.files import Ending
from ablate.store.lock import Lock
from ablate.store.projection import DATABASE, Say
from ablate.store.repair import database, kept_files, open_trials
from ablate.store.repair.report import UNDER_WAY, Fault, Finding, Repaired, named, put_right
from ablate.store.snapshot import Snapshot

LATER = "checked when that is repaired"
PLACES = (open_trial.FOLDER, checkpoints.FOLDER, machines.FOLDER, *files.FOLDERS)
CORPUS = "corpus"
"""The folder, in a results folder, for token streams (see `ablate.data.cache`)."""
SPACE_LOW = 256 * 2**20

Look = Callable[[Path], Iterable[Finding]]
Rebuild = Callable[[Path], object]


def repair(
    folder: Path,
    *,
    dry_run: bool,
    say: Say = warn,
    mirror: Look | None = None,
    rebuild_mirror: Rebuild | None = None,
) -> Repaired:
    """Check everything in `folder` and repair what can be repaired; return what was found, done and is left.

    With `dry_run` nothing is written and no lock is needed: the report says what would be done. The same holds for a
    folder in use, where findings that may only be unfinished work are left out. `mirror` checks the copy in MLflow, and
    `rebuild_mirror` is called if that still finds something after all other repairs; `say` gets what is not in the
    report. InputError for a folder without results, RefusedError if it cannot be written or a run has begun meanwhile.
    """
    files.check_results(folder)
    workers = claim.holders(folder)
    holder = lock.holder(folder) or _worker(workers)
    killed = () if holder else tuple(killed_runs(folder))
    if dry_run or holder:
        looked, faults = _look(folder, workers)
        findings = (*killed, *_findings(faults), *notes(folder), *_mirrored(folder, mirror))
        shown = tuple(finding for finding in findings if not (holder and finding.kind in UNDER_WAY))
        return Repaired(folder, shown, holder, _looked_at(looked))
    with Lock(folder):
        looked, faults = _look(folder, workers)
        findings = (*killed, *_findings(faults), *notes(folder), *_mirrored(folder, mirror))
        report = Repaired(folder, findings, None, _looked_at(looked), done=True)
        put_right(faults, (lambda told: None) if report.to_repair or report.lost else say)  # not twice
        if (report.to_repair or report.lost) and rebuild_mirror:
            _rebuild(folder, mirror, rebuild_mirror, say)
    if not report.to_repair and not report.lost:
        return report
    return replace(report, left=repair(folder, dry_run=True, mirror=mirror).to_repair)


def _look(folder: Path, workers: Mapping[str, Holder]) -> tuple[Snapshot, tuple[Fault, ...]]:
    """Read everything; return it with its faults, in the order in which they are repaired."""
    now = Snapshot(folder)
    faults = (
        *leftovers(folder, workers),
        *_of_earlier(folder),
        *kept_files.faults(now, projection.read_stored(folder / DATABASE), thorough=True),
        *corpora(folder),
        Fault(tuple(clocks(folder, now.endings.values()))),
        *open_trials.faults(now, thorough=True),
        database.faults(now),
    )
    return now, faults


def _of_earlier(folder: Path) -> Iterator[Fault]:
    """Find the lines of an earlier version, which are read as they are, and converted by whoever may write."""
    if earlier.is_earlier(folder):
        there = ", ".join(name for name in earlier.LINES if (folder / name).exists())
        what = f"is of an earlier version, with lines in {there}"
        finding = Finding("earlier", "repaired", what, folder, f"converted to files; kept in {earlier.FOLDER}")
        yield Fault((finding,), partial(earlier.convert, folder))


def make_ready(folder: Path, say: Say) -> None:
    """Finish interrupted writes in a locked folder before a run writes: only what it needs and is cheap to find."""
    put_right((*leftovers(folder, claim.holders(folder)), *_of_earlier(folder)), say)
    now, stored = Snapshot(folder), projection.read_stored(folder / DATABASE)
    put_right(kept_files.faults(now, stored, thorough=False), say)
    put_right(open_trials.faults(Snapshot(folder), thorough=False), say)
    projection.put_damaged_aside(folder, say)


def _findings(faults: Iterable[Fault]) -> Iterator[Finding]:
    for fault in faults:
        yield from fault.findings


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


def _looked_at(looked: Snapshot) -> dict[str, int]:
    return {
        "plan": sum(map(len, looked.plans.of_space.values())),
        "specification": len(looked.plans.specifications),
        "ended trial": len(looked.endings),
        "row": sum(ending.rows for ending in looked.endings.values()),
        "open trial": len(looked.open),
        "checkpoint": sum(1 for _ in (looked.folder / checkpoints.FOLDER).glob("*.pt")),
    }


# The surroundings of the results: leftovers of killed processes, token streams, disk space, clocks


def leftovers(folder: Path, workers: Mapping[str, Holder]) -> Iterator[Fault]:
    """Find what must be deleted before anything else is checked; `workers` are those that claim a trial."""
    for place in (folder, *(folder / name for name in PLACES)):
        for path in unfinished_in(place):
            what = "was being written by a run that was killed"
            finding = Finding("leftover", "repaired", what, path, "deleted", changes=(path,))
            yield Fault((finding,), partial(remove, path))
    for path in claim.silent(folder):
        yield _claim(folder, path.name, "does not say who holds it", "deleted, unless a worker holds it")
    for worker in workers.values():
        if not worker.alive:
            what = f"was left by a worker that died (process {worker.pid} on {worker.host}, at step {worker.step})"
            yield _claim(folder, worker.trial_id, what, "deleted")
    for trace in sorted((folder / claim.FOLDER).glob(f"*{claim.TRACE}")):
        if not trace.with_suffix("").exists():
            what = "is the trace of a hanging trial that no worker has any more"
            yield _claim(folder, trace.name.removesuffix(claim.TRACE), what, "deleted", trace)


def corpora(folder: Path) -> Iterator[Fault]:
    """Find the damaged token streams, which are rebuilt from the texts; every byte is read."""
    for path, what in cache.faults(folder / CORPUS):
        remedy = f"kept in {DAMAGED}; rebuilt from the texts by the next run that reads them"
        changes = tuple(dict.fromkeys((path, path.with_suffix(".json"))))
        finding = Finding("corpus", "repaired", what, path, remedy, changes=changes)
        yield Fault((finding,), partial(_put_aside, folder, changes))


def _put_aside(folder: Path, paths: tuple[Path, ...]) -> None:
    for path in paths:
        if path.exists():
            set_aside(folder, path)


def killed_runs(folder: Path) -> Iterator[Finding]:
    """Report a run killed before releasing the lock; call it before taking the lock, which overwrites that."""
    if who := lock.left(folder):
        what = f"was not released: a run was killed ({who})"
        yield Finding("killed", "harmless", what, folder / "lock", "blocks nobody")


def notes(folder: Path) -> Iterator[Finding]:
    free, database = shutil.disk_usage(folder).free, folder / DATABASE
    needed = max(SPACE_LOW, database.stat().st_size if database.exists() else 0)
    if free < needed:
        what = f"has {free / 2**20:.0f} MiB free; bringing {DATABASE} up to date needs up to {needed / 2**20:.0f}"
        yield Finding("space", "harmless", what, folder, "free some space")
    if kept := sorted((folder / DAMAGED).glob("*")):
        what = f"contains {len(kept)} damaged {'files' if len(kept) > 1 else 'file'} ({kept[0].name}…)"
        yield Finding("kept", "harmless", what, folder / DAMAGED, "delete them when you no longer need them")


def clocks(folder: Path, endings: Iterable[Ending]) -> Iterator[Finding]:
    backwards = [ending.trial for ending in endings if ending.ended < ending.began]
    if backwards:
        what = f"{named(backwards)} ended before it began: a clock was set back"
        yield Finding("clock", "harmless", what, folder / files.TRIALS, "nothing depends on it")


def _claim(folder: Path, trial_id: str, what: str, remedy: str, where: Path | None = None) -> Fault:
    path, trace = folder / claim.FOLDER / trial_id, claim.trace_of(folder, trial_id)
    finding = Finding("worker", "harmless", what, where or path, remedy, changes=(path, trace))
    return Fault((finding,), partial(claim.forget, folder, trial_id))
