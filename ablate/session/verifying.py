"""Results checked by whoever gets them: seals, the plan and the verdicts made anew, and trials trained again.

Each check has an answer: `right`, `wrong`, or `told` where it could not be made or a difference proves nothing. What is
checked rests on the sealed files alone: no cache is read, and a page is not believed.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ablate.components.registry import declarations
from ablate.data.streams import prepare
from ablate.errors import AblateError, AblateWarning, RefusedError
from ablate.execute.task import Task, cache_of
from ablate.output.words import plural
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.session.judging import account_of, document
from ablate.session.kept_question import KeptSpace, as_run, page_of, unmarked
from ablate.session.planning import plan_space
from ablate.source.located import to_python
from ablate.store import bundle, earlier, files, sealed, trial_numbers
from ablate.store.bundle import RESULTS, collect
from ablate.store.checksummed_lines import compact
from ablate.store.files import Ending
from ablate.store.plans import KeptPlan
from ablate.store.record_chain import chain
from ablate.store.repair import database
from ablate.store.results import Results
from ablate.store.serialise import digest, plan_id
from ablate.store.snapshot import Snapshot
from ablate.store.versions import installed, of_machine
from ablate.train.events import WITH_RESULT
from ablate.verdict.judge import judge

Answer: TypeAlias = Literal["right", "wrong", "told"]
CLOSE = 1e-9
"""Relative difference up to which a statistic that is computed anew is the same: libraries differ in last bits."""
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, of which space (none: of the whole), and what came of it."""

    space: str
    check: Literal["seals", "cache", "files", "plan", "trials", "verdicts", "page", "retrained"]
    answer: Answer
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """All checks of a bundle or a folder, and the head of the records of each space."""

    path: Path
    checks: tuple[Check, ...]
    heads: Mapping[str, str]

    @property
    def wrong(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.answer == "wrong")


def verify(path: Path, *, retrain: int = 0, trust: bool = False) -> Verified:
    """Check a bundle or a results folder; train `retrain` random trials of each space again and compare the bits.

    Without `trust` no code that a bundle brings is run: its plan is then not made anew. InputError for what is neither.
    """
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
            checks += _of_plan(now, plan, aside / space, retrain=retrain, trust=trust)
            checks += _pages(path, now, plan, heads[space])
        if not now.plans.of_space:
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


def _of_plan(now: Snapshot, plan: KeptPlan, aside: Path, *, retrain: int, trust: bool) -> Iterator[Check]:
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
    yield from _plan(now, plan, kept, planned.plan)
    if plan.document["design"] != "search":
        yield from _verdicts(now, plan, kept, planned.plan, aside)
    else:
        yield Check(space, "verdicts", "told", "of a search: its proposals are not made anew")
    if retrain:
        yield from _retrained(now, space, kept, planned.plan, retrain)


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
        yield Check(plan.space, "trials", "wrong", f"not trained as planned: {_some(wrong)}")


def _plan(now: Snapshot, kept: KeptPlan, read: KeptSpace, plan: Plan) -> Iterator[Check]:
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
        yield Check(kept.space, "plan", "right", "read anew from its files, as it was resolved")
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
        what = f"computed from other numbers than there are, of {plural(len(other), 'trial')}: {_some(other)}"
        yield Check(kept.space, "verdicts", "wrong", what)
        return
    finals = trial_numbers.finals(aside, list(used))
    account = account_of(plan, finals, rules=read.space.judge, folder=aside)
    summary = judge(plan, read.space.judge, finals, account)
    differ = list(_unequal(judgement.content["verdicts"], document(summary, plan)))
    if differ:
        yield Check(kept.space, "verdicts", "wrong", f"computed anew they are others: {_some(differ)}")
    else:
        effects = sum(effect.judged for effect in summary.effects)
        yield Check(kept.space, "verdicts", "right", f"{plural(effects, 'judged effect')} computed anew, all as kept")
    later = len({str(trial) for trial, *_ in kept.document["trials"]} & ended.keys() - used.keys())
    if later:
        yield Check(kept.space, "verdicts", "told", f"{plural(later, 'trial')} ended after they were judged")


def _unequal(kept: object, anew: object, at: str = "") -> Iterator[str]:
    """Yield where two documents differ, and how; statistics may differ in last bits."""
    if isinstance(kept, Mapping) and isinstance(anew, Mapping):
        for key in {**kept, **anew}:
            name = f" of {kept.get('change', '')} {kept.get('metric', '')}".rstrip() if "verdict" in kept else ""
            yield from _unequal(kept.get(key), anew.get(key), f"{at}.{key}{name}".lstrip("."))
    elif _sequence(kept) and _sequence(anew) and len(kept) == len(anew):  # type: ignore[arg-type]
        for place, (one, other) in enumerate(zip(kept, anew, strict=True)):  # type: ignore[call-overload]
            yield from _unequal(one, other, f"{at}[{place}]")
    elif not _same(kept, anew):
        yield f"{at}: kept {_short(kept)}, computed {_short(anew)}"


def _sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _same(kept: object, anew: object) -> bool:
    before, after = _number(kept), _number(anew)
    if before is None or after is None:
        return kept == anew
    return math.isclose(before, after, rel_tol=CLOSE, abs_tol=CLOSE) or (math.isnan(before) and math.isnan(after))


def _number(value: object) -> float | None:
    """Return a number; those that are not finite stand in JSON as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return float(value) if not isinstance(value, str) or value in ("NaN", "Infinity", "-Infinity") else None


def _short(value: object) -> str:
    text = compact(value)
    return text if len(text) < 60 else f"{text[:57]}…"


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return "; ".join(items[:MOST_NAMED]) + more


def _pages(path: Path, now: Snapshot, plan: KeptPlan, head: str) -> Iterator[Check]:
    """Compare the head on the page with that of the records."""
    page = page_of(path, plan.space, plan.document["resolved"]) if path.is_dir() else now.folder.parent / "page.html"
    page = page.with_suffix(".md")
    if plan.document["design"] == "search" or not page.exists():
        return
    if head in page.read_text(encoding="utf-8", errors="replace"):
        yield Check(plan.space, "page", "right", "it has the head of these records")
    elif path.is_dir():
        again = f"ablate report {plan.space} --results {path}"
        yield Check(plan.space, "page", "told", f"{page} is not of these records: `{again}` writes it anew")
    else:
        yield Check(plan.space, "page", "wrong", f"{page.name} is not of these records")


# Trained again


def _retrained(now: Snapshot, space: str, read: KeptSpace, plan: Plan, number: int) -> Iterator[Check]:
    ended = {trial for trial, ending in now.endings.items() if ending.kind in WITH_RESULT}
    there = {trial.id: trial for trial in plan.trials if trial.id in ended}
    if not there:
        yield Check(space, "retrained", "told", "no trial of the plan has a result that could be trained again")
        return
    chosen = random.SystemRandom().sample(sorted(there), min(number, len(there)))
    with tempfile.TemporaryDirectory(prefix="ablate-") as place:
        folder = Path(place)
        if cache_of(now.folder).exists():
            cache_of(folder).symlink_to(cache_of(now.folder).resolve(), target_is_directory=True)
        for trial in chosen:
            yield Check(space, "retrained", *_again(now, read, there[trial], folder))


def _again(now: Snapshot, read: KeptSpace, trial: Trial, folder: Path) -> tuple[Answer, str]:
    label, before = f"{trial.id} (seed {trial.seed})", now.endings[trial.id]
    try:
        streams = prepare(trial.data, Path(trial.folder), cache_of(folder), declarations(read.plugins))
    except AblateError as error:
        return "told", f"{label}: its text is not here ({str(error).splitlines()[0]})"
    if streams.fingerprint != trial.corpus:
        return "told", f"{label}: the text here is another one than it was trained on"
    after = train_again(trial, folder, before, read.plugins)
    if (after.digest, after.kind, after.step) == (before.digest, before.kind, before.step):
        return "right", f"{label}: bit for bit the same, {before.rows:,} rows"
    told, then, here = _difference(now, trial, folder), of_machine(before.versions), of_machine(after.versions)
    if then == here:
        return "wrong", f"{label}: {told}, on a machine that computes the same"
    apart = sorted(name for name in {**then, **here} if then.get(name) != here.get(name))
    return "told", f"{label}: {told}; this machine computes otherwise ({', '.join(apart)})"


def train_again(trial: Trial, folder: Path, ending: Ending, plugins: tuple[Path, ...]) -> Ending:
    """Train a trial from its beginning in a folder of its own, divided as it was, and return how it ended."""
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


def _difference(now: Snapshot, trial: Trial, folder: Path) -> str:
    """Return the first step at which two trainings differ, and what that is at the end beside the sd between seeds."""
    before, after = _rows(now.folder, trial.id), _rows(folder, trial.id)
    differ = sorted(key for key in {**before, **after} if not _bits(before.get(key), after.get(key)))
    if not differ:
        return "the same rows, and another end"
    step, metric, address = differ[0]
    told = f"differs from step {step} on ({metric}{f' of {address}' if address else ''})"
    losses, again = _losses(before), _losses(after)
    if not (losses and again):
        return told
    like = [_losses(_rows(now.folder, other))[-1:] for other in now.endings if _is_like(now, other, trial)]
    at_ends = [loss for of_seed in like for loss in of_seed]
    spread = f", where seeds have a sd of {statistics.stdev(at_ends):.2g}" if len(at_ends) > 1 else ""
    return f"{told}; its eval loss at the end by {abs(losses[-1] - again[-1]):.2g}{spread}"


def _rows(folder: Path, trial: str) -> dict[tuple[int, str, str], float]:
    rows = trial_numbers.ended(folder, trial).rows.to_pylist()
    return {(row["step"], row["metric"], row["address"]): row["value"] for row in rows if row["kind"] == "row"}


def _losses(rows: Mapping[tuple[int, str, str], float]) -> list[float]:
    return [rows[key] for key in sorted(rows) if key[1] == "eval_loss"]


def _bits(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return False
    return before == after or (math.isnan(before) and math.isnan(after))


def _is_like(now: Snapshot, other: str, trial: Trial) -> bool:
    """Return whether another trial is of the same variant and settings at any seed."""
    specified = now.specification(other)
    asked = trial.variant, trial.conditions, trial.salt
    return (specified.get("variant"), specified.get("conditions"), specified.get("salt")) == asked
