"""A folder as a killed driver leaves it at each durable step, harmed, and what is true of it by its files alone.

Nothing here reads with `ablate.store`: sealed files are read with pyarrow, documents and lines as JSON.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from attacks import FILES, asked, judge_elsewhere
from store_fixtures import RULES, course, diverged, opened, plan, state_of

from ablate.errors import InputError, RefusedError
from ablate.plan.plan import Plan
from ablate.session.judging import judged
from ablate.store import journal, measurements, snapshot
from ablate.store.durable import UNFINISHED, Appender, encoded_line
from ablate.store.query import asking
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.train.events import Checkpoint, Event

IDS = [one.id for one in plan().trials]
HARMS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
}
ANY = FILES | {"segment": "journal/*.jsonl", "checkpoint": "checkpoints/*.pt", "sealed": "trials/*.parquet"}
"""The files of each kind."""


@dataclass(frozen=True)
class Left:
    """A folder as it is just before a durable step: what is done in that, and to a file of which kind."""

    folder: Path
    step: str

    def files(self, kind: str) -> list[Path]:
        """Its files of a kind."""
        return sorted(path for path in self.folder.glob(ANY[kind]) if UNFINISHED not in path.name)


def left_behind(place: Path) -> list[Left]:
    """Run a plan of one seed, then of two, then a trial once more, and judge a table; a copy of the folder before every
    durable step, and in the middle of each appended line."""
    left: list[Left] = []
    folder = place / "results"

    def before(what: str, path: Path) -> Path:
        copy = place / f"{len(left):03d}"
        shutil.copytree(folder, copy)
        left.append(Left(copy, f"{what} {_kind(path.relative_to(folder))}"))
        return copy / path.relative_to(folder)

    with pytest.MonkeyPatch.context() as patch:
        _patch(patch, folder, before)
        _fill(folder)
    before("end", folder / "the end")
    return left


def _patch(patch: pytest.MonkeyPatch, folder: Path, before: Callable[[str, Path], Path]) -> None:
    put, unlink, write = Path.replace, Path.unlink, Appender.write

    def replacing(self: Path, target: Path) -> Path:
        before("put", target)
        return put(self, target)

    def unlinking(self: Path, missing_ok: bool = False) -> None:
        if folder in self.parents and self.exists():
            before("delete", self)
        unlink(self, missing_ok=missing_ok)

    def writing(self: Appender, records: Any) -> None:
        records = list(records)
        before("append to", self.path)
        half = before("append half to", self.path)
        content = b"".join(map(encoded_line, records))
        with half.open("ab") as file:
            file.write(content[: len(content) // 2])
        write(self, records)

    patch.setattr(Path, "replace", replacing)
    patch.setattr(Path, "unlink", unlinking)
    patch.setattr(Appender, "write", writing)


def _fill(folder: Path) -> None:
    with warnings.catch_warnings(action="ignore"), opened(folder) as results:
        for seeds in ((0,), (0, 1)):
            asked(results, plan(seeds))
            for one in plan(seeds).trials:
                if one.id not in results.outcomes():
                    _train(results, one.id, diverged(one.id) if one.id == "c30001" else course(one.id), plan(seeds))
            results.refresh()
            judged(plan(seeds), RULES, results)
        _train(results, "a10000", [*course("a10000")[3:]], plan())
        judged(plan(), RULES, results)
    judge_elsewhere(folder)
    with opened(folder) as results:
        results.refresh()


def _train(results: Results, id: str, events: list[Event], of: Plan) -> None:
    results.begin(next(one for one in of.trials if one.id == id))
    journal.write_checkpoint(results.folder, id, Checkpoint(20, state_of(id)))
    results.append(id, events)


def _kind(path: Path) -> str:
    return next((kind for kind, pattern in ANY.items() if path.match(pattern)), path.name)


# What is true of a folder


@dataclass(frozen=True)
class Truth:
    """What the files of a folder say: ended trials with their rows, the trials of its current plan, its verdicts.

    `lost` are the names of files that were kept once, by the witness or by a judgement, and are gone or harmed; a plan
    that has a later file is not among them.
    """

    ended: dict[str, str]
    rows: dict[str, dict[tuple[int, str, str], float]]
    again: set[str]
    open: set[str]
    planned: list[tuple[str, str, int]]
    verdicts: list[dict[str, Any]]
    judged: set[str]
    lost: set[str]

    @property
    def known(self) -> dict[str, str]:
        """How trials have ended that were not begun once more."""
        return {id: kind for id, kind in self.ended.items() if id not in self.again}

    def number(self, id: str, metric: str) -> float | None:
        """The last number of a trial that has no address."""
        found = {step: value for (step, name, at), value in self.rows[id].items() if name == metric and not at}
        return found[max(found)] if found else None


def truth_of(folder: Path, harmed: Path | None = None) -> Truth:
    """Read a folder, all but the file that was harmed."""
    ended, rows, attempts = {}, {}, {}
    for path in set(folder.glob("trials/*.parquet")) - {harmed}:
        table = pyarrow.parquet.read_table(path)
        ending = json.loads(table.schema.metadata[b"ablate"])
        ended[path.stem], attempts[path.stem] = ending["kind"], ending["attempt"]
        of_trial = [row for row in table.to_pylist() if row["kind"] == "row"]
        rows[path.stem] = {(row["step"], row["metric"], row["address"]): row["value"] for row in of_trial}
    begun = {path.stem: _lines(path)[:1] for path in folder.glob("journal/*.jsonl")}
    again = {id for id, head in begun.items() if head and head[0][1]["attempt"] > attempts.get(id, math.inf)}
    plans = _documents(folder, "plans", harmed)
    judgements = [one for one in _documents(folder, "verdicts", harmed) if one["verdicts"] and one["space"] == "small"]
    latest = judgements[-1] if judgements else {"trials": {}, "verdicts": {"effects": []}}
    listed: set[str] = set()
    for word, content in _lines(folder / "witness.jsonl"):
        listed = listed | {content["name"]} if word == "written" else listed - {content["name"]}
    listed |= {f"trials/{id}.parquet" for id in latest["trials"] if id not in begun}
    lost = {name for name in listed if not (folder / name).exists() or folder / name == harmed}
    grown = {path.name.partition(".")[0] for path in folder.glob("plans/*") if f"plans/{path.name}" not in listed}
    lost -= {name for name in lost if name.removeprefix("plans/").partition(".")[0] in grown}  # it was replaced
    return Truth(
        ended=ended,
        rows=rows,
        again=again,
        open=set(begun),
        planned=[tuple(each) for each in plans[-1]["document"]["trials"]] if plans else [],
        verdicts=latest["verdicts"]["effects"],
        judged=set(latest["trials"]),
        lost=lost,
    )


def _lines(path: Path) -> list[Any]:
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError):  # half a line
            found.append(json.loads(line[9:]))
    return found


def _documents(folder: Path, kind: str, harmed: Path | None) -> list[dict[str, Any]]:
    whole = (json.loads(path.read_bytes()) for path in set(folder.glob(f"{kind}/*.json")) - {harmed})
    return sorted(whole, key=lambda content: content["number"])


# What its readers say


class Silent(AssertionError):
    """A reader neither agreed with the files nor said what is missing."""


def status(folder: Path, truth: Truth, say: Callable[[str], None]) -> None:
    """The status of every trial."""
    for name, fault in Snapshot(folder).lost.items():
        say(f"lost: {name} {fault}")
    for one in snapshot.standings(Snapshot(folder)):
        if one.trial_id in truth.known:
            assert one.state == truth.known[one.trial_id], one
        else:
            assert one.state not in ("finished", "diverged"), one
        if f"trials/{one.trial_id}.parquet" in truth.lost - {f"trials/{id}.parquet" for id in truth.open}:
            assert one.state in ("missing", "damaged"), one


def sql(folder: Path, truth: Truth, say: Callable[[str], None]) -> None:
    """Trials, their rows, and the means over seeds."""
    with asking(folder, say=say) as ask:
        states = dict(ask("SELECT trial_id, status FROM trials", {}).rows)
        metrics = ask("SELECT trial_id, step, metric, address, value FROM metrics", {}).rows
        counts = "n, finished, diverged, failed, pruned, unfinished"
        board = ask(
            f"SELECT variant_id, {counts}, eval_loss_mean FROM leaderboard WHERE current AND space = 'small'", {}
        )
    assert {id: state for id, state in states.items() if state in ("finished", "diverged")} == truth.known
    found: dict[str, dict[Any, float]] = {}
    for id, *key, value in metrics:
        found.setdefault(id, {})[tuple(key)] = value
    for id in truth.known:
        assert _same(found.get(id, {}), truth.rows[id]), id
    assert found.keys() <= truth.known.keys() | truth.open, "no rows of what is gone"
    assert truth.planned == [] or board.rows != (), "variants are of a plan that is there"
    for variant, n, finished, *others, mean in board.rows:
        ids = [id for id, of, _ in truth.planned if of == variant and truth.known.get(id) == "finished"]
        assert (n, finished) == (sum(of == variant for _, of, _ in truth.planned), len(ids))
        assert sum((finished, *others)) == n, "each trial is counted once"
        expected = statistics.fmean(truth.number(id, "eval_loss") for id in ids) if ids else None
        assert mean == expected or math.isclose(mean, expected, rel_tol=1e-12)


def verdicts(folder: Path, truth: Truth, say: Callable[[str], None]) -> None:
    """The verdicts: those that were given, which are of the sealed numbers."""
    with asking(folder, say=say) as ask:
        of_small = "WHERE current AND space = 'small' ORDER BY position"
        rows = ask(f"SELECT before_id, after_id, n, estimate FROM judged {of_small}", {}).rows
    if truth.planned:  # the verdicts of a plan are shown with it
        given = [(one["before"], one["after"], one["n"], one["estimate"]) for one in truth.verdicts]
        assert [row[2] for row in rows] == [each[2] for each in given]
    finished = [id for id in truth.judged if truth.known.get(id) == "finished"]
    seeds = {(of, seed): id for id, of, seed in truth.planned if id in finished}
    if truth.judged <= truth.known.keys():
        for before, after, n, estimate in rows:
            pairs = [(seeds[before, s], seeds[after, s]) for s in (0, 1) if {(before, s), (after, s)} <= seeds.keys()]
            assert n == len(pairs)
            differences = [truth.number(b, "eval_loss") - truth.number(a, "eval_loss") for a, b in pairs]
            assert not pairs or math.isclose(estimate, statistics.fmean(differences), rel_tol=1e-9)


def finals(folder: Path, truth: Truth, say: Callable[[str], None]) -> None:
    """The numbers that pages are written from."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = measurements.finals(folder, IDS)
    for one in told:
        say(str(one.message))
    assert {id: final["status"] for id, final in found.items()} == truth.known
    for id, final in found.items():
        assert final["metrics"].get("eval_loss") == truth.number(id, "eval_loss"), id


def python(folder: Path, truth: Truth, say: Callable[[str], None]) -> None:
    """The folder as code sees it."""
    now = Snapshot(folder)
    assert {id: ending.outcome.kind for id, ending in now.endings.items()} == truth.ended
    assert now.outcomes().keys() == truth.ended.keys() - truth.open
    assert {id for id, *_ in (now.plans.every_current.get("small") or {"trials": ()})["trials"]} == {
        id for id, *_ in truth.planned
    }
    for id in truth.ended:
        assert now.specification(id)["trial"] == id, "a trial has its specification with it"
    for name, fault in now.lost.items():
        say(f"lost: {name} {fault}")


READERS = {reader.__name__: reader for reader in (status, sql, verdicts, finals, python)}


def agrees(reader: str, folder: Path, harmed: Path | None = None) -> None:
    """Let a reader read; it says what is missing, and agrees with the files in everything else."""
    truth, said = truth_of(folder, harmed), list[str]()
    try:
        READERS[reader](folder, truth, said.append)
    except (InputError, RefusedError) as refused:
        named = harmed is not None and harmed.name in str(refused)
        nothing = not truth.planned and not truth.lost and "no results in" in str(refused)
        if not (named or nothing):
            raise Silent(f"{reader}: {refused}") from refused
        return
    for name in truth.lost:
        if not any(name in one for one in said):
            raise Silent(f"{reader} does not say that {name} is lost, but {said}")


@contextmanager
def harmed(left: Left, place: Path, kind: str, harm: str, which: int = 0) -> Iterator[tuple[Path, Path]]:
    """A copy of a folder, and the file of a kind in it that is harmed."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(left.folder, place)
    there = replace(left, folder=place).files(kind)
    path = there[which % len(there)]
    HARMS[harm](path)
    yield place, path


def _same(one: dict[Any, float], other: dict[Any, float]) -> bool:
    return {key: repr(value) for key, value in one.items()} == {key: repr(value) for key, value in other.items()}
