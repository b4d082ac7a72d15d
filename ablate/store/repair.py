"""Repair of a results folder: everything in it and around it checked, and open trials sealed or made to continue.

A fault is found without a lock and without writing; its own cure (see `faults`) then repairs it in a locked folder. So
a dry run reports exactly what would be done. Nothing damaged is deleted: it is kept in `damaged/`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb

from ablate.data import cache
from ablate.errors import RefusedError, warn
from ablate.store import claim, durable, files, journal, machines, projection, sealed, snapshot
from ablate.store.claim import Holder
from ablate.store.durable import DAMAGED, Lock, copy_aside, remove, set_aside, unfinished_in, writing
from ablate.store.faults import UNDER_WAY, Fault, Finding, Repaired, database_fault, file_faults, named, put_right
from ablate.store.files import WITNESS, Ending
from ablate.store.journal import CheckpointMark, Segment, TrialStart
from ablate.store.projection import DATABASE, Say
from ablate.store.snapshot import Snapshot, open_trials

LATER = "checked when that is repaired"
PLACES = (journal.JOURNAL, journal.CHECKPOINTS, machines.FOLDER, *files.FOLDERS)
CORPUS = "corpus"  # the folder, in a results folder, for token streams (see `ablate.data.cache`)
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
    holder = durable.lock_holder(folder) or _worker(workers)
    killed = () if holder else tuple(killed_runs(folder))
    if dry_run or holder:
        looked, _, findings = _look(folder, workers, mirror)
        shown = tuple(each for each in (*killed, *findings) if not (holder and each.kind in UNDER_WAY))
        return Repaired(folder, shown, holder, _looked_at(looked))
    with Lock(folder):
        looked, faults, findings = _look(folder, workers, mirror)
        report = Repaired(folder, (*killed, *findings), None, _looked_at(looked), done=True)
        put_right(faults, (lambda told: None) if report.to_repair or report.lost else say)  # not twice
        if (report.to_repair or report.lost) and rebuild_mirror:
            _rebuild(folder, mirror, rebuild_mirror, say)
    if not report.to_repair and not report.lost:
        return report
    return replace(report, left=repair(folder, dry_run=True, mirror=mirror).to_repair)


def _look(
    folder: Path, workers: Mapping[str, Holder], mirror: Look | None
) -> tuple[Snapshot, tuple[Fault, ...], tuple[Finding, ...]]:
    """Return everything read, its faults in the order in which they are repaired, and all findings."""
    now = Snapshot(folder)
    faults = (
        *leftovers(folder, workers),
        *_of_earlier(folder),
        *file_faults(now, projection.read_stored(folder / DATABASE), thorough=True),
        *corpora(folder),
        Fault(tuple(clocks(folder, now.endings.values()))),
        *open_trial_faults(now, thorough=True),
        database_fault(now),
    )
    of_faults = (finding for fault in faults for finding in fault.findings)
    return now, faults, (*of_faults, *notes(folder), *_mirrored(folder, mirror))


def _of_earlier(folder: Path) -> Iterator[Fault]:
    """Find the lines of an earlier version, which are read as they are, and converted by whoever may write."""
    if snapshot.is_earlier(folder):
        there = ", ".join(name for name in snapshot.EARLIER_LINES if (folder / name).exists())
        what = f"is of an earlier version, with lines in {there}"
        remedy = f"converted to files; kept in {snapshot.EARLIER}"
        yield Fault.of("earlier", what, folder, remedy, partial(snapshot.convert_earlier, folder))


def make_ready(folder: Path, say: Say) -> None:
    """Finish interrupted writes in a locked folder before a run writes: only what it needs and is cheap to find."""
    put_right((*leftovers(folder, claim.holders(folder)), *_of_earlier(folder)), say)
    now, stored = Snapshot(folder), projection.read_stored(folder / DATABASE)
    put_right(file_faults(now, stored, thorough=False), say)
    put_right(open_trial_faults(Snapshot(folder), thorough=False), say)
    projection.put_damaged_aside(folder, say)


def _mirrored(folder: Path, mirror: Look | None) -> Iterator[Finding]:
    try:
        yield from mirror(folder) if mirror else ()
        return
    except RefusedError as refused:
        why = str(refused).splitlines()[0]
    except duckdb.CatalogException:
        why = f"{DATABASE} has the tables of another version"
    yield Finding("mirror", "harmless", f"was not checked ({why})", folder / "mlflow.db", LATER)


def _rebuild(folder: Path, mirror: Look | None, rebuild: Rebuild, say: Say) -> None:
    if any(finding.severity != "harmless" for finding in _mirrored(folder, mirror)):
        try:
            rebuild(folder)
        except RefusedError as refused:  # it is a copy: a failure there costs no result
            say(str(refused))


def _worker(workers: Mapping[str, Holder]) -> str | None:
    alive = [worker for worker in workers.values() if worker.alive]
    return f"process {alive[0].pid} on {alive[0].host}, which trains trial {alive[0].trial_id}" if alive else None


def _looked_at(looked: Snapshot) -> dict[str, int]:
    return {
        "plan": sum(map(len, looked.plans.of_space.values())),
        "specification": len(looked.plans.specifications),
        "ended trial": len(looked.endings),
        "row": sum(ending.rows for ending in looked.endings.values()),
        "open trial": len(looked.open),
        "checkpoint": sum(1 for _ in (looked.folder / journal.CHECKPOINTS).glob("*.pt")),
    }


# The surroundings of the results: leftovers of killed processes, token streams, disk space, clocks


def leftovers(folder: Path, workers: Mapping[str, Holder]) -> Iterator[Fault]:
    """Find what must be deleted before anything else is checked; `workers` are those that claim a trial."""
    for place in (folder, *(folder / name for name in PLACES)):
        for path in unfinished_in(place):
            what = "was being written by a run that was killed"
            yield Fault.of("leftover", what, path, "deleted", partial(remove, path), (path,))
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
        yield Fault.of("corpus", what, path, remedy, partial(_put_aside, folder, changes), changes)


def _put_aside(folder: Path, paths: tuple[Path, ...]) -> None:
    for path in paths:
        if path.exists():
            set_aside(folder, path)


def killed_runs(folder: Path) -> Iterator[Finding]:
    """Report a run killed before releasing the lock; call it before taking the lock, which overwrites that."""
    if who := durable.killed_holder(folder):
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


# Open trials: their segments and checkpoints; sealing a trial that has ended, and continuing one that has not
#
# Every step of sealing can be repeated, so an interrupted one is simply finished.


def finish_trial(folder: Path, trial_id: str) -> Ending:
    """Seal a segment whose last line is an outcome. Repeating it after a crash gives the same result."""
    path = journal.path_of(folder, trial_id)
    content = journal.read(path)
    if content is None:
        raise ValueError(f"the segment of trial {trial_id} is gone")
    ending = sealed.write(folder, content)
    with writing(path):
        path.unlink()
    journal.drop_checkpoints(folder, trial_id)
    return ending


def continue_trial(folder: Path, trial_id: str, say: Say) -> TrialStart | None:
    """Cut an unfinished trial's segment back to its last checkpoint; empty it and return None if it must start over."""
    path = journal.path_of(folder, trial_id)
    content = journal.read(path)
    if content is None:
        _start_over(folder, trial_id)
        return None
    if content.torn:
        say(f"the journal of trial {trial_id} ends in the middle of a line; {content.torn} bytes are cut off")
    if content.damaged:
        say(f"the journal of trial {trial_id} is damaged in line {', '.join(map(str, content.damaged))}")
    mark = last_good_checkpoint(folder, trial_id, content)
    if content.damaged and not mark:
        say(f"trial {trial_id} starts over")
    elif content.marks and not mark:
        say(f"the checkpoint of trial {trial_id} is damaged or gone; the trial starts over")
    if mark is None:
        _start_over(folder, trial_id)
        return None
    durable.truncate(path, mark.end)
    journal.drop_checkpoints(folder, trial_id, keep=mark.saved.step)
    return TrialStart(mark.saved, content.beginning.versions)


def last_good_checkpoint(folder: Path, trial_id: str, content: Segment) -> CheckpointMark | None:
    """Return the last checkpoint whose state is whole and above which every line is whole."""
    for mark in reversed(content.marks):
        if mark.end <= content.sound and journal.read_checkpoint(folder, trial_id, mark.saved) is not None:
            return mark
    return None


def open_trial_faults(snapshot: Snapshot, *, thorough: bool) -> Iterator[Fault]:
    """Find the open trials that are over, whose segment only needs to be sealed or has nothing of use, and the states
    of trials that have no segment; if `thorough`, also segments that are damaged, or whose checkpoint is."""
    folder, ended = snapshot.folder, snapshot.endings
    segments = {trial: journal.read(journal.path_of(folder, trial)) for trial in sorted(open_trials(folder))}
    for trial, content in segments.items():
        if fault := _over_fault(folder, trial, content, ended.get(trial)):
            yield fault
        elif thorough and content is not None:
            yield from _unfinished_faults(folder, trial, content, trial in snapshot.plans.specifications)
    for trial in sorted(journal.trials_with_checkpoints(folder) - segments.keys()):
        what = "is of a trial that is not being trained"
        states = _state_paths(folder, trial)
        findings = (Finding("checkpoint", "repaired", what, path, "deleted", changes=(path,)) for path in states)
        yield Fault(tuple(findings), partial(_drop_states, folder, trial, trial in ended))


def _over_fault(folder: Path, trial_id: str, content: Segment | None, known: Ending | None) -> Fault | None:
    path = journal.path_of(folder, trial_id)
    changes = (path, *_state_paths(folder, trial_id))
    put_away = f"kept in {DAMAGED}; the trial starts over"

    def put(finding: Finding, message: str) -> Fault:
        return Fault((finding,), partial(_put_segment_away, folder, trial_id, message))

    if content is None and not (path.exists() and path.stat().st_size):
        return put(Finding("leftover", "repaired", "is empty", path, "deleted", changes=changes), "")
    if content is None:
        finding = Finding("segment", "repaired", "has lost its first line", path, put_away, 1, changes)
        return put(finding, f"the journal of trial {trial_id} has lost its first line; the trial starts over")
    if content.beginning.trial != trial_id:
        other = content.beginning.trial
        finding = Finding("segment", "repaired", f"is of another trial, {other}", path, put_away, changes=changes)
        return put(finding, f"{path} is of another trial, {other}; it is kept in {DAMAGED}")
    if known and content.beginning.attempt <= known.attempt:
        cure = partial(_delete_segment, folder, trial_id)
        return Fault.of("leftover", "is of a trial that is already sealed", path, "deleted", cure, changes)
    if double := sealed.double(content):
        what = f"has step, metric, address {double} twice"
        finding = Finding("segment", "repaired", what, path, put_away, changes=changes)
        return put(finding, f"the journal of trial {trial_id} {what}; the trial starts over")
    if content.outcome is None or content.damaged:
        return None  # it continues when it is started, from where it is whole
    what = f"has ended ({content.outcome.kind}) but is not sealed"
    made = (files.path_of(folder, trial_id), folder / WITNESS)
    return Fault.of("outcome", what, path, "sealed", partial(_seal_trial, folder, trial_id), (*changes, *made))


def _unfinished_faults(folder: Path, trial_id: str, content: Segment, specified: bool) -> Iterator[Fault]:
    path = journal.path_of(folder, trial_id)
    mark = last_good_checkpoint(folder, trial_id, content)
    then = f"the trial continues from step {mark.saved.step}" if mark else "the trial starts over"
    numbers, torn = content.damaged, content.torn
    changes = (path, *_state_paths(folder, trial_id))
    findings = [Finding("damaged line", "repaired", "is damaged", path, then, number, changes) for number in numbers]
    if torn:
        what, remedy = f"ends in the middle of a line ({torn} bytes)", f"cut off; {then}"
        findings.append(Finding("torn", "repaired", what, path, remedy, changes=changes))
    if content.marks and not numbers and mark != content.marks[-1]:
        state = journal.checkpoint_path(folder, trial_id, content.marks[-1].saved.step)
        what = "is gone or has changed since it was written"
        findings.append(Finding("checkpoint", "repaired", what, state, then, changes=changes))
    if findings:
        yield Fault(tuple(findings), partial(_cut_segment_back, folder, trial_id, content, mark))
    if not specified:
        what = "is of a trial that belongs to no plan"
        yield Fault((Finding("specification", "harmless", what, path, "left as it is"),))


def _seal_trial(folder: Path, trial_id: str) -> None:
    finish_trial(folder, trial_id)


def _put_segment_away(folder: Path, trial_id: str, message: str) -> str:
    path = journal.path_of(folder, trial_id)
    if not path.stat().st_size:
        message = ""
        remove(path)
    else:
        set_aside(folder, path)
    journal.drop_checkpoints(folder, trial_id)
    return message


def _delete_segment(folder: Path, trial_id: str) -> None:
    remove(journal.path_of(folder, trial_id))
    journal.drop_checkpoints(folder, trial_id)


def _cut_segment_back(folder: Path, trial_id: str, content: Segment, mark: CheckpointMark | None) -> None:
    if content.marks and mark != content.marks[-1]:
        state = journal.checkpoint_path(folder, trial_id, content.marks[-1].saved.step)
        if journal.read_checkpoint(folder, trial_id, content.marks[-1].saved) is None and state.exists():
            set_aside(folder, state)
    if mark is None:
        _put_segment_away(folder, trial_id, "")
    else:
        copy_aside(folder, journal.path_of(folder, trial_id))
        continue_trial(folder, trial_id, lambda told: None)  # already reported


def _drop_states(folder: Path, trial_id: str, ended: bool) -> str:
    journal.drop_checkpoints(folder, trial_id)
    return "" if ended else f"trial {trial_id} has a checkpoint but no journal any more; it starts over"


def _start_over(folder: Path, trial_id: str) -> None:
    durable.truncate(journal.path_of(folder, trial_id), 0)
    journal.drop_checkpoints(folder, trial_id)


def _state_paths(folder: Path, trial_id: str) -> list[Path]:
    return [journal.checkpoint_path(folder, trial_id, step) for step in journal.checkpoint_steps(folder, trial_id)]
