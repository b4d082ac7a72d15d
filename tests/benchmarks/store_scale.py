"""How long the store takes for what every command asks of it, in a small and in a large results folder.

    python tests/benchmarks/store_scale.py trials /tmp/scale          # 500 and 20,000 trials of 850 rows
    python tests/benchmarks/store_scale.py rows /tmp/scale            # 2,000 trials of 50,000 rows: 10^8 rows

Folders are generated once and kept. Every figure is the best of three processes of its own, without their imports.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import ablate
from ablate.store import ledger, open_trial
from ablate.store.query import query
from ablate.store.results import Results
from ablate.store.trial_duration import trial_seconds
from ablate.train.events import Outcome, Row

sys.path.insert(0, str(Path(__file__).parent))
from generated_store import SPACE, Size, write

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
    ledger.known_outcomes(folder)
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
        open_trial.path_of(folder, trial.id).unlink()

    return ask


CASES: Mapping[str, Callable[[Path], None]] = {
    "known_outcomes": lambda folder: print(len(ledger.known_outcomes(folder)), file=sys.stderr),
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
    parser.add_argument("what", choices=[*WORLDS, "one"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--case", help="only the cases with this in their name")
    given = parser.parse_args()
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
