"""What killed processes leave behind: unfinished files, and claims of dead workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ablate.store import checkpoints, claim, open_trial, sealed
from ablate.store.claim import Holder
from ablate.store.durable import remove, unfinished_in
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding

PLACES = (open_trial.FOLDER, sealed.FOLDER, checkpoints.FOLDER)


def faults(folder: Path, workers: Mapping[str, Holder]) -> Iterator[Fault]:
    """Find what must be deleted before anything else is checked; `workers` are those that claim a trial."""
    for place in (folder, *(folder / name for name in PLACES)):
        for path in unfinished_in(place):
            what = "was being written by a run that was killed"
            finding = Finding("leftover", "repaired", what, path, "deleted", changes=(path,))
            yield Fault((finding,), partial(_gone, path))
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


def _gone(path: Path) -> str:
    remove(path)
    return ""


def _claim(folder: Path, trial_id: str, what: str, remedy: str, where: Path | None = None) -> Fault:
    path, trace = folder / claim.FOLDER / trial_id, claim.trace_of(folder, trial_id)

    def forget() -> str:
        claim.forget(folder, trial_id)
        return ""

    return Fault((Finding("worker", "harmless", what, where or path, remedy, changes=(path, trace)),), forget)
