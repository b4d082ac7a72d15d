"""`Results`: a results folder open for writing, which only the driver has.

Workers write their checkpoints, their claims and the traces of hanging trials; the driver writes everything else.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from ablate.plan.plan import Plan
from ablate.plan.trial import Trial
from ablate.store import (
    checkpoints,
    ledger,
    open_trial,
    projection,
    questions,
    sealed,
    serialise,
    trial_rows,
    verdicts,
)
from ablate.store.checksummed_lines import Appender, encode
from ablate.store.durable import write_whole, writing
from ablate.store.lock import Lock
from ablate.store.open_trial import Beginning, TrialStart
from ablate.store.pending_rows import Journal
from ablate.store.projection import Say
from ablate.store.repair import open_trials
from ablate.store.repair.opening import make_ready
from ablate.store.serialise import Documents
from ablate.store.trial_rows import TrialRows
from ablate.store.versions import installed
from ablate.train.events import GOES_ON, Began, Event, Outcome, Row, Saved, Timing

SYNC_EVERY = 0.5
"""Seconds between syncs of open segments: a loss of power costs at most this much, less than the promised second."""


class Results:
    """A results folder, locked and repaired on entering.

        with Results(folder, say=console.print) as results:
            results.record_plan(plan, documents)
            known = results.outcomes()
            for trial in (trial for trial in plan.trials if trial.id not in known):
                start = results.begin(trial)
                results.append(trial.id, events_of_a_worker_that_starts_at(start))
            results.refresh()

    `say` is told what a person should know: a torn or damaged line, a trial that starts over. `versions` are those that
    trials are assumed to run with (default: what is installed here) until their worker reports its own. Entering raises
    RefusedError if another driver has the folder or it cannot be written; so does every method when writing fails.
    Methods may be called from several threads.
    """

    def __init__(self, folder: Path, *, say: Say = warnings.warn, versions: Mapping[str, str] | None = None):
        self.folder = folder
        self.say = say
        self.versions = installed() if versions is None else dict(versions)
        self._lock = Lock(folder)
        self._guard = threading.RLock()
        self._refreshing = threading.Lock()
        self._open: dict[str, Appender] = {}
        self._starts: dict[str, TrialStart] = {}
        self._handed_out: dict[str, float] = {}
        self._last_step: dict[str, tuple[int, set[tuple[str, str]]]] = {}
        self._failure: BaseException | None = None
        self._closing = threading.Event()

    def __enter__(self) -> Results:
        self._lock.acquire()
        try:
            for name in (open_trial.FOLDER, sealed.FOLDER, checkpoints.FOLDER):
                with writing(self.folder / name):
                    (self.folder / name).mkdir(exist_ok=True)
            self._kept, self._endings = make_ready(self.folder, self.say)
            self._plans = Appender(self.folder / ledger.PLANS)
            self._outcomes = Appender(self.folder / ledger.OUTCOMES)
        except BaseException:
            self._lock.release()
            raise
        self._syncer = threading.Thread(target=self._sync_always, name="journal sync", daemon=True)
        self._syncer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._syncer.join()
        with ExitStack() as last:
            last.callback(self._lock.release)
            for appender in (*self._open.values(), self._plans, self._outcomes):
                last.callback(appender.close)
            self._open.clear()

    # What is known

    def outcomes(self) -> dict[str, Outcome]:
        """Return how each known trial ended. Trials started and not ended, even for a second time, are left out."""
        unfinished = self._unfinished()
        return {id: ending.outcome for id, ending in self._endings.items() if id not in unfinished}

    def finals(self, trial_ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return for each ended trial {"status", "step", "metrics": {name: value}}, as of the last `refresh`."""
        return projection.finals(self.folder, trial_ids)

    def plan(self, space: str) -> Mapping[str, Any]:
        """Return the document of a space's current plan; empty where there is none."""
        return self._kept.plans.get(space, ("", {}))[1]

    def give_up(self, trial_ids: Iterable[str]) -> None:
        """Mark these trials, whose specifications are kept, as unfinished, as `begin_anew` does."""
        with self._guard:
            for trial_id in sorted(trial_ids):
                self._new_segment(trial_id, self.versions)
                self._open.pop(trial_id).close()
                checkpoints.drop(self.folder, trial_id)

    def saved(self, trial_id: str) -> int:
        """Return the step of the last checkpoint of a trial that has not ended; 0 where it has none."""
        segment = open_trial.read(open_trial.path_of(self.folder, trial_id))
        return segment.marks[-1].saved.step if segment and segment.marks else 0

    def course(self, trial_id: str) -> TrialRows | None:
        """Return the rows of a trial, ended or paused, and their summaries; None where there are none."""
        if trial_id in self._unfinished():
            return trial_rows.paused(self.folder, trial_id)
        ending = self._endings.get(trial_id)
        return None if ending is None else trial_rows.ended(self.folder, ending)

    def prune(self, trial: Trial, step: int, detail: Mapping[str, Any]) -> None:
        """End a paused trial that no search continues."""
        with self._guard:
            self.begin(trial)
            self.append(trial.id, [Outcome("pruned", step, dict(detail))])

    # What is written

    def record_plan(self, plan: Plan, documents: Documents) -> None:
        """Keep a plan with its documents, and each trial's specification; repeating it has no effect."""
        document = serialise.plan_document(plan, documents)
        digest = serialise.digest(document)
        with self._guard:
            self._record_trials(plan.trials)
            if self._kept.plans.get(plan.space, ("", {}))[0] != digest:
                self._see(ledger.id_of(plan.space, document), plan.space)
                self._plans.write([ledger.plan_record(digest, document)])
                self._kept.add(plan.space, digest, document)
            self._plans.sync()

    def record_verdicts(self, document: Mapping[str, Any]) -> None:
        """Keep the verdicts of a space with a kept plan (see `verdicts`); repeating it has no effect."""
        with self._guard:
            plan, outcomes = self.plan(document["space"]), self.outcomes()
            states = {trial_id: outcomes[trial_id].kind for trial_id, *_ in plan["trials"] if trial_id in outcomes}
            marks = {"asked": serialise.digest(plan["resolved"]), "ended": verdicts.ended_digest(states)}
            verdicts.record(self.folder, {**document, **marks})

    def record_questions(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Keep judgements of questions (see `questions`), before they are shown; repeating it has no effect."""
        with self._guard:
            questions.record(self.folder, documents)

    def begin(self, trial: Trial) -> TrialStart:
        """Open a trial's segment; return where the trial continues from.

        An unfinished trial continues from its last checkpoint; what it had yielded after that is cut off and will come
        again. A trial that has ended starts over; until it ends again it counts as unfinished.
        """
        with self._guard:
            if trial.id in self._open:
                raise ValueError(f"trial {trial.id} is already open")
            self._record_trials([trial])
            self._plans.sync()
            path = open_trial.path_of(self.folder, trial.id)
            start = open_trials.go_on(self.folder, trial.id, self.say) if path.exists() else None
            if start is None:
                start = self._new_segment(trial.id, self.versions)
            else:
                self._open[trial.id] = Appender(path)
            self._starts[trial.id] = start
            self._handed_out[trial.id] = time.time()
            self._last_step[trial.id] = (-1, set())
            return start

    def begin_anew(self, trials: Iterable[Trial]) -> None:
        """Mark all of these trials as unfinished, so that they are trained again from the beginning, now or after an
        interruption; what is kept of a paused one is deleted."""
        trials = tuple(trials)
        with self._guard:
            if opened := [trial.id for trial in trials if trial.id in self._open]:
                raise ValueError(f"trial {opened[0]} is already open")
            self._record_trials(trials)
            self._plans.sync()
            self.give_up(trial.id for trial in trials)

    def append(self, trial_id: str, events: Iterable[Event]) -> None:
        """Write what a trial yields, in the order it came; an outcome seals it.

        Two rows of one (step, metric, address) are a ValueError, since their source has a bug.
        """
        pending: list[Row | Timing] = []
        for event in events:
            match event:
                case Began():
                    self._taken_up(trial_id, event)
                case Saved():
                    self._write(trial_id, pending)
                    self._mark(trial_id, event)
                    pending = []
                case Outcome():
                    self._write(trial_id, pending)
                    self.seal(trial_id, event)
                    return
                case Row() | Timing():
                    pending.append(event)
        self._write(trial_id, pending)

    def seal(self, trial_id: str, outcome: Outcome) -> None:
        """End a trial: its rows become a sealed file and its outcome is known. One that continues is only closed."""
        with self._guard:
            appender = self._open.pop(trial_id)
            del self._starts[trial_id], self._handed_out[trial_id], self._last_step[trial_id]
            try:
                if outcome.kind not in GOES_ON:
                    appender.write([open_trial.outcome_record(outcome, time.time())])
            finally:
                appender.close()
            if outcome.kind not in GOES_ON:
                self._endings[trial_id] = open_trials.finish(self.folder, trial_id, self._outcomes)

    def refresh(self) -> bool:
        """Bring `ablate.duckdb` up to date with the ended trials; return whether there was anything new.

        It costs a copy of that file, so call it when trials have ended. It blocks no reader, and no reader blocks it.
        """
        with self._guard:
            journal = Journal(
                self._kept.copy(),
                dict(self._endings),
                self._unfinished(),
                verdicts.read(self.folder),
                questions.by_space(self.folder),
            )
        with self._refreshing:
            return projection.refresh(self.folder, journal, self.say)

    # Within

    def _unfinished(self) -> dict[str, int]:
        trials = ledger.open_trials(self.folder)
        return {id: self._endings[id].attempt + 1 if id in self._endings else 1 for id in sorted(trials)}

    def _see(self, plan: str, space: str) -> None:
        """Record when a plan is first requested."""
        if space not in self._kept.plans or plan not in self._kept.every(space):
            self._plans.write([ledger.seen_record(plan, now := time.time())])
            self._kept.first_seen[plan] = now

    def _record_trials(self, trials: Iterable[Trial]) -> None:
        new = [serialise.trial_document(trial) for trial in trials if trial.id not in self._kept.trials]
        if new:
            self._plans.write(map(ledger.trial_record, new))
            self._kept.trials.update((document["trial"], document) for document in new)

    def _write(self, trial_id: str, events: list[Row | Timing]) -> None:
        with self._guard:
            if self._failure:
                raise self._failure
            for event in events:
                if isinstance(event, Row):
                    self._refuse_double(trial_id, event)
            if events:
                self._open[trial_id].write(open_trial.event_records(events))

    def _refuse_double(self, trial_id: str, row: Row) -> None:
        """Refuse a second row of one key within the current step; sealing checks all rows."""
        step, keys = self._last_step[trial_id]
        if row.step != step:
            step, keys = self._last_step[trial_id] = (row.step, set())
        if (row.metric, row.address) in keys:
            raise ValueError(f"trial {trial_id} yielded {row.metric} at {row.address!r} twice for step {step}")
        keys.add((row.metric, row.address))

    def _mark(self, trial_id: str, saved: Saved) -> None:
        """Record that a state is on the disk, and delete earlier ones."""
        with self._guard:
            appender = self._open[trial_id]
            appender.write([open_trial.checkpoint_record(saved)])
            appender.sync()
            checkpoints.drop(self.folder, trial_id, before=saved.step)

    def _taken_up(self, trial_id: str, began: Began) -> None:
        """Start trial and segment over if the worker's versions are not those of the segment."""
        with self._guard:
            start = self._starts[trial_id]
            same = began.versions == start.versions
            if start.resume and same and began.step == start.resume.step:
                return
            if start.resume:
                names = {*began.versions, *start.versions}
                differ = (name for name in names if began.versions.get(name) != start.versions.get(name))
                self.say(
                    f"trial {trial_id} was started with other versions ({', '.join(sorted(differ))}); it starts over"
                )
            self._open.pop(trial_id).close()
            self._starts[trial_id] = self._new_segment(trial_id, began.versions, self._when(trial_id, began))

    def _when(self, trial_id: str, began: Began) -> float:
        """Return when a worker began, by its own clock, since its message may have waited. Clocks of nodes differ, so
        the time is limited to between handing out the trial and now."""
        return min(max(began.at, self._handed_out[trial_id]), time.time())

    def _new_segment(self, trial_id: str, versions: Mapping[str, str], began: float | None = None) -> TrialStart:
        """Replace a trial's segment by a new one that only has its first line."""
        attempt = self._endings[trial_id].attempt + 1 if trial_id in self._endings else 1
        path = open_trial.path_of(self.folder, trial_id)
        began = time.time() if began is None else began
        write_whole(path, encode(open_trial.begin_record(Beginning(trial_id, attempt, began, versions))))
        self._open[trial_id] = Appender(path)
        return TrialStart(None, dict(versions))

    def _sync_always(self) -> None:
        """Sync every open segment at intervals. An error is raised by the next write."""
        while not self._closing.wait(SYNC_EVERY):
            with self._guard:
                try:
                    for appender in self._open.values():
                        appender.sync()
                except BaseException as failure:  # noqa: BLE001  handed to the thread that writes
                    self._failure = failure
                    return
