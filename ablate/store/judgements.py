"""The judgements that a folder keeps: a file each, with verdicts on a plan and how often its questions were asked.

{"space": …, "plan": id, "at": …, "trials": {id: digest}, "verdicts": {"effects": […], …}, "questions": [{…}, …]}

The latest verdicts of a plan count. `trials` has the digest of each trial's rows that they were computed from, so that
a lost one is noticed, and whether anything has ended since.

A question is identified by what it asks, not by its seeds or by the space that asks it (`verdict.judgement.families`).
A judgement of it is identified by its `number`, its seeds (or its looks, where seeds are added after looks), and how
they were `measured`. The first file of a judgement fixes the share of α that it is tested at; the latest has its
result, and in `without` the trials without a result. `left` is the share of α that it leaves. So how often a question
was judged is known in whatever way and order its trials came about. Each space that asks it has an entry.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ablate.store import files
from ablate.store.checksummed_lines import compact
from ablate.store.documents import JudgementFile, Question, Verdicts
from ablate.store.files import Document
from ablate.verdict.seeds import Seed

Basis: TypeAlias = tuple[tuple[Seed, ...], tuple[int, ...], str]
"""The basis of a judgement: its seeds or its looks, and how these were measured."""

Key: TypeAlias = tuple[str, int, Basis]
"""What identifies a judgement: the question, its number, and its basis."""


def basis(seeds: Iterable[Seed], looks: Iterable[int], measured: str) -> Basis:
    """Return the basis of a judgement: with looks, however many seeds there were so far, the looks alone."""
    after = tuple(looks)
    return () if after else tuple(sorted(seeds, key=str)), after, measured


def basis_of(question: Question) -> Basis:
    return basis(question["seeds"], question["looks"], question["measured"])


def latest(judgements: Iterable[Document[JudgementFile]]) -> dict[str, Document[JudgementFile]]:
    """Return the latest judgement with verdicts of each plan, by the plan's id."""
    return {each.content["plan"]: each for each in judgements if each.content["verdicts"] is not None}


def in_order(judgements: Iterable[Document[JudgementFile]]) -> tuple[Question, ...]:
    """Return the judgements of questions in the order in which they were first made, each with its latest result, all
    its `spaces`, and the first `plan`."""
    last: dict[str, Question] = {}
    for plan, question in ((each.content["plan"], every) for each in judgements for every in each.content["questions"]):
        key = _mark(question)
        spaces, first = (last[key]["spaces"], last[key]["plan"]) if key in last else ((), plan)
        last[key] = {**question, "spaces": tuple(dict.fromkeys((*spaces, question["space"]))), "plan": first}
    return tuple(last.values())


def questions(judgements: Iterable[Document[JudgementFile]]) -> dict[str, tuple[Question, ...]]:
    """Return the judgements of each question in order of number."""
    by_question: dict[str, list[Question]] = {}
    for question in sorted(in_order(judgements), key=lambda question: int(question["number"])):
        by_question.setdefault(question["question"], []).append(question)
    return {question: tuple(over_time) for question, over_time in by_question.items()}


def by_space(judgements: Iterable[Document[JudgementFile]]) -> dict[str, tuple[Question, ...]]:
    of_space: dict[str, tuple[Question, ...]] = {}
    for over_time in questions(judgements).values():
        for question in over_time:
            for space in question["spaces"]:
                of_space[space] = (*of_space.get(space, ()), {**question, "space": space})
    return of_space


def record(
    folder: Path,
    space: str,
    plan: str,
    trials: Mapping[str, str],
    *,
    verdicts: Verdicts | None,
    judged: Sequence[Question],
) -> None:
    """Keep new verdicts on a plan, from `trials` of these digests, and new judged questions; needs the lock."""
    kept, _ = files.documents(folder, "verdicts")
    known = {_mark(question): question for every in questions(kept).values() for question in every}
    new = []
    for question in judged:
        before = known.get(_mark(question))
        if before is None or question["space"] not in before["spaces"] or _content(before) != _content(question):
            new.append({**question, "at": time.time()})
    last = latest(kept).get(plan)
    said = [] if last is None else [last.content["verdicts"], last.content["trials"]]
    if new or (verdicts is not None and compact(said) != compact([verdicts, trials])):
        content = {"space": space, "plan": plan, "at": time.time(), "trials": trials}
        files.keep(folder, "verdicts", content | {"verdicts": verdicts, "questions": new}, files.next_number(kept))


def key_of(question: Question) -> Key:
    """Return the question, number and basis of a judgement."""
    return question["question"], question["number"], basis_of(question)


def _mark(question: Question) -> str:
    """Return a text that no other judgement has: two of one number and basis may be of other numbers."""
    data = [[each["comparison"], each["metric"], each["data"]] for each in question.get("accounts", ())]
    return compact([*key_of(question), sorted(data)])


def _content(question: Question) -> str:
    return compact({name: value for name, value in question.items() if name not in ("at", "space", "spaces", "plan")})
