"""What an open DuckDB reader costs a run: the same run with a second process holding the database, and without.

    python tests/benchmarks/open_reader.py --rounds 3

In each round two runs, one of each kind, over a results folder that holds one run already; the reader opens the file
before the run begins, asks it twice a second, and lets go after the run's end. One JSON line is printed: the ratio of
the medians.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path

from executor_overhead import write_space
from rich.console import Console

import ablate
from ablate.store.machines import installed

HERE = Path(__file__).parent
PLUGINS = (HERE / "one_second_norm.py",)


def hold(path: Path, held: Event, over: Event) -> None:
    """Keep one read-only connection open, and ask it."""
    import duckdb

    with duckdb.connect(str(path), read_only=True) as connection:
        held.set()
        while not over.wait(0.5):
            connection.execute("SELECT count(*) FROM metrics").fetchone()


def seconds_of(folder: Path, space: Path, seeds: int) -> float:
    """How long a run of what is new takes."""
    loaded = ablate.load_space(space, settings=[f"seeds={seeds}"], plugins=PLUGINS)
    began = time.perf_counter()
    done = ablate.run(loaded, results=folder, workers=2, plugins=PLUGINS, console=Console(quiet=True), mirror=False)
    assert done.ended.kinds == {"finished": 10}, done.ended.kinds
    return time.perf_counter() - began


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    context = multiprocessing.get_context("spawn")
    alone, read = [], []
    with tempfile.TemporaryDirectory() as name:
        space = write_space(Path(name), trials=10, seconds=1.0)
        folder, seeds = Path(name) / "results", 5
        seconds_of(folder, space, seeds)
        for _ in range(rounds):
            seeds += 5
            alone.append(seconds_of(folder, space, seeds))
            held, over = context.Event(), context.Event()
            reader = context.Process(target=hold, args=(folder / "ablate.duckdb", held, over))
            reader.start()
            assert held.wait(60)
            seeds += 5
            read.append(seconds_of(folder, space, seeds))
            assert reader.is_alive()
            over.set()
            reader.join()
            assert reader.exitcode == 0
    print(
        json.dumps(
            {
                "benchmark": "open_reader",
                "date": datetime.now(UTC).date().isoformat(),
                "rounds": rounds,
                "seconds_alone": [round(s, 2) for s in alone],
                "seconds_with_reader": [round(s, 2) for s in read],
                "ratio_of_medians": round(statistics.median(read) / statistics.median(alone), 4),
                "versions": installed() | {"cores": str(os.cpu_count())},
            }
        )
    )


if __name__ == "__main__":
    main()
