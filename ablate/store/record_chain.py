"""The records of a plan as a chain of hashes: its files, its plan, how each trial ended, and the verdicts.

The hash of each contains that of the record before it, so that the last one, the head, stands for all: by the head on a
page one can tell whether another copy has the same question, numbers and verdicts. Only what was asked and what came of
it is in it, no clock: trials that are trained again to the same bits have the same head.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from ablate.store.checksummed_lines import compact
from ablate.store.plans import KeptPlan
from ablate.store.serialise import digest
from ablate.store.snapshot import Snapshot
from ablate.store.versions import of_machine

START = hashlib.sha256(b"ablate records 1").hexdigest()


@dataclass(frozen=True, slots=True)
class Link:
    """A record: its kind and name, the hash of its content, and that of the chain up to it."""

    kind: str
    name: str
    content: str
    head: str


def chain(now: Snapshot, plan: KeptPlan) -> tuple[Link, ...]:
    """Return the records of a plan in their order: files, plan, trials, verdicts or the judgements of a search.

    `head = sha256(head before + [kind, name, content as JSON])`.
    """
    links: list[Link] = []
    for kind, name, content in _records(now, plan):
        before = links[-1].head if links else START
        head = hashlib.sha256(f"{before}\n{compact([kind, name, content])}".encode()).hexdigest()
        links.append(Link(kind, name, content, head))
    return tuple(links)


def _records(now: Snapshot, plan: KeptPlan) -> Iterator[tuple[str, str, str]]:
    document = plan.document
    for name, content in sorted(document.get("sources", {}).items()):
        yield "file", name, content
    yield "plan", plan.id, plan.digest
    for trial in sorted({str(trial) for trial, *_ in document["trials"]} & now.endings.keys()):
        end = now.endings[trial]
        yield "trial", trial, digest([end.kind, end.step, end.rows, end.digest, of_machine(end.versions)])
    verdicts = now.verdicts.get(plan.id)
    if verdicts is not None:
        yield "verdicts", plan.id, digest(verdicts.content["verdicts"])
        return
    own = (each.content["questions"] for each in now.judgements if each.content["plan"] == plan.id)
    judged = {question["question"]: question["effects"] for questions in own for question in questions}
    for question, effects in sorted(judged.items()):  # of a search: the blocks that it confirmed
        yield "judgement", question, digest(effects)
