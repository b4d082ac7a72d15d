"""How long the store takes for what every command asks of it, in a small and in a large results folder.

    python tests/benchmarks/store_scale.py trials /tmp/scale          # 500 and 20,000 trials of 850 rows
    python tests/benchmarks/store_scale.py rows /tmp/scale            # 2,000 trials of 50,000 rows: 10^8 rows
    python tests/benchmarks/store_scale.py tenths /tmp/scale          # each task at full size and at a tenth of it

Folders are generated once and kept. Every figure is the best of three processes of its own, without their imports.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy

import ablate
from ablate.store import journal
from ablate.store.measurements import trial_seconds
from ablate.store.query import query
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot, standings
from ablate.train.events import Outcome, Row

sys.path.insert(0, str(Path(__file__).parent))
from generated_store import SPACE, Size, keep_plan, real_documents, space_of, write

WORLDS: Mapping[str, Mapping[str, Size]] = {
    "trials": {"small": Size(500, 9), "large": Size(20_000, 9)},
    "rows": {"rows": Size(2_000, 532)},
}


def one_more_trial(folder: Path) -> None:
    """Seal a trial of the shipped space that the folder does not have, then refresh."""
    with Results(folder, say=print) as results:
        known = results.outcomes()
        trial = next(trial for trial in ablate.check(ablate.load_space(SPACE)).trials if trial.id not in known)
        results.begin(trial)
        rows = [Row(step, "train_loss", "", 2.0) for step in range(100)]
        results.append(trial.id, [*rows, Outcome("finished", 100)])
        started = time.perf_counter()
        results.refresh()
        print(f"  refresh itself {time.perf_counter() - started:.2f} s", file=sys.stderr)


def start_of_a_run(folder: Path) -> None:
    """What `run` does before its first trial: open the folder, plan, and look for what is known."""
    with Results(folder, say=print) as results:
        plan(folder)
        results.outcomes()


def plan(folder: Path) -> None:
    """What `plan` asks of a store."""
    Snapshot(folder).outcomes()
    trial_seconds(folder, ablate.check(ablate.load_space(SPACE)).trials[0])


def enter(folder: Path) -> None:
    with Results(folder, say=print):
        pass


def refresh(folder: Path) -> None:
    with Results(folder, say=print) as results:
        results.refresh()


def asking(sql: str) -> Callable[[Path], None]:
    return lambda folder: print(len(query(folder, sql).rows), file=sys.stderr)


def while_it_runs(sql: str) -> Callable[[Path], None]:
    """Ask while a trial of the shipped space runs, with 5,000 rows so far. Its segment is deleted afterwards."""

    def ask(folder: Path) -> None:
        with Results(folder, say=print) as results:
            trial = ablate.check(ablate.load_space(SPACE)).trials[-1]
            results.begin(trial)
            results.append(trial.id, [Row(step, "train_loss", "", 2.0) for step in range(5000)])
            started = time.perf_counter()
            query(folder, sql)
            print(f"  the question itself {time.perf_counter() - started:.2f} s", file=sys.stderr)
        journal.path_of(folder, trial.id).unlink()

    return ask


CASES: Mapping[str, Callable[[Path], None]] = {
    "known_outcomes": lambda folder: print(len(Snapshot(folder).outcomes()), file=sys.stderr),
    "plan: its part of the store": plan,
    "open the folder for writing": enter,
    "the start of a run": start_of_a_run,
    "refresh, nothing new": refresh,
    "one more trial, and refresh": one_more_trial,
    "sql: SELECT 1": asking("SELECT 1"),
    "sql: leaderboard": asking("SELECT * FROM leaderboard"),
    "sql: leaderboard of a space": asking("SELECT * FROM leaderboard WHERE space = 'space_0001'"),
    "sql: final": asking("SELECT * FROM final"),
    "sql: leaderboard, while a trial runs": while_it_runs("SELECT * FROM leaderboard"),
    "sql: pairs": asking("SELECT * FROM pairs"),
    "sql: loss curves of a space": asking(
        "SELECT * FROM curves WHERE space = 'space_0001' AND metric = 'train_loss' AND address = ''"
    ),
    "sql: metrics of a trial": asking(
        "SELECT * FROM metrics WHERE trial_id = (SELECT min(trial_id) FROM trials WHERE digest IS NOT NULL)"
    ),
    "sql: a million rows": asking("SELECT * FROM metrics LIMIT 1000000"),
}


# Tasks at full size and at a tenth


TINY = """
space: tiny
question: How long do so many trials take?
grammar: transformer
model: {layers: 1, width: 8, heads: 1, context: 8}
data: {corpus: python_stdlib, tokenizer: bytes}
recipe: {steps: 1, batch: 1, optimizer: {adamw: {lr: 1e-2}}}
design: {compare: [pre_ln, op]}
measure: {every: 1, probes: [], evaluation: {every: 1, windows: 1}}
judge: {against: pre_ln, metrics: {eval_loss: {margin: 1%}}}
"""


def run_tiny_trials(folder: Path, trials: int) -> float:
    """Run a space of two variants from nothing to its verdicts, in this process."""
    path = folder / "tiny.yaml"
    path.write_text(f"{TINY}seeds: {trials // 2}\n", encoding="utf-8")
    return timed(
        lambda: ablate.run(ablate.load_space(path), results=folder / "results", executor="inline", mirror=False)
    )


def read_rows(folder: Path, rows: int) -> float:
    """Fill the DuckDB file from sealed trials of 50,000 rows, and ask for the leaderboard and all final numbers."""
    size = Size(max(rows // 50_000, 10), 532, variants=10, seeds=max(rows // 500_000, 1))
    write(folder, size)

    def read() -> None:
        refresh(folder)
        for view in ("leaderboard", "final"):
            query(folder, f"SELECT * FROM {view}")

    return timed(read)


def keep_a_plan(folder: Path, trials: int) -> float:
    """Keep a plan of one space, read it as `status` does, and fill the DuckDB file with it."""
    specification, document = real_documents()
    plan, specifications = space_of(0, Size(trials, 0, variants=trials // 10, seeds=10), specification, document)
    (folder / "plans").mkdir(parents=True)

    def keep() -> None:
        keep_plan(folder, plan, specifications, 0)
        standings(Snapshot(folder))
        refresh(folder)

    return timed(keep)


def judge_rows(folder: Path, rows: int) -> float:
    """Judge a table of ten variants as a CSV file."""
    table, random = folder / "runs.csv", numpy.random.default_rng(0)
    losses = random.normal(3, 0.1, (rows // 10, 10)) + numpy.arange(10) / 1e3
    runs = ((variant, seed, loss) for seed, of in enumerate(losses.tolist()) for variant, loss in enumerate(of))
    lines = (f"v{variant},{seed},{loss!r}" for variant, seed, loss in runs)
    table.write_text("\n".join(["variant,seed,loss", *lines]), encoding="utf-8")
    return timed(lambda: ablate.judge(table, metrics="loss", margin="1%"))


TENTHS: Mapping[str, tuple[Callable[[Path, int], float], int]] = {
    "run tiny trials": (run_tiny_trials, 1_000),
    "read rows": (read_rows, 10**7),
    "keep a plan of trials": (keep_a_plan, 30_000),
    "judge rows": (judge_rows, 10**6),
}
"""Each task with its full size. It may take twelve times as long as a tenth of that."""
AT_MOST = 12


def timed(task: Callable[[], object]) -> float:
    """Seconds that a task takes."""
    started = time.perf_counter()
    task()
    return time.perf_counter() - started


def tenths(place: Path, only: str | None) -> None:
    """Print how long each task takes at full size and at a tenth, each the best of two processes, and the ratio."""
    for name, (_, full) in TENTHS.items():
        if only is not None and only not in name:
            continue
        seconds = {size: min(_alone(place, name, size) for _ in range(2)) for size in (full // 10, full)}
        ratio = seconds[full] / seconds[full // 10]
        verdict = "holds" if ratio <= AT_MOST else f"more than {AT_MOST}"
        print(
            f"{name:24} {full // 10:>9,}: {seconds[full // 10]:8.2f} s   {full:>10,}: {seconds[full]:8.2f} s   "
            f"× {ratio:5.2f} ({verdict})",
            flush=True,
        )


def _alone(place: Path, name: str, size: int) -> float:
    """Return the seconds that a task takes in a process and a folder of its own, without imports and preparation."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        command = [sys.executable, __file__, "tenth", folder, "--case", name, "--size", str(size)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    return float(done.stdout.split()[-1])


def measure(name: str, folder: Path) -> str:
    """Seconds and peak memory of a case in a process of its own, the best of three."""
    command = [sys.executable, __file__, "one", str(folder), "--case", name]
    figures = []
    for _ in range(3):
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
        figures.append(tuple(map(float, done.stdout.split()[-2:])))
    seconds, memory = min(figures)
    return f"{seconds:8.3f} s {memory:7.0f} MiB"


def main() -> None:
    """Generate what is not there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*WORLDS, "tenths", "one", "tenth"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--case", help="only the cases with this in their name")
    parser.add_argument("--size", type=int, default=0, help="of the case, for one process")
    given = parser.parse_args()
    if given.what == "tenths":
        tenths(given.folder, given.case)
        return
    if given.what == "tenth":
        print(TENTHS[given.case][0](given.folder, given.size))
        return
    if given.what == "one":
        started = time.perf_counter()
        CASES[given.case](given.folder)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(time.perf_counter() - started, memory)
        return
    for name, size in WORLDS[given.what].items():
        folder = given.folder / name
        if not folder.exists():
            write(folder, size)
        database = folder / "ablate.duckdb"
        if not database.exists():
            started = time.perf_counter()
            subprocess.run([sys.executable, __file__, "one", str(folder), "--case", "refresh, nothing new"], check=True)
            print(f"{name}: filled from nothing in {time.perf_counter() - started:.1f} s")
        print(f"{name}: {size.trials} trials, ablate.duckdb {database.stat().st_size / 1e6:.0f} MB")
        for case in CASES:
            if given.case is None or given.case in case:
                print(f"  {case:38} {measure(case, folder)}", flush=True)


if __name__ == "__main__":
    main()
