"""The content of a results folder's text and sealed files, read without a lock and without changing anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.store import checksummed_lines, ledger, questions, requests, step_times, verdicts
from ablate.store.checksummed_lines import Reading
from ablate.store.ending import Ending
from ablate.store.ledger import KeptPlans
from ablate.store.open_trial import Segment
from ablate.store.pending_rows import Stored
from ablate.store.projection import DATABASE
from ablate.store.repair import judgements, open_trials, plans, sealed_trials, text_lines
from ablate.store.repair.faults import Fault
from ablate.store.repair.plans import Back
from ablate.store.repair.report import Severity
from ablate.store.requests import Request
from ablate.store.sealed import Examined


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was read: the ledgers' lines by file, and the content of these, the segments and the sealed files.

    `back` are lost lines of `plans.jsonl` and `back_trials` lost sealed files that the DuckDB file still has; `mended`
    are the kept plans with those lines. `stored` is the content of that file. `endings` are those of the index once it
    is repaired.
    """

    folder: Path
    stored: Stored
    ledgers: Mapping[Path, Reading]
    kept: KeptPlans
    back: Back
    mended: KeptPlans
    known: Mapping[str, Ending]
    segments: Mapping[str, Segment | None]
    examined: Mapping[str, Examined]
    back_trials: Collection[str]
    endings: Mapping[str, Ending]


def look(folder: Path, stored: Stored) -> Seen:
    """Read everything."""
    # Segments first: one that is sealed meanwhile is then among the endings.
    segments = dict(open_trials.read(folder))
    ledgers = read_ledgers(folder)
    known = ledger.endings(ledgers.get(folder / ledger.OUTCOMES, checksummed_lines.NOTHING))
    examined = sealed_trials.examine_all(folder, known)
    back_trials = sealed_trials.come_back(folder, known, examined)
    plan_lines = ledgers.get(folder / ledger.PLANS, checksummed_lines.NOTHING)
    kept = ledger.kept_plans(plan_lines)
    back = plans.lacking(folder, plan_lines, kept, stored)
    return Seen(
        folder=folder,
        stored=stored,
        ledgers=ledgers,
        kept=kept,
        back=back,
        mended=plans.with_lines(kept, back),
        known=known,
        segments=segments,
        examined=examined,
        back_trials=back_trials,
        endings=sealed_trials.mended(known, examined, back_trials),
    )


def read_ledgers(folder: Path) -> dict[Path, Reading]:
    """Read every file of lines in the folder itself."""
    return {path: checksummed_lines.read(path) for path in sorted(folder.glob("*.jsonl"))}


def faults_of_lines(seen: Seen) -> Iterator[Fault]:
    """Find what is wrong with the lines of every file."""
    for path, reading in seen.ledgers.items():
        numbers, _ = text_lines.broken(reading)
        severity, then = _what_becomes_of(seen, path, numbers) if numbers else ("repaired", "")
        yield from text_lines.damaged(seen.folder, path, reading, severity, then)
        yield from text_lines.torn(path, reading)
        yield from text_lines.joined(seen.folder, path, reading)
        yield from text_lines.unknown(path, reading)


def _what_becomes_of(seen: Seen, path: Path, numbers: Sequence[int]) -> tuple[Severity, str]:
    """Return whether the content of damaged lines of a file is recovered, and from where."""
    match path.name:
        case ledger.OUTCOMES:
            return "repaired", "; its trial is listed again from its sealed file"
        case ledger.PLANS:
            lengths = _lengths(path, numbers)
            copies = [request for request in _requests_lacking(seen)[1] if requests.length(request) in lengths]
            if len(seen.back.records) + len(copies) >= len(numbers):
                sources = [*([DATABASE] if seen.back.records else []), *([requests.FILE] if copies else [])]
                return "repaired", f"; it is recovered from {' and '.join(sources)}"
            return "lost", "; it comes back when its space is run"
        case requests.FILE:
            if len(_requests_lacking(seen)[0]) >= len(numbers):
                return "repaired", f"; it is recovered from {ledger.PLANS}"
            return "lost", "; how that run was requested is no longer known"
        case questions.FILE if len(questions.lacking(seen.folder)[0]) < len(numbers):
            return "lost", "; how often that question was judged may no longer be known"
        case verdicts.FILE:
            return _what_becomes_of_verdicts(seen, len(numbers))
        case step_times.FILE:
            return "lost", "; what was timed there is timed again by a run that needs it"
    return "repaired", ""


def _what_becomes_of_verdicts(seen: Seen, damaged: int) -> tuple[Severity, str]:
    """Return the same for `damaged` lines of verdicts: those of questions have copies, and plans are judged often."""
    if judgements.verdicts_lost(seen.folder, seen.ledgers, seen.mended, seen.stored):
        return "lost", ""
    if len(questions.lacking(seen.folder)[1]) >= damaged:
        return "repaired", f"; it is recovered from {questions.FILE}"
    if seen.stored.plans:
        return "repaired", "; the latest verdicts of every plan are in other lines"
    return "lost", "; whether it had other verdicts of a plan is not known: `ablate run` judges it again"


def _requests_lacking(seen: Seen) -> tuple[list[Request], list[Request]]:
    runs, kept = (
        seen.ledgers.get(seen.folder / name, checksummed_lines.NOTHING) for name in (requests.FILE, ledger.PLANS)
    )
    return requests.lacking(runs, kept)


def _lengths(path: Path, numbers: Sequence[int]) -> set[int]:
    """Return the lengths in bytes of these lines, which a flipped bit does not change."""
    with path.open("rb") as file:
        return {len(line) for number, line in enumerate(file, 1) if number in numbers}
