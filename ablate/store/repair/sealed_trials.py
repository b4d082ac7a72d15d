"""Ended trials: the index `outcomes.jsonl` compared with the sealed files, which decide.

A run checks every line of the index, the length of every sealed file, and every byte of those that the DuckDB file does
not have yet, since that run loads them. All others are read through where a line of the index is damaged, and by
`ablate doctor`. A damaged file is sealed again from the DuckDB file if its rows there have the right digest; if not, it
is moved to `damaged/` and its trial is no longer known.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from ablate.store import ledger, sealed
from ablate.store.checksummed_lines import Appender
from ablate.store.durable import DAMAGED
from ablate.store.ending import Ending
from ablate.store.pending_rows import Stored
from ablate.store.projection import DATABASE
from ablate.store.repair import from_database
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding
from ablate.store.sealed import Examined

AGAIN = "the trial is trained again by the next run that needs it"


def examine_all(folder: Path, known: Mapping[str, Ending]) -> dict[str, Examined]:
    """Read every sealed file through and verify it; listed trials without a file are included."""
    trials = sorted(known.keys() | sealed.sizes(folder).keys())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        examined = pool.map(lambda id: sealed.examine(sealed.path_of(folder, id), known.get(id)), trials)
        return dict(zip(trials, examined, strict=True))


def examine_doubtful(
    folder: Path, known: Mapping[str, Ending], stored: Stored, *, thorough: bool
) -> dict[str, Examined]:
    """Do the same for those files alone that are not listed, or are not, or may not be, as they were sealed."""
    sizes = sealed.sizes(folder)
    doubtful = {*_doubtful(folder, known, sizes, stored, thorough), *(sizes.keys() - known.keys())}
    return {id: sealed.examine(sealed.path_of(folder, id), known.get(id)) for id in sorted(doubtful)}


def come_back(folder: Path, known: Mapping[str, Ending], examined: Mapping[str, Examined]) -> set[str]:
    """Return the listed trials without a whole file whose rows the database still has, bit for bit."""
    damaged = (known[id] for id, file in examined.items() if file.ending is None and id in known)
    return {ending.trial_id for ending in damaged if from_database.content(folder, ending) is not None}


def mended(known: Mapping[str, Ending], examined: Mapping[str, Examined], back: Collection[str]) -> dict[str, Ending]:
    """Return how trials have ended once the faults among those `examined` are repaired."""
    whole = {id: file.ending for id, file in examined.items() if file.ending}
    return {id: ending for id, ending in known.items() if id not in examined or id in back} | whole


def faults(
    folder: Path, known: Mapping[str, Ending], examined: Mapping[str, Examined], back: Collection[str]
) -> Iterator[Fault]:
    """Find sealed files that are damaged or gone, and those that the index does not list."""
    index = folder / ledger.OUTCOMES
    unlisted = []
    for trial_id, file in examined.items():
        path, listed = sealed.path_of(folder, trial_id), known.get(trial_id)
        if file.ending is None:
            kept = "" if file.fault == sealed.GONE else f"kept in {DAMAGED}; "
            cure = partial(_replace, folder, trial_id, listed, file.fault)
            changes = (path, index)
            if trial_id in back:
                remedy = f"{kept}its rows are sealed again from {DATABASE}"
                yield Fault((Finding("sealed", "repaired", file.fault, path, remedy, changes=changes),), cure)
            else:
                yield Fault((Finding("sealed", "lost", file.fault, path, kept + AGAIN, changes=changes),), cure)
        elif listed is None or listed.attempt < file.ending.attempt:
            unlisted.append(file.ending)
    if unlisted:
        what = f"is not listed in {ledger.OUTCOMES}"
        places = [sealed.path_of(folder, ending.trial_id) for ending in unlisted]
        findings = (Finding("unlisted", "repaired", what, path, "listed", changes=(index,)) for path in places)
        yield Fault(tuple(findings), partial(_list_anew, folder, unlisted))


def named(trial_ids: Sequence[str]) -> str:
    """Name a single trial by its id, several by their number and the first."""
    return f"trial {trial_ids[0]}" if len(trial_ids) == 1 else f"{len(trial_ids)} trials ({trial_ids[0]}, …)"


def _doubtful(
    folder: Path, known: Mapping[str, Ending], sizes: Mapping[str, int], stored: Stored, thorough: bool
) -> Iterator[str]:
    """Yield the listed trials whose sealed file is gone, or is not, or may not be, as it was sealed."""
    for trial_id, ending in known.items():
        if trial_id not in sizes or (ending.file and ending.file[0] != sizes[trial_id]):
            yield trial_id
            continue
        known_by_database = stored.trials.get(trial_id, ("", 0, None))[1:] == (ending.attempt, ending.digest)
        if (thorough or not known_by_database) and not sealed.is_whole(folder, ending):
            yield trial_id


def _replace(folder: Path, trial_id: str, listed: Ending | None, fault: str) -> str:
    """Put a damaged file aside, and replace it by one with its rows where these are available."""
    path = sealed.path_of(folder, trial_id)
    aside = f"; it is kept as {sealed.quarantine(folder, trial_id)}" if path.exists() else ""
    ending = from_database.trial(folder, listed) if listed else None
    if ending != listed:
        _write(folder, [ledger.ending_record(ending) if ending else ledger.forgotten_record(trial_id)])
    then = f"its rows are sealed again from {DATABASE}" if ending else "the trial is no longer known"
    return f"the sealed file {path} {fault}{aside}; {then}"


def _list_anew(folder: Path, endings: Sequence[Ending]) -> str:
    _write(folder, map(ledger.ending_record, endings))
    # A trial with a segment was being sealed when its driver was killed: then the index has lost nothing.
    open_trials = ledger.open_trials(folder)
    lost = [ending.trial_id for ending in endings if ending.trial_id not in open_trials]
    path = folder / ledger.OUTCOMES
    return f"{path} did not list {named(lost)}; listed again from the sealed files" if lost else ""


def _write(folder: Path, records: Any) -> None:
    outcomes = Appender(folder / ledger.OUTCOMES)
    try:
        outcomes.write(records)
    finally:
        outcomes.close()
