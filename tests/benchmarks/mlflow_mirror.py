"""What MLflow's mirror costs: many small trials sent as they end, then their verdicts, and the wait at the end.

    python tests/benchmarks/mlflow_mirror.py --trials 1000 --batch 50
    python tests/benchmarks/mlflow_mirror.py --trials 200 --at-end

Trials are made up (`generated_store`): the metrics and probes of op_vs_preln, measured at three steps. They are told to
the mirror in batches, as fast as it takes them; then all are judged, so that each run is told its variant's numbers,
and the run waits. Starting (importing MLflow, making its tables) is stated apart. `--at-end` sends all at once in this
process, which also works on versions that know nothing else. `load_average` is that of the machine: above its cores,
seconds are of others too, and `cpu_seconds` (with the start) say more. One JSON line is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from generated_store import Size, write

from ablate.store.machines import installed
from ablate.store.mirror import mirror
from ablate.store.query import query
from ablate.store.results import Results

SEEDS, STEPS = 5, 3
METRICS = ("eval_loss", "peak_kurtosis")


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def verdicts(space: str, variants: list[str]) -> dict[str, Any]:
    """A record of verdicts on every variant against the first."""
    effects = [
        {
            "kind": "baseline", "metric": metric, "change": after, "before": variants[0], "after": after, "n": SEEDS,
            "estimate": -0.1, "low": -0.2, "high": -0.01, "sd": 0.1, "p": 0.01, "p_adjusted": 0.02, "scale": "log",
            "margin": None, "verdict": "better", "differs": False, "seeds_needed": None, "note": "", "terms": "",
            "q": 0.01, "p_equivalent": None, "p_equivalent_adjusted": None, "method": "student", "df": 4.0,
        }
        for metric in METRICS
        for after in variants[1:]
    ]  # fmt: skip
    metrics = [
        {"name": name, "scale": "log", "better": "lower", "margin": None, "stated": "", "why_no_margin": ""}
        for name in METRICS
    ]
    return {"space": space, "seeds": [0], "confidence": 0.95, "metrics": metrics, "effects": effects}


def at_end(folder: Path) -> dict[str, float]:
    """All at once, in this process."""
    import mlflow  # noqa: F401  apart

    began, used = time.perf_counter(), cpu_seconds()
    sent = mirror(folder)
    return {"sent": sent.sent, "seconds": time.perf_counter() - began, "cpu_seconds": cpu_seconds() - used}


def as_they_end(store: Results, batch: int) -> dict[str, float]:
    """In batches, by the mirror's own process; `waited` is what the end of a run waits for after the last batch."""
    from ablate.session.mirroring import Mirroring

    rows = query(store.folder, "SELECT space, variant_id, trial_id FROM memberships ORDER BY ALL").rows
    (space,), trials = {row[0] for row in rows}, [row[2] for row in rows]
    with Mirroring(store, space, None) as mirroring:
        began, used = time.perf_counter(), cpu_seconds()
        mirroring.send_now(trials[:1])
        started, start = time.perf_counter(), time.perf_counter() - began
        for first in range(1, len(trials), batch):
            mirroring.send_now(trials[first : first + batch])
        seconds = time.perf_counter() - started
        store.record_judgement(space, verdicts(space, sorted({row[1] for row in rows})), [])
        store.refresh()
        began = time.perf_counter()
        sent = mirroring.finish({space: {"verdicts.md": "| verdict |\n|---|\n"}}, print)
        waited = time.perf_counter() - began
    return {
        "sent": sent.sent,
        "start_seconds": start,
        "seconds": seconds + waited,
        "waited_seconds": waited,
        "cpu_seconds": cpu_seconds() - used,
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--at-end", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, Size(trials=asked.trials, steps=STEPS, variants=asked.trials // SEEDS, seeds=SEEDS))
        with Results(folder, say=print) as store:
            store.refresh()
            took = at_end(folder) if asked.at_end else as_they_end(store, asked.batch)
    print(
        json.dumps(
            {
                "benchmark": "mlflow_mirror",
                "date": datetime.now(UTC).date().isoformat(),
                "device": "cpu",
                "mode": "at end" if asked.at_end else "as trials end",
                "trials": asked.trials,
                "batch": None if asked.at_end else asked.batch,
                **{name: round(value, 2) for name, value in took.items()},
                "load_average": round(os.getloadavg()[0], 1),
                "seconds_a_trial": round(took["seconds"] / asked.trials, 4),
                "versions": installed() | {"cores": str(os.cpu_count()), "machine": platform.machine()},
            }
        )
    )


if __name__ == "__main__":
    main()
