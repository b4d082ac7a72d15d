"""Records: the plans, requested runs, judgements and judged tables of a folder, as they are read from its documents."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter

from ablate.errors import AblateError
from ablate.grammar.named_files import portable
from ablate.plan.plan import Comparison, Factors, LadderStep, PlannedLadder, VariedFactor
from ablate.store import files
from ablate.store.documents import (
    ComparisonDocument,
    JudgementFile,
    PackedSpecifications,
    PlanDocument,
    PlanFile,
    Question,
    Specification,
    TableDocument,
    TableFile,
    Verdicts,
    digest,
)
from ablate.store.durable import JsonObject, compact
from ablate.store.files import KeptDocument
from ablate.verdict.experiment import Seed

# Plans: what was asked, with every trial's specification
#
# The plan of a space with the largest number is its current one. Distinct values of specifications are written once.


@dataclass(frozen=True)
class KeptPlan:
    """A plan as it is kept; `first_seen` is when it was first requested in seconds since 1970."""

    file: str
    number: int
    id: str
    first_seen: float | None
    document: PlanDocument

    @cached_property
    def digest(self) -> str:
        return digest(self.document)

    @property
    def space(self) -> str:
        return self.document["space"]


@dataclass(frozen=True)
class KeptPlans:
    """The plans of each space in the order in which they were last requested, and the specifications of all trials."""

    of_space: Mapping[str, tuple[KeptPlan, ...]]
    specifications: Mapping[str, Specification]

    def current(self, space: str) -> KeptPlan | None:
        return self.of_space[space][-1] if space in self.of_space else None

    @property
    def every_current(self) -> Mapping[str, PlanDocument]:
        return {space: plans[-1].document for space, plans in self.of_space.items()}

    def adding(self, plan: KeptPlan, specifications: Mapping[str, Specification]) -> KeptPlans:
        others = tuple(each for each in self.of_space.get(plan.space, ()) if each.id != plan.id)
        return KeptPlans({**self.of_space, plan.space: (*others, plan)}, {**self.specifications, **specifications})


def kept_plans(documents: Sequence[KeptDocument[PlanFile]]) -> KeptPlans:
    """Read plans from their documents, given in the order of their numbers; a later one of the same plan counts."""
    specifications: dict[str, Specification] = {}
    for file in documents:
        specifications.update(unpacked(file.content["specifications"]))
    return KeptPlans(_by_space(map(plan_of, documents)), specifications)


def plan_of(file: KeptDocument[PlanFile]) -> KeptPlan:
    content = file.content
    return KeptPlan(file.name, file.number, content["plan"], content["first_seen"], content["document"])


def packed(specifications: Sequence[Specification]) -> PackedSpecifications:
    values: dict[str, list[object]] = {}
    trials: dict[str, list[int]] = {}
    texts: dict[int, str] = {}
    for key in dict.fromkeys(key for each in specifications for key in each):
        places: dict[str, int] = {}
        of_key = [_value_text(each[key], texts) if key in each else "" for each in specifications]
        trials[key] = [places.setdefault(text, len(places)) if text else -1 for text in of_key]
        of_place = dict(zip(trials[key], specifications, strict=True))
        values[key] = [of_place[place][key] for place in range(len(places))]
    return {"values": values, "trials": trials}


def _value_text(value: object, known: dict[int, str]) -> str:
    """Return a value as it is written; what specifications share is one object, and written once."""
    if id(value) not in known:
        known[id(value)] = compact(value)
    return known[id(value)]


def unpacked(content: PackedSpecifications) -> Iterator[tuple[str, Specification]]:
    values, keys = content["values"], list(content["trials"])
    for places in zip(*content["trials"].values(), strict=True):
        found = {key: values[key][place] for key, place in zip(keys, places, strict=True) if place >= 0}
        yield found["trial"], found


# The design of a plan: its comparisons, and what their contrasts are made of


class KeptDesign:
    """The comparisons of a kept plan, the runs of its factorials and the sizes of its ladders; aliases are left out."""

    def __init__(self, document: PlanDocument):
        self._document = document

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(Comparison(**frozen(each)) for each in self._document["comparisons"])

    @cached_property
    def factors(self) -> tuple[tuple[str, Factors], ...]:
        return tuple((terms, _factors(each)) for terms, each in self._document.get("factors", ()))

    @cached_property
    def ladders(self) -> tuple[tuple[str, PlannedLadder], ...]:
        return tuple((terms, _ladder(each)) for terms, each in self._document.get("ladders", ()))


def _factors(kept: JsonObject) -> Factors:
    known = {name: value for name, value in frozen(kept).items() if name in Factors.__dataclass_fields__}
    varied = tuple(VariedFactor(**frozen(each)) for each in known.get("varied", ()))
    return Factors(**known | {"aliases": (), "varied": varied})


def _ladder(kept: JsonObject) -> PlannedLadder:
    known = frozen(kept)
    return PlannedLadder(**known | {"steps": tuple(LadderStep(**frozen(step)) for step in known["steps"])})


def frozen(document: ComparisonDocument | JsonObject) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in document.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


# Requested runs, a file each, so that a run can be resumed or repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run as it was requested: the space's name and file, the settings that override it, and where its trials ran.

    `place` is the document of `execute.executor.ExecutorOptions`. `mirror` is whether to mirror to MLflow, or
    where (a URI without secrets). `path` and `plugins` are absolute and never shown: `typed` are the same files as a
    command names them, the space first. `at` is seconds since 1970. `commit` is that of the file's repository. `source`
    is the digest of the space's text, `packages` that of the list of installed packages, kept among the sources.
    """

    space: str
    path: str
    profile: str | None = None
    settings: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    place: Mapping[str, str | int | float] = field(default_factory=dict)
    mirror: bool | str = True
    commit: str | None = None
    source: str = ""
    packages: str = ""
    at: float = field(default_factory=time.time)

    @property
    def shown(self) -> tuple[str, ...]:
        """The file of the space and those of plugins as a command names them; requests of before have no such names."""
        return self.typed or tuple(portable(Path(path)) for path in (self.path, *self.plugins))

    def is_planned_as(self, plan: PlanDocument) -> bool:
        """Return whether a plan is of this text, profile and settings; True for one of versions that lack these."""
        if not (self.source and "sources" in plan):
            return True
        asked = plan.get("profile"), tuple(plan.get("settings", ()))
        return self.source in plan["sources"].values() and asked == (self.profile, self.settings)


REQUEST = TypeAdapter(Request)  # reads a document; fields that a newer version adds are ignored


def record_request(folder: Path, request: Request) -> str | None:
    """Keep a run, unless the last one was requested in the same way, and return its file; needs the folder's lock."""
    kept, _ = files.documents(folder, "runs")
    if kept and replace(REQUEST.validate_python(kept[-1].content), at=request.at) == request:
        return None
    return files.keep(folder, "runs", asdict(request), files.next_number(kept)).name


@contextmanager
def withdrawn_if_refused(folder: Path, name: str | None) -> Iterator[None]:
    """Withdraw a recorded run that cannot be planned. One that is stopped while it is planned can be resumed."""
    try:
        yield
    except AblateError:  # no other: libraries make errors of their own of an interrupt
        if name is not None:
            files.withdraw(folder, name)
        raise


def last_requests(documents: Iterable[KeptDocument[JsonObject]]) -> dict[str, Request]:
    last: dict[str, Request] = {}
    for document in documents:
        request = REQUEST.validate_python(document.content)
        last.pop(request.space, None)
        last[request.space] = request
    return last


def run_command(request: Request, results: Path) -> str:
    """Return the command that runs it, or resumes it; it says nothing of the machine on which it ran."""
    space, *plugins = request.shown
    words = ["ablate", "run", space]
    words += ["--profile", request.profile] if request.profile else []
    words += [word for setting in request.settings for word in ("--set", setting)]
    words += [word for plugin in plugins for word in ("--plugin", plugin)]
    words += [] if (folder := portable(results)) == "results" else ["--results", folder]
    return shlex.join(words)


def status_command(folder: Path) -> str:
    return f"ablate status --results {shlex.quote(str(folder))}"


# Judgements: a file each, with verdicts on a plan (the latest count) and how often its questions were asked
#
# A question is identified by what it asks, not by its seeds or by the space that asks it
# (`verdict.judgement.families`); a judgement of it by its `number`, its seeds
# (or its looks, where seeds are added after looks), and how they were `measured`. The first file of a judgement fixes
# the share of α that it is tested at; the latest has its result, and in `without` the trials without one. `left` is the
# share of α that it leaves. Each space that asks it has an entry.

Basis: TypeAlias = tuple[tuple[Seed, ...], tuple[int, ...], str]
"""The basis of a judgement: its seeds or its looks, and how these were measured."""

JudgementKey: TypeAlias = tuple[str, int, Basis]  # the question of a judgement, its number, and its basis


def basis(seeds: Iterable[Seed], looks: Iterable[int], measured: str) -> Basis:
    """Return the basis of a judgement: with looks, however many seeds there were so far, the looks alone."""
    after = tuple(looks)
    return () if after else tuple(sorted(seeds, key=str)), after, measured


def basis_of(question: Question) -> Basis:
    return basis(question["seeds"], question["looks"], question["measured"])


def latest_judgements(judgements: Iterable[KeptDocument[JudgementFile]]) -> dict[str, KeptDocument[JudgementFile]]:
    return {each.content["plan"]: each for each in judgements if each.content["verdicts"] is not None}


def questions_in_order(judgements: Iterable[KeptDocument[JudgementFile]]) -> tuple[Question, ...]:
    """Return questions in the order first judged, each with its latest result, all `spaces` and the first `plan`."""
    last: dict[str, Question] = {}
    for plan, question in ((each.content["plan"], every) for each in judgements for every in each.content["questions"]):
        key = _judgement_mark(question)
        spaces, first = (last[key]["spaces"], last[key]["plan"]) if key in last else ((), plan)
        last[key] = {**question, "spaces": tuple(dict.fromkeys((*spaces, question["space"]))), "plan": first}
    return tuple(last.values())


def judged_questions(judgements: Iterable[KeptDocument[JudgementFile]]) -> dict[str, tuple[Question, ...]]:
    """Return the judgements of each question in order of number."""
    by_question: dict[str, list[Question]] = {}
    for question in sorted(questions_in_order(judgements), key=lambda question: int(question["number"])):
        by_question.setdefault(question["question"], []).append(question)
    return {question: tuple(over_time) for question, over_time in by_question.items()}


def questions_by_space(judgements: Iterable[KeptDocument[JudgementFile]]) -> dict[str, tuple[Question, ...]]:
    of_space: dict[str, tuple[Question, ...]] = {}
    for over_time in judged_questions(judgements).values():
        for question in over_time:
            for space in question["spaces"]:
                of_space[space] = (*of_space.get(space, ()), {**question, "space": space})
    return of_space


def record_judgement(
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
    known = {_judgement_mark(question): question for every in judged_questions(kept).values() for question in every}
    new = []
    for question in judged:
        before = known.get(_judgement_mark(question))
        if before is None or question["space"] not in before["spaces"] or _judged_as(before) != _judged_as(question):
            new.append({**question, "at": time.time()})
    last = latest_judgements(kept).get(plan)
    said = [] if last is None else [last.content["verdicts"], last.content["trials"]]
    if new or (verdicts is not None and compact(said) != compact([verdicts, trials])):
        content = {"space": space, "plan": plan, "at": time.time(), "trials": trials}
        files.keep(folder, "verdicts", content | {"verdicts": verdicts, "questions": new}, files.next_number(kept))


def key_of(question: Question) -> JudgementKey:
    return question["question"], question["number"], basis_of(question)


def _judgement_mark(question: Question) -> str:
    """Return a text that no other judgement has: two of one number and basis may be of other numbers."""
    data = [[each["comparison"], each["metric"], each["data"]] for each in question.get("accounts", ())]
    return compact([*key_of(question), sorted(data)])


def _judged_as(question: Question) -> str:
    return compact({name: value for name, value in question.items() if name not in ("at", "space", "spaces", "plan")})


# Judged tables: runs that were trained elsewhere, with what was asked of them
#
# The table of a space with the largest number is its current one. Its cells, as they were read, are a source.


@dataclass(frozen=True, slots=True)
class KeptTable:
    """A judged table as it is kept; `first_seen` is when it was judged first, in seconds since 1970."""

    file: str
    number: int
    id: str
    first_seen: float
    document: TableDocument

    @property
    def space(self) -> str:
        return self.document["space"]


def kept_tables(documents: Iterable[KeptDocument[TableFile]]) -> Mapping[str, tuple[KeptTable, ...]]:
    """Return the tables of each space, given in the order of their numbers; of one table, the latest document."""
    contents = ((file, file.content) for file in documents)
    return _by_space(
        KeptTable(file.name, file.number, content["table"], content["first_seen"], content["document"])
        for file, content in contents
    )


Kept = TypeVar("Kept", bound=KeptPlan | KeptTable)


def _by_space(kept: Iterable[Kept]) -> dict[str, tuple[Kept, ...]]:
    latest: dict[str, Kept] = {}
    for each in kept:
        latest.pop(each.id, None)
        latest[each.id] = each
    of_space: dict[str, tuple[Kept, ...]] = {}
    for last in latest.values():
        of_space[last.space] = (*of_space.get(last.space, ()), last)
    return of_space


def runs_in(document: TableDocument) -> Iterator[tuple[str, int | str, str, str | None, float | None]]:
    """Yield the variant, the seed, the status, and a metric with its value, of each run; None for a run without one."""
    for variant, seed, status, metrics in document["runs"]:
        for metric, value in metrics.items() or [(None, None)]:
            yield variant, seed, status, metric, value


def seeds_in(seeds: Sequence[Any]) -> list[int] | None:
    """Return seeds that are numbers, as a column has them; None for names."""
    return [int(seed) for seed in seeds] if all(isinstance(seed, int) for seed in seeds) else None
