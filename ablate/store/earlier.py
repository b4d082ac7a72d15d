"""Results folders of earlier versions, which kept lines in place of files; read as they are, converted by the next run.

    plans.jsonl      ["plan", digest, {…}], ["seen", {…}], ["trial", {…}] and a second copy of ["run", {…}]
    outcomes.jsonl   ["ended", {…}], ["forgotten", {…}]
    runs.jsonl       ["run", {…}]
    verdicts.jsonl   ["judged", digest, {…}] and a second copy of ["question", digest, {…}]
    questions.jsonl  ["question", digest, {…}]
    paces.jsonl      ["paces", {…}]

Their documents have numbers below one, so that everything written since comes after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ablate.store import checksummed_lines, files
from ablate.store.checksummed_lines import compact
from ablate.store.durable import writing
from ablate.store.files import Document, Ending, Witness, Written, name_of, trial_of
from ablate.store.plans import packed
from ablate.store.serialise import digest, plan_id

OUTCOMES = "outcomes.jsonl"
LINES = ("questions.jsonl", "verdicts.jsonl", "runs.jsonl", "paces.jsonl", OUTCOMES, "plans.jsonl")
"""The files of lines, in the order in which they are put aside: plans last, since verdicts are read with them."""
FOLDER = "earlier"
Record: TypeAlias = Mapping[str, Any]


def is_earlier(folder: Path) -> bool:
    return any((folder / name).exists() for name in LINES)


def documents(folder: Path, kind: files.Kind) -> tuple[Document[Record], ...]:
    if not is_earlier(folder):
        return ()
    contents = list(_CONTENTS[kind](folder))
    numbered = ((content, place - len(contents) + 1) for place, content in enumerate(contents))
    return tuple(_document(kind, content, number) for content, number in numbered)


def witness(folder: Path, now: Witness) -> Witness:
    written = dict(_written(folder))
    return Witness({**written, **now.written}, now.dropped, now.damaged, now.torn) if written else now


def faults(folder: Path) -> Iterator[tuple[str, str]]:
    for name in LINES:
        if damaged := checksummed_lines.read(folder / name).damaged:
            yield name, f"is damaged in line {', '.join(map(str, damaged))}"


def convert(folder: Path) -> str:
    """Write the documents of the lines as files, and put the lines aside; return that it was done. Needs the lock.

    It can be repeated after a crash at any moment: the same lines give the same files.
    """
    for kind in files.DOCUMENTS:
        for document in documents(folder, kind):
            stem = document.content["plan"] if kind == "plans" else ""
            content = {name: value for name, value in document.content.items() if name not in ("format", "number")}
            files.keep(folder, kind, content, document.number, stem=stem)
    known = files.read_witness(folder).written
    files.bear_witness(folder, [each for name, each in _written(folder) if name not in known])
    aside = folder / FOLDER
    with writing(aside):
        aside.mkdir(exist_ok=True)
        for name in LINES:
            if (folder / name).exists():
                (folder / name).rename(aside / name)
    return f"{folder} is of an earlier version: its lines are converted to files, and kept in {FOLDER}"


def _document(kind: files.Kind, content: Record, number: int) -> Document[Record]:
    stem = f"{content['plan']}." if kind == "plans" else ""
    return Document(f"{kind}/{stem}{files.digest_of(files.encoded(content, number))}.json", number, content)


def _records(folder: Path, name: str, word: str) -> Iterator[Any]:
    """Yield the last part of each line that begins with a word."""
    path = folder / name
    for record in checksummed_lines.read(path).records:
        match record:
            case [str(first), *_, dict(content)] if first == word:
                yield content
            case [str(first), *_] if first == word:
                raise files.ForeignError(path, f"the line {compact(record)[:100]}")


def _plans(folder: Path) -> Iterator[Record]:
    specifications = {each["trial"]: each for each in _records(folder, "plans.jsonl", "trial")}
    first_seen: dict[str, float] = {}
    for seen in _records(folder, "plans.jsonl", "seen"):
        first_seen.setdefault(seen["plan"], seen["at"])
    plans: dict[str, Record] = {}
    for plan in _records(folder, "plans.jsonl", "plan"):
        id = plan_id(plan["space"], asked=digest(plan["resolved"]))
        plans.pop(id, None)
        plans[id] = plan
    left = dict(specifications)
    for number, (id, plan) in enumerate(plans.items(), 1):
        own = [left.pop(trial, specifications[trial]) for trial, *_ in plan["trials"] if trial in specifications]
        own += left.values() if number == len(plans) else ()  # of trials that were begun for no plan that is kept
        yield {"plan": id, "first_seen": first_seen.get(id), "document": plan, "specifications": packed(own)}


def _judgements(folder: Path) -> Iterator[Record]:
    endings = dict(_endings(folder))
    trials_of = {plan["plan"]: [trial for trial, *_ in plan["document"]["trials"]] for plan in _plans(folder)}
    for verdicts in _records(folder, "verdicts.jsonl", "judged"):
        plan = plan_id(verdicts["space"], asked=verdicts["asked"])
        ended = {trial: endings[trial] for trial in trials_of.get(plan, ()) if trial in endings}
        # Verdicts that do not say how trials had ended count as the latest.
        states = digest(sorted((trial, ending.outcome.kind) for trial, ending in ended.items()))
        same = verdicts.get("ended", states) == states
        trials = {trial: ending.digest[: files.DIGITS] for trial, ending in ended.items()} if same else {}
        yield {"space": verdicts["space"], "plan": plan, "at": 0.0, "trials": trials, "verdicts": verdicts} | {
            "questions": []
        }
    judged: dict[str, Record] = {}
    for name in ("questions.jsonl", "verdicts.jsonl"):
        judged |= {compact(question): question for question in _records(folder, name, "question")}
    if judged:
        over_time = sorted(judged.values(), key=lambda question: float(question["at"]))
        yield {"space": "", "plan": "", "at": 0.0, "trials": {}, "verdicts": None, "questions": over_time}


def _runs(folder: Path) -> Iterable[Record]:
    runs: dict[str, Record] = {}
    for name in ("runs.jsonl", "plans.jsonl"):
        runs |= {compact(run): run for run in _records(folder, name, "run")}
    return sorted(runs.values(), key=lambda run: float(run.get("at", 0)))


_CONTENTS: Mapping[files.Kind, Callable[[Path], Iterable[Record]]] = {
    "plans": _plans,
    "verdicts": _judgements,
    "runs": _runs,
    "paces": partial(_records, name="paces.jsonl", word="paces"),
    "tables": lambda folder: (),
}


def _endings(folder: Path) -> Iterator[tuple[str, Ending]]:
    yield from ((trial_of(name), each.ending) for name, each in _written(folder) if each.ending)


def _written(folder: Path) -> Iterable[tuple[str, Written]]:
    """Return the trials that the index lists, with the length and checksum of each file as far as they were kept."""
    written: dict[str, Written] = {}
    for record in checksummed_lines.read(folder / OUTCOMES).records:
        match record:
            case ["ended", {"trial": str(trial), "file": [int(size), int(crc)]} as ended]:
                name = name_of(trial)
                written[name] = Written(name, size, f"{crc:08x}", files.ending_of(ended, folder / OUTCOMES))
            case ["ended", {"trial": str(trial)} as ended]:
                name = name_of(trial)
                written[name] = Written(name, -1, "", files.ending_of(ended, folder / OUTCOMES))
            case ["forgotten", {"trial": str(trial)}]:
                written.pop(name_of(trial), None)
    return written.items()
