"""What a results folder's text and sealed files say, read through without a lock and without changing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.data import cache
from ablate.store import (
    checkpoints,
    ledger,
    lines,
    paces,
    questions,
    requests,
    rescue,
    restore,
    sealed,
    segment,
    verdicts,
)
from ablate.store.changes import Stored
from ablate.store.durable import DAMAGED
from ablate.store.ending import Ending
from ablate.store.findings import Finding, Severity
from ablate.store.ledger import Asked
from ablate.store.lines import Reading
from ablate.store.projection import DATABASE
from ablate.store.recovery import last_good
from ablate.store.requests import Request
from ablate.store.sealed import Examined
from ablate.store.segment import Segment

CORPUS = "corpus"
"""The folder, in a results folder, for token streams (see `ablate.data.cache`)."""

WORDS = {
    "plan", "trial", "ended", "forgotten", "judged", "run", "paces", "begin", "row", "timing", "checkpoint", "outcome",
    "question", "seen",
}  # fmt: skip
"""What a line of the journal may begin with."""

AGAIN = "the trial is trained again by the next run that asks for it"


@dataclass(frozen=True, slots=True)
class Looked:
    """All that was read: the ledger's lines by file, and what they, the segments and the sealed files say.

    `back` are lines of `plans.jsonl` that are lost there and can be got back; `stored` is what the DuckDB file knows.
    """

    folder: Path
    ledgers: Mapping[Path, Reading]
    asked: Asked
    back: Sequence[Any]
    known: Mapping[str, Ending]
    segments: Mapping[str, Segment | None]
    examined: Mapping[str, Examined]
    stored: Stored


def look(folder: Path, stored: Stored) -> Looked:
    """Read everything."""
    # Segments first: one that is sealed meanwhile is then found among the endings.
    open_trials = sorted(ledger.open_trials(folder))
    segments = {trial_id: segment.read(segment.path_of(folder, trial_id)) for trial_id in open_trials}
    ledgers = {path: lines.read(path) for path in sorted(folder.glob("*.jsonl"))}
    known = ledger.endings(ledgers.get(folder / ledger.OUTCOMES, lines.NOTHING))
    trials = sorted(known.keys() | sealed.sizes(folder).keys())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        examined = pool.map(lambda id: sealed.examine(sealed.path_of(folder, id), known.get(id)), trials)
        found = dict(zip(trials, examined, strict=True))
    plans = ledgers.get(folder / ledger.PLANS, lines.NOTHING)
    asked = ledger.asked(plans)
    back = restore.lacking(folder, plans, asked, stored)
    return Looked(folder, ledgers, asked, back, known, segments, found, stored)


def findings(looked: Looked) -> Iterator[Finding]:
    """What is wrong with the plans, the index, the sealed files, the segments and the checkpoints."""
    for path, reading in looked.ledgers.items():
        yield from _of_lines(looked, path, reading)
    for trial_id, examined in looked.examined.items():
        yield from _of_sealed(looked, trial_id, examined)
    yield from _of_requests(looked)
    yield from _of_verdicts(looked)
    yield from _of_questions(looked)
    yield from _of_corpora(looked)
    yield from _of_specifications(looked)
    yield from _of_clocks(looked)
    for trial_id, content in looked.segments.items():
        yield from _of_segment(looked, trial_id, content)
    yield from _of_checkpoints(looked)


def _of_lines(looked: Looked, path: Path, reading: Reading) -> Iterator[Finding]:
    numbers, torn = restore.broken(path, reading)
    kept = f"taken out, the file as it was kept in {DAMAGED}"
    severity, then = _what_becomes_of(looked, path, numbers) if numbers else ("repaired", "")
    for number in numbers:
        yield Finding("damaged line", severity, "is damaged", path, kept + then, number)
    if torn:
        yield Finding("torn", "repaired", f"ends in the middle of a line ({torn} bytes)", path, "cut off")
    yield from _unknown(path, reading)


def _what_becomes_of(looked: Looked, path: Path, numbers: Sequence[int]) -> tuple[Severity, str]:
    """Whether what damaged lines of a file have said is got back, and from where."""
    match path.name:
        case ledger.OUTCOMES:
            return "repaired", "; its trial is listed anew from what was sealed"
        case ledger.PLANS:
            copies = [one for one in _requests_lacking(looked)[1] if requests.length(one) in _lengths(path, numbers)]
            if len(looked.back) + len(copies) >= len(numbers):
                sources = [*([DATABASE] if looked.back else []), *([requests.FILE] if copies else [])]
                return "repaired", f"; it is got back from {' and '.join(sources)}"
            return "lost", "; it comes again when its space is run"
        case requests.FILE:
            if len(_requests_lacking(looked)[0]) >= len(numbers):
                return "repaired", f"; it is got back from {ledger.PLANS}"
            return "lost", "; how that run was asked for is not known any more"
        case questions.FILE if len(questions.lacking(looked.folder)[0]) < len(numbers):
            return "lost", "; how often that question was judged may not be known any more"
        case verdicts.FILE if _verdicts_lost(looked):
            return "lost", ""
        case paces.FILE:
            return "lost", "; what was timed there is timed again by a run that needs it"
    return "repaired", ""


def _requests_lacking(looked: Looked) -> tuple[list[Request], list[Request]]:
    runs, plans = (looked.ledgers.get(looked.folder / name, lines.NOTHING) for name in (requests.FILE, ledger.PLANS))
    return requests.lacking(runs, plans)


def _lengths(path: Path, numbers: Sequence[int]) -> set[int]:
    """The lengths in bytes of these lines: what a flipped bit does not change."""
    with path.open("rb") as file:
        return {len(line) for number, line in enumerate(file, 1) if number in numbers}


def _of_requests(looked: Looked) -> Iterator[Finding]:
    """Runs that only the copies in `plans.jsonl` know of, and spaces whose runs nobody knows of any more."""
    path = looked.folder / requests.FILE
    runs = looked.ledgers.get(path, lines.NOTHING)
    damaged = restore.broken(path, runs)[0] if runs.torn or runs.damaged else ()
    gone, _ = _requests_lacking(looked)
    if gone and not damaged:
        said = "is not there" if path not in looked.ledgers else f"lacks {len(gone)} of the runs that were asked for"
        yield Finding("request", "repaired", said, path, f"got back from {ledger.PLANS}")
    if len(damaged) > len(gone):
        known = requests.last_of(requests.kept(runs, looked.ledgers.get(looked.folder / ledger.PLANS, lines.NOTHING)))
        for space, request in sorted(requests.found_again(looked.asked, known).items()):
            remedy = "run it again with `ablate run`"
            if request is not None:
                remedy = f"taken to be of {request.path}, which has its text; with what else it was run is not known"
            yield Finding("request", "lost", f"does not say any more how {space} was run", path, remedy)


def _verdicts_lost(looked: Looked) -> list[str]:
    asked = {space: mark for space, mark in looked.stored.judged.items() if space in looked.asked.plans}
    lost = verdicts.lost(looked.folder, asked)
    path = looked.folder / verdicts.FILE
    reading = looked.ledgers.get(path, lines.NOTHING)
    if (reading.torn or reading.damaged) and not looked.stored.plans:  # no database says who was judged
        lost += sorted(looked.asked.plans.keys() - verdicts.read(looked.folder).keys())
    return lost


def _of_questions(looked: Looked) -> Iterator[Finding]:
    """Judgements of questions that only one of the two files knows of."""
    for name, other, gone in zip(
        (questions.FILE, verdicts.FILE),
        (verdicts.FILE, questions.FILE),
        questions.lacking(looked.folder),
        strict=True,
    ):
        path = looked.folder / name
        if gone:
            said = "is not there" if path not in looked.ledgers else f"lacks {len(gone)} of the judgements of questions"
            yield Finding("question", "repaired", said, path, f"got back from {other}")


def _of_verdicts(looked: Looked) -> Iterator[Finding]:
    for space in _verdicts_lost(looked):
        what = f"does not say any more what {space} was judged to be"
        remedy = "the next `ablate run` of it judges it again, and trains nothing for that"
        yield Finding("verdicts", "lost", what, looked.folder / verdicts.FILE, remedy)


def _of_corpora(looked: Looked) -> Iterator[Finding]:
    for path, fault in cache.faults(looked.folder / CORPUS):
        remedy = f"kept in {DAMAGED}; made anew from the texts by the next run that reads them"
        yield Finding("corpus", "repaired", fault, path, remedy)


def _unknown(path: Path, reading: Reading) -> Iterator[Finding]:
    count = sum(body[2:].partition(b'"')[0].decode() not in WORDS for body in reading.bodies)
    if count and not path.name.startswith("mlflow"):
        what = f"has {count} lines of a kind that this version does not know"
        yield Finding("unknown line", "harmless", what, path, "left as they are")


def _of_sealed(looked: Looked, trial_id: str, examined: Examined) -> Iterator[Finding]:
    path, listed = sealed.path_of(looked.folder, trial_id), looked.known.get(trial_id)
    if examined.ending is None:
        kept = "" if examined.fault == sealed.GONE else f"kept in {DAMAGED}; "
        if listed and rescue.content(looked.folder, listed) is not None:
            remedy = f"{kept}its rows are sealed anew from {DATABASE}"
            yield Finding("sealed", "repaired", examined.fault, path, remedy)
        else:
            yield Finding("sealed", "lost", examined.fault, path, kept + AGAIN)
    elif listed is None or listed.attempt < examined.ending.attempt:
        yield Finding("unlisted", "repaired", f"is not listed in {ledger.OUTCOMES}", path, "listed")


def _of_specifications(looked: Looked) -> Iterator[Finding]:
    missing = looked.examined.keys() - looked.asked.trials.keys()
    back = {record[1]["trial"] for record in looked.back if record[0] == "trial"}
    path = looked.folder / ledger.PLANS
    cases: list[tuple[set[str], Severity, str]] = [
        (missing & back, "repaired", f"got back from {DATABASE}"),
        (missing - back, "lost", "comes again when a space that has it is run"),
    ]
    for trials, severity, remedy in cases:
        if trials:
            what = f"lacks the specification of {restore.named(sorted(trials))}"
            yield Finding("specification", severity, what, path, remedy)


def _of_clocks(looked: Looked) -> Iterator[Finding]:
    endings = (found.ending for found in looked.examined.values() if found.ending)
    backwards = [ending.trial_id for ending in endings if ending.ended < ending.began]
    if backwards:
        what = f"{restore.named(backwards)} ended before it began: a clock was set back"
        yield Finding("clock", "harmless", what, looked.folder / sealed.FOLDER, "nothing is ordered by clocks")


def _of_segment(looked: Looked, trial_id: str, content: Segment | None) -> Iterator[Finding]:
    path, listed = segment.path_of(looked.folder, trial_id), looked.known.get(trial_id)
    put_away = f"kept in {DAMAGED}; the trial starts over"
    if content is None:
        if path.exists() and path.stat().st_size:
            yield Finding("segment", "repaired", "has lost its first line", path, put_away, 1)
        return
    if content.beginning.trial_id != trial_id:
        yield Finding("segment", "repaired", f"is of another trial, {content.beginning.trial_id}", path, put_away)
    elif listed and content.beginning.attempt <= listed.attempt:
        yield Finding("leftover", "repaired", "is of a trial that is sealed already", path, "deleted")
    elif double := sealed.double(content):
        yield Finding("segment", "repaired", f"has step, metric, address {double} twice", path, put_away)
    else:
        yield from _of_open_segment(looked, trial_id, content)


def _of_open_segment(looked: Looked, trial_id: str, content: Segment) -> Iterator[Finding]:
    folder, path = looked.folder, segment.path_of(looked.folder, trial_id)
    reading = lines.read(path)
    mark = last_good(folder, trial_id, content)
    then = f"the trial goes on from step {mark.saved.step}" if mark else "the trial starts over"
    numbers, torn = restore.broken(path, reading)
    for number in numbers:
        yield Finding("damaged line", "repaired", "is damaged", path, then, number)
    if torn:
        yield Finding("torn", "repaired", f"ends in the middle of a line ({torn} bytes)", path, f"cut off; {then}")
    if content.outcome and not numbers:
        yield Finding("outcome", "repaired", f"has ended ({content.outcome.kind}) and is not sealed", path, "sealed")
    elif content.marks and not numbers and mark != content.marks[-1]:
        state = _state(folder, trial_id, content.marks[-1].saved.step)
        yield Finding("checkpoint", "repaired", "is gone or not what was written", state, then)
    if trial_id not in looked.asked.trials:
        yield Finding("specification", "harmless", "is of a trial that no plan asks for", path, "left as it is")
    yield from _unknown(path, reading)


def _of_checkpoints(looked: Looked) -> Iterator[Finding]:
    for trial_id in sorted(checkpoints.trials(looked.folder) - looked.segments.keys()):
        for step in checkpoints.steps(looked.folder, trial_id):
            path = _state(looked.folder, trial_id, step)
            yield Finding("checkpoint", "repaired", "is of a trial that is not being trained", path, "deleted")


def _state(folder: Path, trial_id: str, step: int) -> Path:
    return folder / checkpoints.FOLDER / f"{trial_id}.{step}.pt"
