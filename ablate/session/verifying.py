"""Results checked by whoever gets them: seals, the plan and the verdicts made anew, and trials trained again.

Each check has an answer: `right`, `wrong`, or `told` where it could not be made or a difference proves nothing. What is
checked rests on the sealed files alone: no cache is read, and a page is not believed.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import AblateError, AblateWarning, RefusedError
from ablate.output.words import plural
from ablate.plan.plan import Plan
from ablate.session.accounts import account_of
from ablate.session.checks import Check, some, unequal
from ablate.session.judging import document
from ablate.session.kept_question import KeptSpace, as_run, page_of, unmarked
from ablate.session.planning import PathLike, plan_space
from ablate.session.retraining import retrained
from ablate.session.search_replay import SearchReplay
from ablate.session.tables import kept
from ablate.source.located import to_python
from ablate.store import bundle, earlier, files, sealed, trial_numbers
from ablate.store.bundle import RESULTS, collect
from ablate.store.checksummed_lines import compact
from ablate.store.kept_forecasts import with_kept_forecasts
from ablate.store.plans import KeptPlan
from ablate.store.record_chain import chain
from ablate.store.repair import database
from ablate.store.serialise import digest, plan_id
from ablate.store.snapshot import Snapshot
from ablate.store.versions import installed
from ablate.verdict.judge import judge


@dataclass(frozen=True, slots=True)
class Verified:
    """All checks of a bundle or a folder, and the head of the records of each space."""

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
            if earlier.is_earlier(path):
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
            checks += kept.checks_of(folder, tables[-1])
        if not now.plans.of_space and not now.tables:
            checks.append(Check("", "plan", "wrong", "there is no plan"))
        return Verified(path, tuple(checks), heads)


# Seals


def _seals(now: Snapshot) -> Iterator[Check]:
    """Check every byte of the files that own results against the witness, and the rows of each trial by themselves."""
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
    """Check that the DuckDB file, which all queries read, has what the sealed files have."""
    faults = [found.what for found in database.faults(now).findings if found.what.startswith("differs")]
    yield from (Check("", "cache", "wrong", f"{now.folder / 'ablate.duckdb'} {fault}") for fault in faults)


# A plan


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
    """Check that each trial was specified as its plan has it."""
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
        yield Check(plan.space, "trials", "wrong", f"not trained as planned: {some(wrong)}")


def _plan(now: Snapshot, kept: KeptPlan, read: KeptSpace, plan: Plan) -> Iterator[Check]:
    """Make a plan anew from its files; of a search only what was asked."""
    document = kept.document
    if compact(to_python(read.space.located)) != compact(unmarked(document["resolved"])):
        differ = [
            key
            for key, value in unmarked(document["resolved"]).items()
            if compact(to_python(read.space.located).get(key)) != compact(value)
        ]
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
    """Compute the verdicts anew from the sealed rows of the trials that they were computed from, and compare them."""
    judgement = now.verdicts.get(kept.id)
    if judgement is None:
        yield Check(kept.space, "verdicts", "told", "there are none")
        return
    used, ended = judgement.content["trials"], now.endings
    other = [trial for trial, rows in used.items() if trial not in ended or not ended[trial].digest.startswith(rows)]
    if other:
        what = f"computed from other numbers than there are, of {plural(len(other), 'trial')}: {some(other)}"
        yield Check(kept.space, "verdicts", "wrong", what)
        return
    finals = trial_numbers.finals(aside, list(used))
    account = account_of(plan, finals, rules=read.space.judge, folder=aside)
    summary = judge(with_kept_forecasts(plan, aside), read.space.judge, finals, account)
    differ = list(unequal(judgement.content["verdicts"], document(summary, plan)))
    if differ:
        yield Check(kept.space, "verdicts", "wrong", f"computed anew they are others: {some(differ)}")
    else:
        effects = sum(effect.judged for effect in summary.effects)
        yield Check(kept.space, "verdicts", "right", f"{plural(effects, 'judged effect')} computed anew, all as kept")
    later = len({str(trial) for trial, *_ in kept.document["trials"]} & ended.keys() - used.keys())
    if later:
        yield Check(kept.space, "verdicts", "told", f"{plural(later, 'trial')} ended after they were judged")


def _head_on(page: Path, plan: KeptPlan, head: str, path: Path) -> Iterator[Check]:
    """Compare the head on a page with that of the records."""
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
