"""Verifying: results checked by whoever gets them: seals, plan and verdicts made anew, trials trained again.

Each check has an answer: `right`, `wrong`, or `told` where it could not be made or a difference proves nothing. What
is checked rests on the sealed files alone: no cache is read, and a page is not believed.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ablate.components.registry import declarations
from ablate.data.streams import prepare
from ablate.errors import AblateError, AblateWarning, RefusedError
from ablate.execute.controller import EndCounts
from ablate.execute.executor import Task, cache_of
from ablate.execute.search.source import OtherProposalsError
from ablate.output.words import plural
from ablate.plan.plan import Plan, Trial
from ablate.report.searched.sections import to_json
from ablate.session import table_judging
from ablate.session.accounts import account_of
from ablate.session.earlier_runs import KeptSpace, as_run, page_of, unmarked
from ablate.session.judging import Answer, Check, check_verdicts, document_differences, name_some
from ablate.session.planning import PathLike, Planned, plan_space
from ablate.session.running import SearchRun
from ablate.source.located import to_python
from ablate.store import bundle, files, measurements, sealed, snapshot
from ablate.store.bundle import RESULTS, chain, collect
from ablate.store.documents import Question, digest, plan_id
from ablate.store.durable import compact
from ablate.store.faults import database_fault
from ablate.store.files import Ending
from ablate.store.machines import installed, of_machine, packages
from ablate.store.predictions import with_kept_forecasts
from ablate.store.records import KeptPlan, Request
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.train.events import WITH_RESULT
from ablate.verdict.judge import judge


@dataclass(frozen=True, slots=True)
class Verified:
    path: Path
    checks: tuple[Check, ...]
    heads: Mapping[str, str]

    @property
    def wrong(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.answer == "wrong")


def verify(path: PathLike, *, retrain: int = 0, trust: bool = False) -> Verified:
    """Check a bundle or a results folder; train `retrain` random trials of each space again and compare the bits.

    Without `trust` no code that a bundle brings is run: its plan is then not made anew. InputError for what is neither.
    """
    path = Path(path)
    with ExitStack() as last, warnings.catch_warnings():
        warnings.simplefilter("ignore", AblateWarning)  # that files are lost is among the checks
        aside = Path(last.enter_context(tempfile.TemporaryDirectory(prefix="ablate-")))
        if path.is_dir():
            files.check_results(path)
            if snapshot.is_earlier(path):
                raise RefusedError(f"{path} is of an earlier version\n  = `ablate doctor --results {path}` converts it")
            folder, checks, trust = path, [], True
        else:
            checks = [Check("", "seals", "wrong", fault) for fault in bundle.unpack(path, aside / "bundle")]
            folder = aside / "bundle" / RESULTS
        now = Snapshot(folder)
        checks += _seals(now)
        if path.is_dir():
            checks += _cache(now)
        heads: dict[str, str] = {}
        for space in now.plans.of_space:
            plan = now.plans.current(space)
            assert plan is not None
            heads[space] = chain(now, plan)[-1].head
            page = page_of(path, space, plan.document["resolved"]) if path.is_dir() else aside / "bundle" / "page.html"
            checks += _of_plan(now, plan, aside / space, page, retrain=retrain, trust=trust)
            checks += _head_on(page.with_suffix(".md"), plan, heads[space], path)
        for tables in now.tables.values():
            checks += table_judging.table_checks(folder, tables[-1])
        if not now.plans.of_space and not now.tables:
            checks.append(Check("", "plan", "wrong", "there is no plan"))
        return Verified(path, tuple(checks), heads)


def _seals(now: Snapshot) -> Iterator[Check]:
    faults, listed = dict(now.lost), now.witness.written
    for name, written in listed.items():
        content, fault = _content(now, name)
        if content is not None and not written.has(content):
            fault = "is not as it was sealed: some of its bytes have changed"
        if fault:
            faults.setdefault(name, fault)
    for place in files.FOLDERS:
        for name in files.sizes(now.folder, place):
            if name not in listed and name not in now.replaced:
                faults.setdefault(name, "is in no witness: it was put there later, or left by a crash")
    for trial in now.endings:
        examined = sealed.examine(now.folder, trial, None)
        if examined.fault:
            faults.setdefault(files.name_of(trial), examined.fault)
    if now.witness.damaged:
        lines = ", ".join(map(str, now.witness.damaged))
        faults[files.WITNESS] = f"has damaged lines ({lines})"
    yield from (Check("", "seals", "wrong", f"{name} {fault}") for name, fault in sorted(faults.items()))
    if not faults:
        yield Check("", "seals", "right", f"{plural(len(listed), 'file')} whole, and as sealed")


def _content(now: Snapshot, name: str) -> tuple[bytes | None, str]:
    if name.startswith(f"{files.TRIALS}/"):
        try:
            return (now.folder / name).read_bytes(), ""
        except OSError as error:
            return None, files.GONE if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    return files.whole(now.folder, name)


def _cache(now: Snapshot) -> Iterator[Check]:
    faults = [found.what for found in database_fault(now).findings if found.what.startswith("differs")]
    yield from (Check("", "cache", "wrong", f"{now.folder / 'ablate.duckdb'} {fault}") for fault in faults)


def _of_plan(now: Snapshot, plan: KeptPlan, aside: Path, page: Path, *, retrain: int, trust: bool) -> Iterator[Check]:
    space, request = plan.space, now.requests.get(plan.space)
    yield from _trials(now, plan)
    if request is None or not plan.document.get("sources"):
        yield Check(space, "files", "told", "the folder does not have the files that decided it: no plan made anew")
        return
    missing = [
        name
        for name, mark in plan.document["sources"].items()
        if files.whole(now.folder, f"{files.SOURCES}/{mark}")[0] is None
    ]
    if missing:
        yield Check(space, "files", "wrong", f"not as they were: {', '.join(missing)}")
        return
    own = [name.rpartition("/")[2] for name in plan.document["sources"] if name.startswith("plugin/")]
    if own and not trust:
        what = f"not made anew, nor the verdicts: that runs the code of {', '.join(own)}; read it, then add --trust"
        yield Check(space, "plan", "told", what)
        return
    aside.mkdir(parents=True)
    collect(now, plan, aside)
    try:
        kept = as_run(now.folder, request)
        planned = plan_space(kept.space, results=aside, forecasts="none", texts=kept.texts)
    except AblateError as error:
        yield Check(space, "plan", "wrong", f"cannot be made anew: {str(error).splitlines()[0]}")
        return
    as_planned = list(_plan(now, plan, kept, planned.plan))
    yield from as_planned
    trials = planned.plan.trials
    if plan.document["design"] != "search":
        yield from _verdicts(now, plan, kept, planned.plan, aside)
    elif not as_planned:
        replay = SearchReplay(now, plan, request, page.with_suffix(".json"))
        yield from replay.checks(planned, aside)
        trials = replay.trials
    if retrain:
        yield from retrained(now, space, trials, kept.plugins, retrain)


def _trials(now: Snapshot, plan: KeptPlan) -> Iterator[Check]:
    wrong = []
    for trial, _, seed in plan.document["trials"]:
        planned = now.plans.specifications.get(trial, {})
        ending = now.endings.get(trial)
        own = sealed.examine(now.folder, trial, now.sealed(trial)).specification if ending else None
        differ = [key for key in planned if own is not None and compact(own.get(key)) != compact(planned[key])]
        differ = [key for key in differ if key not in ("folder", "variant", "conditions")]
        differ += ["seed"] * (planned.get("seed") != seed)
        differ += ["id"] * (ending is not None and ending.trial != trial)
        if differ:
            wrong.append(f"{trial} in {', '.join(dict.fromkeys(differ))}")
    if wrong:
        yield Check(plan.space, "trials", "wrong", f"not trained as planned: {name_some(wrong)}")


def _plan(now: Snapshot, kept: KeptPlan, read: KeptSpace, plan: Plan) -> Iterator[Check]:
    """Make a plan anew from its files; of a search only what was asked."""
    document = kept.document
    resolved, written = unmarked(document["resolved"]), to_python(read.space.located)
    if compact(written) != compact(resolved):
        differ = [key for key, value in resolved.items() if compact(written.get(key)) != compact(value)]
        what = f"its files say something else than its plan: {', '.join(differ) or 'keys'}"
        yield Check(kept.space, "plan", "wrong", what)
        return
    if plan_id(kept.space, asked=digest(document["resolved"])) != kept.id:
        yield Check(kept.space, "plan", "wrong", "its id is that of another question")
        return
    if plan.design == "search":
        return
    then = {(str(trial), int(seed)) for trial, _, seed in document["trials"]}
    made = {(trial.id, trial.seed) for trial in plan.trials}
    if (plan.open and made <= then) or made == then:
        yield Check(kept.space, "plan", "right", f"made anew from its files: the same {plural(len(then), 'trial')}")
        return
    ran = {ending.versions.get("ablate") for ending in now.endings.values()}
    here = installed()["ablate"]
    what = f"made anew, {len(made & then)} of {plural(len(then), 'trial')} are the same"
    if ran - {here}:
        what += f": it is of ablate {', '.join(sorted(map(str, ran)))}, this is {here}"
        yield Check(kept.space, "plan", "told", what)
    else:
        yield Check(kept.space, "plan", "wrong", what)


def _verdicts(now: Snapshot, kept: KeptPlan, read: KeptSpace, plan: Plan, aside: Path) -> Iterator[Check]:
    judgement = now.verdicts.get(kept.id)
    if judgement is None:
        yield Check(kept.space, "verdicts", "told", "there are none")
        return
    used, ended = judgement.content["trials"], now.endings
    other = [trial for trial, rows in used.items() if trial not in ended or not ended[trial].digest.startswith(rows)]
    if other:
        what = f"computed from other numbers than there are, of {plural(len(other), 'trial')}: {name_some(other)}"
        yield Check(kept.space, "verdicts", "wrong", what)
        return
    finals = measurements.finals(aside, list(used))
    account = account_of(plan, finals, rules=read.space.judge, folder=aside)
    summary = judge(with_kept_forecasts(plan, aside), read.space.judge, finals, account)
    yield check_verdicts(kept.space, judgement.content["verdicts"], summary, plan)
    later = len({str(trial) for trial, *_ in kept.document["trials"]} & ended.keys() - used.keys())
    if later:
        yield Check(kept.space, "verdicts", "told", f"{plural(later, 'trial')} ended after they were judged")


def _head_on(page: Path, plan: KeptPlan, head: str, path: Path) -> Iterator[Check]:
    if not page.exists():
        return
    if head in page.read_text(encoding="utf-8", errors="replace"):
        yield Check(plan.space, "page", "right", "it has the head of these records")
    elif path.is_dir():
        verb = "run" if plan.document["design"] == "search" else "report"
        again = f"ablate {verb} {plan.space} --results {path}"
        yield Check(plan.space, "page", "told", f"{page} is not of these records: `{again}` writes it anew")
    else:
        yield Check(plan.space, "page", "wrong", f"{page.name} is not of these records")


# A search made anew from its results: its proposals, its confirmation and its page, and nothing is trained.
#
# A proposal is a function of the seed and of the results before it, and of the libraries that samplers rest on. So a
# replay that proposes something else proves that a number or the plan was changed, unless those libraries differ.

LIBRARIES = ("ablate", "cmaes", "numpy", "optuna", "scikit-learn", "scipy", "torch")
"""The libraries that proposals rest on, beside the seed and the results."""
OF_A_RUN = ("again", "known", "known_failed", "head")
"""The parts of a page about the run that wrote it; the head is checked against the records themselves."""


class SearchReplay:
    """A kept search, whose trials have all ended, carried out again in its own folder; `page` is its page's JSON."""

    def __init__(self, now: Snapshot, kept: KeptPlan, request: Request, page: Path):
        self._now, self._kept, self._request, self._page = now, kept, request, page
        self.trials: tuple[Trial, ...] = ()

    def checks(self, planned: Planned, folder: Path) -> Iterator[Check]:
        space, document = self._kept.space, self._kept.document
        with Results(folder, say=lambda said: None) as store:
            before = Snapshot(folder).questions
            try:
                run = SearchRun(planned, store, self._request, fresh=False, limit=None)
                work = run.source.next()
                done = run.answer(EndCounts())
            except OtherProposalsError as error:
                yield Check(space, "plan", *self._otherwise(str(error).splitlines()[0]))
                return
            except AblateError as error:  # such as a text that it measures on, which is not here
                yield Check(space, "plan", "told", f"cannot be carried out again: {str(error).splitlines()[0]}")
                return
        self.trials, finished = done.plan.trials, run.source.done
        then, now = {str(trial) for trial, *_ in document["trials"]}, {trial.id for trial in self.trials}
        asked = [(each["k"], int(each["derivation"]), each["variant"]) for each in document.get("proposals", ())]
        made = [(each.k, each.derivation, each.variant) for each in done.plan.proposals]
        if finished:
            same = asked == made and then == now
        else:  # a plan that was growing may have fewer proposals than its results ask for, or more
            both = min(len(asked), len(made))
            same = asked[:both] == made[:both]
        if not same:
            yield Check(space, "plan", *self._otherwise("made anew from its results, it has other proposals"))
            return
        if work is not None and not document.get("open"):
            needs = f"made anew, {work.label} is asked for, which has no result"
            yield Check(space, "plan", *self._otherwise(needs))
            return
        far = "" if finished else " as far as it has come"
        said = f"made anew from its results{far}: the same {plural(len(made), 'proposal')}"
        yield Check(space, "plan", "right", said)
        if finished:
            yield from self._confirmed(before, folder)
            yield from self._same_page(to_json(done.searched) if done.searched else "")

    def _otherwise(self, what: str) -> tuple[Answer, str]:
        """The answer to a replay that went otherwise: it proves nothing where the libraries are others."""
        lock = self._request.packages
        content = files.whole(self._now.folder, f"{files.SOURCES}/{lock}")[0] if lock else None
        if content is None:
            return "told", f"{what}; it is not known with which packages it was run"
        then, here = _package_versions(content.decode()), _package_versions(packages())
        apart = [name for name in LIBRARIES if then.get(name) != here.get(name)]
        if apart:
            return "told", f"{what}; here are other versions of {', '.join(apart)} than it was run with"
        return "wrong", what

    def _confirmed(self, kept: Mapping[str, Sequence[Question]], folder: Path) -> Iterator[Check]:
        anew = Snapshot(folder).questions
        own = {id: last for id, every in anew.items() if (last := every[-1])["space"] == self._kept.space}
        if not own:  # it confirms no block
            return
        differ = [
            line
            for id, last in own.items()
            for line in document_differences([each["effects"] for each in kept.get(id, ())][-1:], [last["effects"]])
        ]
        judged = sum(len(last["effects"]) for last in own.values())
        if differ:
            yield Check(self._kept.space, "verdicts", "wrong", f"computed anew they are others: {name_some(differ)}")
        else:
            said = f"{plural(judged, 'effect')} of the confirmation computed anew, all as kept"
            yield Check(self._kept.space, "verdicts", "right", said)

    def _same_page(self, anew: str) -> Iterator[Check]:
        if not self._page.exists():
            return
        try:
            written = json.loads(self._page.read_text(encoding="utf-8"))
        except ValueError:
            yield Check(self._kept.space, "page", "wrong", f"{self._page.name} cannot be read")
            return
        one, other = ({k: v for k, v in each.items() if k not in OF_A_RUN} for each in (written, json.loads(anew)))
        differ = list(document_differences(one, other))
        if differ:
            yield Check(
                self._kept.space, "page", *self._otherwise(f"{self._page.name} says otherwise: {name_some(differ)}")
            )
        else:
            yield Check(self._kept.space, "page", "right", "all that it says follows from the results")


def _package_versions(lock: str) -> dict[str, str]:
    pairs = (line.partition("==") for line in lock.splitlines())
    return {name.lower().replace("_", "-"): version for name, _, version in pairs}


# Trials of a folder that one got trained again, and compared bit by bit with what was sealed.
#
# Where the bits differ on a machine that computes alike, a number was changed; on another machine the first step that
# differs is told, and the difference at the end beside the standard deviation between seeds.


def retrained(
    now: Snapshot, space: str, trials: Sequence[Trial], plugins: tuple[Path, ...], number: int
) -> Iterator[Check]:
    ended = {trial for trial, ending in now.endings.items() if ending.kind in WITH_RESULT}
    there = {trial.id: trial for trial in trials if trial.id in ended}
    if not there:
        yield Check(space, "retrained", "told", "no trial that was made anew has a result that could be trained again")
        return
    chosen = random.SystemRandom().sample(sorted(there), min(number, len(there)))
    with tempfile.TemporaryDirectory(prefix="ablate-") as place:
        folder = Path(place)
        if cache_of(now.folder).exists():
            cache_of(folder).symlink_to(cache_of(now.folder).resolve(), target_is_directory=True)
        for trial in chosen:
            yield Check(space, "retrained", *_trained_again(now, there[trial], plugins, folder))


def _trained_again(now: Snapshot, trial: Trial, plugins: tuple[Path, ...], folder: Path) -> tuple[Answer, str]:
    label, before = f"{trial.id} (seed {trial.seed})", now.endings[trial.id]
    try:
        streams = prepare(trial.work.data, Path(trial.work.folder), cache_of(folder), declarations(plugins))
    except AblateError as error:
        return "told", f"{label}: its text is not here ({str(error).splitlines()[0]})"
    if streams.fingerprint != trial.work.corpus:
        return "told", f"{label}: the text here is another one than it was trained on"
    after = train_again(trial, folder, before, plugins)
    if (after.digest, after.kind, after.step) == (before.digest, before.kind, before.step):
        return "right", f"{label}: bit for bit the same, {before.rows:,} rows"
    first, then, here = _first_difference(now, trial, folder), of_machine(before.versions), of_machine(after.versions)
    if then == here:
        return "wrong", f"{label}: {first}, on a machine that computes the same"
    apart = sorted(name for name in {**then, **here} if then.get(name) != here.get(name))
    return "told", f"{label}: {first}; this machine computes otherwise ({', '.join(apart)})"


def train_again(trial: Trial, folder: Path, ending: Ending, plugins: tuple[Path, ...]) -> Ending:
    """Train a trial from its beginning in a folder of its own, divided as it was, and return its ending."""
    from ablate.execute.worker import messages  # loads torch, which nothing else here needs

    parts, ranks = (int(ending.versions.get(name, 1)) for name in ("parts", "ranks"))
    with Results(folder, say=lambda said: None) as store:
        store.begin(trial)
        task = Task(trial=trial, folder=folder, plugins=plugins, parts=parts, ranks=ranks)
        for message in messages(task, lambda: False):
            store.append(trial.id, message.events)
    again = Snapshot(folder).endings.get(trial.id)
    if again is None:
        raise RefusedError(f"trial {trial.id} could not be trained again\n  = free memory or disk, and try again")
    return again


def _first_difference(now: Snapshot, trial: Trial, folder: Path) -> str:
    before, after = _trial_rows(now.folder, trial.id), _trial_rows(folder, trial.id)
    differ = sorted(key for key in {**before, **after} if not _same_bits(before.get(key), after.get(key)))
    if not differ:
        return "the same rows, and another end"
    step, metric, address = differ[0]
    first = f"differs from step {step} on ({metric}{f' of {address}' if address else ''})"
    losses, again = _losses(before), _losses(after)
    if not (losses and again):
        return first
    like = [_losses(_trial_rows(now.folder, other))[-1:] for other in now.endings if _is_like(now, other, trial)]
    at_ends = [loss for of_seed in like for loss in of_seed]
    spread = f", where seeds have a sd of {statistics.stdev(at_ends):.2g}" if len(at_ends) > 1 else ""
    return f"{first}; its eval loss at the end by {abs(losses[-1] - again[-1]):.2g}{spread}"


def _trial_rows(folder: Path, trial: str) -> dict[tuple[int, str, str], float]:
    rows = measurements.ended_rows(folder, trial).rows.to_pylist()
    return {(row["step"], row["metric"], row["address"]): row["value"] for row in rows if row["kind"] == "row"}


def _losses(rows: Mapping[tuple[int, str, str], float]) -> list[float]:
    return [rows[key] for key in sorted(rows) if key[1] == "eval_loss"]


def _same_bits(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return False
    return before == after or (math.isnan(before) and math.isnan(after))


def _is_like(now: Snapshot, other: str, trial: Trial) -> bool:
    """True if another trial is of the same variant and settings, at any seed."""
    specified = now.specification(other)
    asked = trial.variant, trial.conditions, trial.salt
    return (specified.get("variant"), specified.get("conditions"), specified.get("salt")) == asked
