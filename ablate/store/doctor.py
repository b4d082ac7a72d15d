"""`ablate doctor`: everything in a results folder looked at, said in plain lines, and put right where it can be.

`examine` only reads, needs no lock and may be used while a run is writing. `repair` needs the folder to itself. Nothing
that was damaged is deleted: it is kept in `damaged/`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from ablate.data import cache
from ablate.errors import InputError, RefusedError
from ablate.store import (
    changes,
    checkpoints,
    checkup,
    checkup_database,
    claim,
    ledger,
    lines,
    lock,
    projection,
    questions,
    recovery,
    requests,
    restore,
    sealed,
    segment,
    verdicts,
)
from ablate.store.changes import Journal
from ablate.store.checkup import Looked
from ablate.store.claim import Holder
from ablate.store.durable import DAMAGED, check_folder, copy_aside, set_aside, unfinished_in, write_whole, writing
from ablate.store.findings import UNDER_WAY, Finding, Findings
from ablate.store.lock import Lock
from ablate.store.projection import DATABASE, Say
from ablate.store.requests import Request

PLACES = (segment.FOLDER, sealed.FOLDER, checkpoints.FOLDER)
SPACE_LOW = 256 * 2**20
"""Bytes free below which it is said."""

Look = Callable[[Path], Iterable[Finding]]
Rebuild = Callable[[Path], object]


def examine(folder: Path, *, mirror: Look | None = None) -> Findings:
    """Look at everything in `folder`; `mirror` looks at the copy in MLflow. InputError for a folder without results.

    While a run is writing, what may only be unfinished is passed over.
    """
    check_folder(folder)
    if not any((folder / name).exists() for name in (ledger.PLANS, ledger.OUTCOMES, DATABASE, sealed.FOLDER)):
        raise InputError(f"no results in {folder}\n  = run a space first, or name another folder with --results")
    workers = claim.holders(folder)
    holder = lock.holder(folder) or _worker(workers)
    stored = projection.read_stored(folder / DATABASE)
    looked = checkup.look(folder, stored)
    found = [*_surroundings(folder, workers, holder), *checkup.findings(looked)]
    found += checkup_database.findings(folder, *_journal(looked), stored)
    found += _mirrored(folder, mirror)
    shown = tuple(finding for finding in found if not (holder and finding.kind in UNDER_WAY))
    return Findings(folder, shown, holder, _looked_at(looked))


def repair(
    folder: Path, findings: Findings, *, say: Say, mirror: Look | None = None, rebuild_mirror: Rebuild | None = None
) -> Findings:
    """Put right what `examine` found, and look again; a folder in use is left as it is.

    `say` hears what is not among the findings; `rebuild_mirror` is called when all else is right, if `mirror` finds
    something then. RefusedError if the folder cannot be written, or a run has begun meanwhile.
    """
    if findings.holder:
        return findings
    heard: list[str] = []
    with Lock(folder):
        for name in PLACES:
            with writing(folder / name):
                (folder / name).mkdir(exist_ok=True)
        recovery.recover(folder, heard.append, thorough=True)
        for trial_id in sorted(ledger.open_trials(folder)):
            _mend_segment(folder, trial_id, heard.append)
        again = _requests_again(folder)
        for path in sorted(folder.glob("*.jsonl")):
            _take_out(folder, path)
        again()
        questions.mend(folder)
        for path, _ in cache.faults(folder / checkup.CORPUS):
            for one in (path, path.with_suffix(".json")):
                if one.exists():
                    set_aside(folder, one)
        _mend_database(folder, findings, heard.append)
        if rebuild_mirror and any(finding.severity != "harmless" for finding in _mirrored(folder, mirror)):
            try:
                rebuild_mirror(folder)
            except RefusedError as refused:  # it is a copy: what goes wrong there costs no result
                say(str(refused))
    if not findings.to_repair:  # then it was done by somebody between the two
        for said in heard:
            say(said)
    left = examine(folder, mirror=mirror).to_repair if findings.to_repair or heard else ()
    return replace(findings, repaired=True, left=left)


def _mirrored(folder: Path, mirror: Look | None) -> Iterator[Finding]:
    """What is wrong with the copy in MLflow, which is compared with the DuckDB file."""
    try:
        yield from mirror(folder) if mirror else ()
    except RefusedError as refused:
        what = f"was not looked at ({str(refused).splitlines()[0]})"
        yield Finding("mirror", "harmless", what, folder / "mlflow.db", "looked at when that is repaired")


def _mend_segment(folder: Path, trial_id: str, say: Say) -> None:
    """Cut a segment that is damaged, or whose checkpoint is, back to where it goes on from."""
    path = segment.path_of(folder, trial_id)
    content = segment.read(path)
    if content is None:
        return
    damaged, torn = restore.broken(path, lines.read(path))
    state_lost = bool(content.marks) and recovery.last_good(folder, trial_id, content) != content.marks[-1]
    if damaged:
        copy_aside(folder, path)
    if damaged or torn or state_lost:
        recovery.go_on(folder, trial_id, say)


def _take_out(folder: Path, path: Path) -> None:
    """Write a ledger anew without its damaged lines."""
    reading = lines.read(path)
    damaged, _ = restore.broken(path, reading)
    if damaged:
        copy_aside(folder, path)
        write_whole(path, b"".join(map(lines.framed, reading.bodies)))


def _requests_again(folder: Path) -> Callable[[], None]:
    """What writes again the runs that damaged or missing lines of either file have said, once those are taken out."""
    path, plans = folder / requests.FILE, folder / ledger.PLANS
    runs, copies = lines.read(path), lines.read(plans)
    gone, uncopied = requests.lacking(runs, copies)
    known = requests.kept(runs, copies)
    damaged, plans_damaged = restore.broken(path, runs)[0], restore.broken(plans, copies)[0]
    again: list[Request] = []
    if len(damaged) > len(gone):
        found = requests.found_again(ledger.asked(copies), requests.last_of(known))
        again = [request for _, request in sorted(found.items()) if request is not None]

    def write() -> None:
        if gone:
            others = (body for body in lines.read(path).bodies if not body.startswith(b'["run"'))
            runs_again = (lines.encode(["run", asdict(request)]) for request in known)
            write_whole(path, b"".join([*map(lines.framed, others), *runs_again]))
        if again:
            requests.append(path, again)
        if uncopied and plans_damaged:
            requests.append(plans, uncopied)

    return write


def _mend_database(folder: Path, findings: Findings, say: Say) -> None:
    """Bring the DuckDB file up to the journal, from nothing if it is wrong; not while another program has it."""
    found = [finding for finding in findings.found if finding.kind == "database"]
    if any(finding.severity == "harmless" for finding in found):
        return
    if any(finding.remedy == checkup_database.ANEW for finding in found) and (folder / DATABASE).exists():
        set_aside(folder, folder / DATABASE)
    projection.refresh(folder, changes.read_journal(folder)[0], say)


def _journal(looked: Looked) -> tuple[Journal, set[str]]:
    """What the folder comes to when it is right, and the trials whose rows are only in the DuckDB file now."""
    whole = {id: found.ending for id, found in looked.examined.items() if found.ending}
    damaged = {id: looked.known[id] for id in looked.known.keys() - whole.keys()}
    back = {
        id: ending for id, ending in damaged.items() if looked.stored.trials.get(id, ("", 0, ""))[2] == ending.digest
    }
    live = {
        found.beginning.trial_id: found.beginning.attempt
        for found in looked.segments.values()
        if found and found.beginning.attempt > getattr(looked.known.get(found.beginning.trial_id), "attempt", 0)
    }
    asked = restore.with_lines(looked.asked, looked.back)
    return Journal(asked, whole | back, live, verdicts.read(looked.folder), questions.by_space(looked.folder)), set(
        back
    )


def _surroundings(folder: Path, workers: Mapping[str, Holder], holder: str | None) -> Iterator[Finding]:
    """What lies about, who was here, and whether there is room."""
    for place in (folder, *(folder / name for name in PLACES)):
        for path in unfinished_in(place):
            yield Finding("leftover", "repaired", "was being written by a run that was killed", path, "deleted")
    for path in claim.silent(folder):
        yield Finding("worker", "harmless", "does not say whose it is", path, "deleted, unless a worker holds it")
    for worker in workers.values():
        if not worker.alive:
            what = f"was left by a worker that died (process {worker.pid} on {worker.host}, at step {worker.step})"
            yield Finding("worker", "harmless", what, folder / claim.FOLDER / worker.trial_id, "deleted")
    if not holder and (who := lock.left(folder)):
        what = f"was not given back: a run was killed ({who})"
        yield Finding("killed", "harmless", what, folder / "lock", "holds nobody up")
    free, database = shutil.disk_usage(folder).free, folder / DATABASE
    needed = max(SPACE_LOW, database.stat().st_size if database.exists() else 0)
    if free < needed:
        what = f"has {free / 2**20:.0f} MiB free; bringing {DATABASE} up to date takes up to {needed / 2**20:.0f}"
        yield Finding("space", "harmless", what, folder, "free some")
    if kept := sorted((folder / DAMAGED).glob("*")):
        what = f"keeps {len(kept)} {'files that were' if len(kept) > 1 else 'file that was'} damaged ({kept[0].name}…)"
        yield Finding("kept", "harmless", what, folder / DAMAGED, "delete them when you no longer want them")


def _worker(workers: Mapping[str, Holder]) -> str | None:
    """Who trains here still, with or without a run."""
    alive = [worker for worker in workers.values() if worker.alive]
    return f"process {alive[0].pid} on {alive[0].host}, which trains trial {alive[0].trial_id}" if alive else None


def _looked_at(looked: Looked) -> dict[str, int]:
    return {
        "plan": len(looked.asked.plans),
        "specification": len(looked.asked.trials),
        "ended trial": len(looked.examined),
        "row": sum(found.ending.rows for found in looked.examined.values() if found.ending),
        "open trial": len(looked.segments),
        "checkpoint": sum(1 for _ in (looked.folder / checkpoints.FOLDER).glob("*.pt")),
    }
