"""Plans and specifications that `plans.jsonl` has lost, got back from the DuckDB file where that still has them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ablate.store import ledger
from ablate.store.changes import Stored
from ablate.store.ledger import Asked
from ablate.store.lines import Appender, Reading
from ablate.store.projection import DATABASE
from ablate.store.repair import from_database
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding
from ablate.store.repair.sealed_trials import named
from ablate.store.repair.text_lines import broken


def lacking(folder: Path, reading: Reading, known: Asked, stored: Stored) -> list[list[Any]]:
    """The lines of plans and specifications that the database still knows and `plans.jsonl` has lost."""
    spaces = (stored.plans.keys() - known.plans.keys()) | _older(folder / ledger.PLANS, reading, stored)
    return from_database.records(folder, stored.trials.keys() - known.trials.keys(), spaces)


def with_lines(known: Asked, records: Sequence[Any]) -> Asked:
    """What was asked, with these lines added."""
    found = known.copy()
    for kind, *said in records:
        if kind == "plan":
            found.add(said[1]["space"], said[0], said[1])
        else:
            found.trials[said[0]["trial"]] = said[0]
    return found


def faults(folder: Path, known: Asked, back: Sequence[Any], ended: Collection[str] = ()) -> Iterator[Fault]:
    """What is lost and comes `back`, and which specifications of trials that have `ended` are lost for good."""
    path = folder / ledger.PLANS
    spaces = dict.fromkeys(record[2]["space"] for record in back if record[0] == "plan")
    trials = sorted(record[1]["trial"] for record in back if record[0] == "trial")
    if back:
        lost = [f"the plan of {', '.join(spaces)}"] if spaces else []
        lost += [f"the specification of {named(trials)}"] if trials else []
        what, remedy = f"lacks {' and '.join(lost)}", f"got back from {DATABASE}"
        finding = Finding("specification", "repaired", what, path, remedy, changes=(path,))
        yield Fault((finding,), partial(_write_again, path, back))
    if gone := sorted(set(ended) - known.trials.keys() - set(trials)):
        what = f"lacks the specification of {named(gone)}"
        remedy = "comes again when a space that has it is run"
        yield Fault((Finding("specification", "lost", what, path, remedy),))


def _write_again(path: Path, records: Sequence[Any]) -> str:
    plans = Appender(path)
    try:
        plans.write(records)
    finally:
        plans.close()
    count = sum(record[0] == "plan" for record in records)
    parts = [(count, "plan"), (len(records) - count, "specification")]
    told = " and ".join(f"{number} {name}{'s' * (number > 1)}" for number, name in parts if number)
    return f"{path} lacked {told}; got back from {DATABASE}"


def _older(path: Path, reading: Reading, stored: Stored) -> set[str]:
    """The spaces whose latest plan was in a damaged line: the database has another, and damage follows the last one."""
    broken_lines, _ = broken(reading)
    if not broken_lines:
        return set()
    numbered = zip(reading.numbers, reading.records, strict=True)
    kept = [(number, record) for number, record in numbered if record[0] == "plan"]
    last = {record[2]["space"]: number for number, record in kept}
    digests = {record[1] for _, record in kept}
    return {
        space
        for space, digest in stored.plans.items()
        if space in last and digest not in digests and last[space] < broken_lines[-1]
    }
