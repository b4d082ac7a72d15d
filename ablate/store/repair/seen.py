"""What a results folder's text and sealed files say, read through without a lock and without changing anything."""

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
    """All that was read: the ledgers' lines by file, and what they, the segments and the sealed files say.

    `back` are lines of `plans.jsonl` that are lost there and `back_trials` sealed files that are, which the DuckDB file
    can give back; `mended` is what was asked once it has. `stored` is what that file knows. `endings` are those of the
    index once it is right.
    """

    folder: Path
    stored: Stored
    ledgers: Mapping[Path, Reading]
    asked: KeptPlans
    back: Back
    mended: KeptPlans
    known: Mapping[str, Ending]
    segments: Mapping[str, Segment | None]
    examined: Mapping[str, Examined]
    back_trials: Collection[str]
    endings: Mapping[str, Ending]


def look(folder: Path, stored: Stored) -> Seen:
    """Read everything."""
    # Segments first: one that is sealed meanwhile is then found among the endings.
    segments = dict(open_trials.read(folder))
    ledgers = read_ledgers(folder)
    known = ledger.endings(ledgers.get(folder / ledger.OUTCOMES, checksummed_lines.NOTHING))
    examined = sealed_trials.examine_all(folder, known)
    back_trials = sealed_trials.come_back(folder, known, examined)
    kept = ledgers.get(folder / ledger.PLANS, checksummed_lines.NOTHING)
    asked = ledger.asked(kept)
    back = plans.lacking(folder, kept, asked, stored)
    return Seen(
        folder=folder,
        stored=stored,
        ledgers=ledgers,
        asked=asked,
        back=back,
        mended=plans.with_lines(asked, back),
        known=known,
        segments=segments,
        examined=examined,
        back_trials=back_trials,
        endings=sealed_trials.mended(known, examined, back_trials),
    )


def read_ledgers(folder: Path) -> dict[Path, Reading]:
    """Every file of lines that lies in the folder itself."""
    return {path: checksummed_lines.read(path) for path in sorted(folder.glob("*.jsonl"))}


def faults_of_lines(seen: Seen) -> Iterator[Fault]:
    """What is wrong with the lines of every file."""
    for path, reading in seen.ledgers.items():
        numbers, _ = text_lines.broken(reading)
        severity, then = _what_becomes_of(seen, path, numbers) if numbers else ("repaired", "")
        yield from text_lines.damaged(seen.folder, path, reading, severity, then)
        yield from text_lines.torn(path, reading)
        yield from text_lines.joined(seen.folder, path, reading)
        yield from text_lines.unknown(path, reading)


def _what_becomes_of(seen: Seen, path: Path, numbers: Sequence[int]) -> tuple[Severity, str]:
    """Whether what damaged lines of a file have said is got back, and from where."""
    match path.name:
        case ledger.OUTCOMES:
            return "repaired", "; its trial is listed anew from what was sealed"
        case ledger.PLANS:
            copies = [one for one in _requests_lacking(seen)[1] if requests.length(one) in _lengths(path, numbers)]
            if len(seen.back.records) + len(copies) >= len(numbers):
                sources = [*([DATABASE] if seen.back.records else []), *([requests.FILE] if copies else [])]
                return "repaired", f"; it is got back from {' and '.join(sources)}"
            return "lost", "; it comes again when its space is run"
        case requests.FILE:
            if len(_requests_lacking(seen)[0]) >= len(numbers):
                return "repaired", f"; it is got back from {ledger.PLANS}"
            return "lost", "; how that run was asked for is not known any more"
        case questions.FILE if len(questions.lacking(seen.folder)[0]) < len(numbers):
            return "lost", "; how often that question was judged may not be known any more"
        case verdicts.FILE:
            return _what_becomes_of_verdicts(seen, len(numbers))
        case step_times.FILE:
            return "lost", "; what was timed there is timed again by a run that needs it"
    return "repaired", ""


def _what_becomes_of_verdicts(seen: Seen, damaged: int) -> tuple[Severity, str]:
    """Of as many lines as are damaged: those of questions stand in another file, and a plan is judged many times."""
    if judgements.verdicts_lost(seen.folder, seen.ledgers, seen.mended, seen.stored):
        return "lost", ""
    if len(questions.lacking(seen.folder)[1]) >= damaged:
        return "repaired", f"; it is got back from {questions.FILE}"
    if seen.stored.plans:
        return "repaired", "; what every plan was last judged to be stands in others"
    return "lost", "; whether a plan was judged otherwise there is not known: `ablate run` judges it again"


def _requests_lacking(seen: Seen) -> tuple[list[Request], list[Request]]:
    runs, kept = (
        seen.ledgers.get(seen.folder / name, checksummed_lines.NOTHING) for name in (requests.FILE, ledger.PLANS)
    )
    return requests.lacking(runs, kept)


def _lengths(path: Path, numbers: Sequence[int]) -> set[int]:
    """The lengths in bytes of these lines: what a flipped bit does not change."""
    with path.open("rb") as file:
        return {len(line) for number, line in enumerate(file, 1) if number in numbers}
