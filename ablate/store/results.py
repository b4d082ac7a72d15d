"""`Results`: a results folder open for writing, which only the driver has.

Workers write their checkpoints, their claims and the traces of hanging trials; the driver writes everything else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ablate.errors import warn
from ablate.plan.plan import Plan, Trial
from ablate.store import files, journal, measurements, projection, records, repair
from ablate.store.documents import (
    Documents,
    PlanDocument,
    Question,
    Specification,
    TableDocument,
    TableFile,
    Verdicts,
    digest,
    plan_document,
    plan_id,
    trial_document,
)
from ablate.store.durable import Appender, JsonObject, Lock, encoded_line, write_whole, writing
from ablate.store.journal import Beginning, TrialStart
from ablate.store.machines import ATTENTION, installed, of_machine, same_bits
from ablate.store.measurements import TrialRows
from ablate.store.projection import Say
from ablate.store.records import packed, plan_of
from ablate.store.repair import make_ready
from ablate.store.snapshot import Snapshot
from ablate.store.snapshot import open_trials as open_trials_of
from ablate.train.events import GOES_ON, Began, Event, Outcome, Row, Saved, Timing
from ablate.verdict.experiment import Finals

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

    def __init__(self, folder: Path, *, say: Say = warn, versions: Mapping[str, str] | None = None):
        self.folder = folder
        self.say = say
        self.versions = installed() if versions is None else dict(versions)
        self._lock = Lock(folder)
        self._guard = threading.RLock()
        self._refreshing = threading.Lock()
        self._open: dict[str, Appender] = {}
        self._specified: dict[str, Specification] = {}
        self._starts: dict[str, TrialStart] = {}
        self._last_step: dict[str, tuple[int, set[tuple[str, str]]]] = {}
        self._handed_out: dict[str, float] = {}
        self._failure: BaseException | None = None
        self._closing = threading.Event()

    def __enter__(self) -> Results:
        self._lock.acquire()
        try:
            for name in (journal.JOURNAL, files.TRIALS, journal.CHECKPOINTS):
                with writing(self.folder / name):
                    (self.folder / name).mkdir(exist_ok=True)
            make_ready(self.folder, self.say)
            now = Snapshot(self.folder)
            self._kept, self._endings = now.plans, dict(now.endings)
        except BaseException:
            self._lock.release()
            raise
        self._syncer = threading.Thread(target=self._sync_always, name="journal sync", daemon=True)
        self._syncer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.set()
        self._syncer.join()
        with ExitStack() as last:
            last.callback(self._lock.release)
            for appender in self._open.values():
                last.callback(appender.close)
            self._open.clear()

    def outcomes(self) -> dict[str, Outcome]:
        """Return how each known trial ended. Trials started and not ended, even for a second time, are left out."""
        unfinished = open_trials_of(self.folder)
        return {id: ending.outcome for id, ending in self._endings.items() if id not in unfinished}

    def finals(self, trial_ids: Collection[str]) -> Finals:
        return measurements.finals(self.folder, trial_ids)

    def plan(self, space: str) -> PlanDocument | None:
        kept = self._kept.current(space)
        return None if kept is None else kept.document

    def give_up(self, trial_ids: Iterable[str]) -> None:
        """Mark trials whose specifications are kept as unfinished, as `begin_anew` does."""
        with self._guard:
            for trial_id in sorted(trial_ids):
                self._new_segment(trial_id, self.versions)
                self._open.pop(trial_id).close()
                journal.drop_checkpoints(self.folder, trial_id)

    def saved(self, trial_id: str) -> int:
        """Return the step of the last checkpoint of a trial that has not ended; 0 where it has none."""
        segment = journal.read(journal.path_of(self.folder, trial_id))
        return segment.marks[-1].saved.step if segment and segment.marks else 0

    def course(self, trial_id: str) -> TrialRows | None:
        """The rows of a trial, ended or paused, and their summaries; None where there are none."""
        if trial_id in open_trials_of(self.folder):
            return measurements.paused_rows(self.folder, trial_id)
        return measurements.ended_rows(self.folder, trial_id) if trial_id in self._endings else None

    def prune(self, trial: Trial, step: int, detail: JsonObject) -> None:
        with self._guard:
            self.begin(trial)
            self.append(trial.id, [Outcome("pruned", step, dict(detail))])

    def record_plan(self, plan: Plan, documents: Documents) -> None:
        """Keep a plan with its documents, and each trial's specification; repeating it has no effect."""
        document = plan_document(plan, documents)
        id = plan_id(plan.space, asked=digest(documents.resolved))
        with self._guard:
            kept = self._kept.current(plan.space)
            if kept is not None and kept.digest == digest(document):
                return
            before = [each for plans in self._kept.of_space.values() for each in plans]
            first_seen = next((each.first_seen for each in before if each.id == id), time.time())
            parts: dict[int, JsonObject] = {}
            specifications = {trial.id: trial_document(trial, parts) for trial in plan.trials}
            content = {
                "plan": id,
                "first_seen": first_seen,
                "document": document,
                "specifications": packed(list(specifications.values())),
            }
            number = 1 + max((each.number for each in before), default=0)
            written = files.keep(self.folder, "plans", content, number, stem=id)  # it replaces that with fewer trials
            self._kept = self._kept.adding(plan_of(written), specifications)

    def record_judgement(self, space: str, verdicts: Verdicts | None, questions: Sequence[Question]) -> None:
        """Keep verdicts on a space's current plan and judged questions before they are shown, once."""
        with self._guard:
            kept, unfinished = self._kept.current(space), open_trials_of(self.folder)
            plan, trials = ("", ()) if kept is None else (kept.id, kept.document["trials"])
            ended = {id: self._endings[id] for id, *_ in trials if id in self._endings and id not in unfinished}
            digests = {id: ending.digest[: files.DIGITS] for id, ending in ended.items()}
            records.record_judgement(self.folder, space, plan, digests, verdicts=verdicts, judged=questions)

    def record_table(
        self, document: TableDocument, cells: bytes, verdicts: Verdicts, judged: Sequence[Question]
    ) -> None:
        """Keep a table of runs that were trained elsewhere, with the verdicts on it and the judged questions, once."""
        with self._guard:
            document = {**document, "rows": files.keep_source(self.folder, cells)}
            id = plan_id(document["space"], asked=digest(document))
            tables = Snapshot(self.folder).tables
            of_space = tables.get(document["space"], ())
            if not of_space or of_space[-1].id != id:
                first_seen = next((table.first_seen for table in of_space if table.id == id), time.time())
                number = 1 + max((table.number for of in tables.values() for table in of), default=0)
                content: TableFile = {"table": id, "first_seen": first_seen, "document": document}
                files.keep(self.folder, "tables", content, number)
            records.record_judgement(self.folder, document["space"], id, {}, verdicts=verdicts, judged=judged)

    def begin(self, trial: Trial) -> TrialStart:
        """Open a trial's segment; return where the trial continues from.

        An unfinished trial continues from its last checkpoint; what came after that is cut off. One that has ended
        starts over, and counts as unfinished until it ends again.
        """
        with self._guard:
            if trial.id in self._open:
                raise ValueError(f"trial {trial.id} is already open")
            self._specified[trial.id] = trial_document(trial)
            path = journal.path_of(self.folder, trial.id)
            start = repair.continue_trial(self.folder, trial.id, self.say) if path.exists() else None
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
            self._specified |= {trial.id: trial_document(trial) for trial in trials}
            self.give_up(trial.id for trial in trials)

    def append(self, trial_id: str, events: Iterable[Event]) -> None:
        """Write the events of a trial, in the order they came; an outcome seals it. ValueError for two rows of one
        (step, metric, address): their source has a bug."""
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
            self._specified.pop(trial_id, None)
            try:
                if outcome.kind not in GOES_ON:
                    appender.write([["outcome", outcome.kind, outcome.step, outcome.detail, time.time()]])
            finally:
                appender.close()
            if outcome.kind not in GOES_ON:
                self._endings[trial_id] = repair.finish_trial(self.folder, trial_id)

    def refresh(self) -> bool:
        """Bring `ablate.duckdb` up to date; return whether that changed it. It costs a copy, and blocks no reader."""
        with self._refreshing:
            return projection.refresh(self.folder, self.say)

    def _write(self, trial_id: str, events: list[Row | Timing]) -> None:
        with self._guard:
            if self._failure:
                raise self._failure
            for event in events:
                if isinstance(event, Row):
                    self._refuse_double(trial_id, event)
            if events:
                self._open[trial_id].write(journal.event_records(events))

    def _refuse_double(self, trial_id: str, row: Row) -> None:
        """Refuse a second row of one key within the current step; sealing checks all rows."""
        step, keys = self._last_step[trial_id]
        if row.step != step:
            step, keys = self._last_step[trial_id] = (row.step, set())
        if (row.metric, row.address) in keys:
            raise ValueError(f"trial {trial_id} yielded {row.metric} at {row.address!r} twice for step {step}")
        keys.add((row.metric, row.address))

    def _mark(self, trial_id: str, saved: Saved) -> None:
        """Record that a state is on the disk, and only then delete earlier ones."""
        with self._guard:
            appender = self._open[trial_id]
            appender.write([["checkpoint", saved.step, saved.crc, saved.size]])
            appender.sync()
            journal.drop_checkpoints(self.folder, trial_id, before=saved.step)

    def _taken_up(self, trial_id: str, began: Began) -> None:
        """Start trial and segment over if the worker's versions are not those of the segment."""
        with self._guard:
            start = self._starts[trial_id]
            same = same_bits(began.versions, start.versions)
            if start.resume and same and began.step == start.resume.step:
                return
            if start.resume:
                names = {*of_machine(began.versions), *of_machine(start.versions), ATTENTION}
                differ = (name for name in names if began.versions.get(name) != start.versions.get(name))
                self.say(
                    f"trial {trial_id} was started with other versions ({', '.join(sorted(differ))}); it starts over"
                )
            self._open.pop(trial_id).close()
            self._starts[trial_id] = self._new_segment(trial_id, began.versions, self._when(trial_id, began))

    def _when(self, trial_id: str, began: Began) -> float:
        """Return when a worker began by its own clock, between handing out and now: clocks of nodes differ."""
        return min(max(began.at, self._handed_out[trial_id]), time.time())

    def _new_segment(self, trial_id: str, versions: Mapping[str, str], began: float | None = None) -> TrialStart:
        """Replace a trial's segment by a new one that only has its first line."""
        attempt = self._endings[trial_id].attempt + 1 if trial_id in self._endings else 1
        path = journal.path_of(self.folder, trial_id)
        began = time.time() if began is None else began
        specification = self._specified.get(trial_id) or self._kept.specifications.get(trial_id)
        beginning = Beginning(trial_id, attempt, began, versions, specification)
        write_whole(path, encoded_line(journal.begin_record(beginning)))
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
