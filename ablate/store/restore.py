"""The plans and endings of a locked folder, and what a damaged line or file of them has lost, got back if it can be.

What is looked at, at each start of a run: every line of the two ledger files, the length of every sealed file, and
every byte of those that the DuckDB file does not hold yet, since this run puts them there. All the others are read
through where a line of the index is damaged, or by `ablate doctor`. What is damaged is got back from the DuckDB file if
it proves itself there; if not, it is put aside in `damaged/` and its trial is not known any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ablate.store import ledger, lines, rescue, sealed, segment
from ablate.store.changes import Stored
from ablate.store.durable import reading as reading_file
from ablate.store.ending import Ending
from ablate.store.ledger import Asked
from ablate.store.lines import Appender, Reading
from ablate.store.projection import DATABASE, Say


def asked(folder: Path, stored: Stored, say: Say) -> Asked:
    """The plans and specifications, with those that a damaged line has lost got back if they can be."""
    path = folder / ledger.PLANS
    reading = whole_lines(path, say)
    known = ledger.asked(reading)
    found = lacking(folder, reading, known, stored)
    if not found:
        return known
    plans = Appender(path)
    try:
        plans.write(found)
    finally:
        plans.close()
    say(f"{path} lacked {_count(found)}; got back from {DATABASE}")
    return with_lines(known, found)


def lacking(folder: Path, reading: Reading, known: Asked, stored: Stored) -> list[list[Any]]:
    """The lines of plans and specifications that the database still knows and `plans.jsonl` has lost."""
    spaces = (stored.plans.keys() - known.plans.keys()) | _older(folder / ledger.PLANS, reading, stored)
    return rescue.records(folder, stored.trials.keys() - known.trials.keys(), spaces)


def with_lines(known: Asked, records: Sequence[Any]) -> Asked:
    """What was asked, with these lines added."""
    found = known.copy()
    for kind, *said in records:
        if kind == "plan":
            found.add(said[1]["space"], said[0], said[1])
        else:
            found.trials[said[0]["trial"]] = said[0]
    return found


def broken(path: Path, reading: Reading) -> tuple[tuple[int, ...], int]:
    """The numbers of complete lines that are damaged, and the bytes there are of a last one that is not complete."""
    if not reading.torn:
        return reading.damaged, 0
    with path.open("rb") as file:
        file.seek(reading.ends[-1] if reading.ends else 0)
        complete, newline, rest = file.read(reading.torn).rpartition(b"\n")
    first = len(reading.bodies) + len(reading.damaged) + 1
    return (*reading.damaged, *range(first, first + (complete + newline).count(b"\n"))), len(rest)


def cut_tail(path: Path, say: Say) -> None:
    """Cut off a last line that is not complete, so that the next one is not written behind it."""
    with reading_file(path), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        if file.read(1) in (b"", b"\n"):
            return
    content = path.read_bytes()
    if torn := len(content) - content.rfind(b"\n") - 1:
        say(f"{path} ends in the middle of a line; {torn} bytes are cut off")
        lines.cut(path, len(content) - torn)


def named(trial_ids: Sequence[str]) -> str:
    """One trial by its name, more by their number and the first."""
    return f"trial {trial_ids[0]}" if len(trial_ids) == 1 else f"{len(trial_ids)} trials ({trial_ids[0]}, …)"


def _older(path: Path, reading: Reading, stored: Stored) -> set[str]:
    """The spaces whose latest plan was in a damaged line: the database has another, and damage follows the last one."""
    broken_lines, _ = broken(path, reading)
    if not broken_lines:
        return set()
    total = len(reading.records) + len(reading.damaged)
    numbers = (number for number in range(1, total + 1) if number not in reading.damaged)
    kept = [(number, record) for number, record in zip(numbers, reading.records, strict=True) if record[0] == "plan"]
    last = {record[2]["space"]: number for number, record in kept}
    digests = {record[1] for _, record in kept}
    return {
        space
        for space, digest in stored.plans.items()
        if space in last and digest not in digests and last[space] < broken_lines[-1]
    }


def _count(records: list[list[Any]]) -> str:
    plans = sum(record[0] == "plan" for record in records)
    parts = [(plans, "plan"), (len(records) - plans, "specification")]
    return " and ".join(f"{number} {name}{'s' * (number > 1)}" for number, name in parts if number)


def endings(folder: Path, stored: Stored, outcomes: Appender, say: Say, thorough: bool) -> dict[str, Ending]:
    """The endings of the index, with the sealed files as the judge of what is there."""
    reading = whole_lines(outcomes.path, say)
    known = ledger.endings(reading)
    sizes = sealed.sizes(folder)
    thorough = thorough or bool(reading.damaged or reading.torn)
    doubtful = set(_doubtful(folder, known, sizes, stored, thorough))
    news: list[list[Any]] = []
    unlisted: list[str] = []
    for trial_id in sorted(doubtful | (sizes.keys() - known.keys())):
        listed = known.pop(trial_id, None)
        ending, found = _judge(folder, trial_id, listed, say)
        if ending:
            known[trial_id] = ending
        if not ending and listed:
            news.append(ledger.forgotten_record(trial_id))
        if ending and ending != listed:
            news.append(ledger.ending_record(ending))
            if found and (listed is None or listed.attempt < ending.attempt):
                unlisted.append(trial_id)
    outcomes.write(news)
    lost = [trial_id for trial_id in unlisted if not segment.path_of(folder, trial_id).exists()]
    if lost:
        say(f"{outcomes.path} did not list {named(lost)}; listed anew from what was sealed")
    return known


def _doubtful(
    folder: Path, known: dict[str, Ending], sizes: dict[str, int], stored: Stored, thorough: bool
) -> Iterator[str]:
    """The listed trials whose sealed file is gone, or is not, or may not be, the one that was sealed."""
    for trial_id, ending in known.items():
        if trial_id not in sizes or (ending.file and ending.file[0] != sizes[trial_id]):
            yield trial_id
            continue
        known_by_database = stored.trials.get(trial_id, ("", 0, None))[1:] == (ending.attempt, ending.digest)
        if (thorough or not known_by_database) and not sealed.is_whole(folder, ending):
            yield trial_id


def _judge(folder: Path, trial_id: str, listed: Ending | None, say: Say) -> tuple[Ending | None, bool]:
    """How a trial ended by its sealed file, and True; where that is damaged, the ending that is got back, or None."""
    path = sealed.path_of(folder, trial_id)
    examined = sealed.examine(path, listed)
    if examined.ending is not None:
        return examined.ending, True
    aside = f"; it is kept as {sealed.quarantine(folder, trial_id)}" if path.exists() else ""
    back = rescue.trial(folder, listed) if listed else None
    then = f"its rows are sealed anew from {DATABASE}" if back else "the trial is not known any more"
    say(f"the sealed file {path} {examined.fault}{aside}; {then}")
    return back, False


def whole_lines(path: Path, say: Say) -> Reading:
    """The whole lines of one of the folder's files, its torn tail cut off; what is damaged is said."""
    reading = lines.read(path)
    numbers, torn = broken(path, reading)
    if torn:
        cut_tail(path, say)
    if numbers:
        shown = ", ".join(map(str, numbers))
        say(f"{path} is damaged in line {shown}, which is passed over until `ablate doctor` takes it out")
    return reading
