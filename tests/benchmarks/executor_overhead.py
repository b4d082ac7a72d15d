"""What an executor adds: 200 trials of one second each, against the time they would take if nothing else took any.

    python tests/benchmarks/executor_overhead.py --executor local --trials 200 --workers 2

Every trial is a real one (a small model, trained on text) that sleeps for most of a second, so that what the driver
does meanwhile finds a processor. The ideal is (trials × the median time of the same trials in this process, nothing
else done) / workers. The clock runs from the first ended trial, when every worker has done its imports, to the last
one's end as the store has them; starting is stated apart. One JSON line is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

import ablate
from ablate.execute.executor import Task
from ablate.execute.worker import messages
from ablate.store.machines import installed

HERE = Path(__file__).parent
SLEPT = 0.95
"""Seconds that a trial of one second sleeps; the rest is its own computing."""

FORWARDS = 10
"""Forward passes of a trial: eight steps, and an evaluation of one batch before and after them."""

SPACE = """\
space: one_second
question: What does an executor cost?
grammar: {grammar}
blocks:
  first: [residual: [sleeping_norm: {{seconds: {nap}, eps: 1e-5}}, attention], residual: [mlp]]
  second: [residual: [sleeping_norm: {{seconds: {nap}, eps: 1e-6}}, attention], residual: [mlp]]
model: {{layers: 1, width: 16, heads: 2, context: 16, embedding: {embedding}, head: untied, init: {{normal: 0.02}}}}
data: {{corpus: {{files: ["texts/**/*.txt"]}}, tokenizer: bytes, tuning: 10%, verdict: 20%}}
recipe: {{steps: 8, batch: 4, optimizer: {{adamw: {{lr: 1e-3}}}}}}
design: {{compare: [first, second]}}
seeds: {seeds}
measure: {{every: 4, probes: [kurtosis], evaluation: {{every: 100, windows: 4}}, checkpoint_every: 100}}
judge: {{against: first, metrics: {{eval_loss: {{margin: 1%}}}}}}
"""


def write_space(folder: Path, trials: int, seconds: float) -> Path:
    """The space and some texts."""
    for group in range(10):
        path = folder / "texts" / f"g{group}" / "text.txt"
        path.parent.mkdir(parents=True)
        path.write_text(f"the text of group {group} says what it says; " * 100, encoding="utf-8")
    space = folder / "one_second.yaml"
    grammar = HERE.parents[1] / "grammars" / "transformer.yaml"
    space.write_text(
        SPACE.format(
            grammar=grammar, embedding="{std: 0.02, scale: 50}", nap=SLEPT * seconds / FORWARDS, seeds=trials // 2
        ),
        encoding="utf-8",
    )
    return space


def alone(space: ablate.Space, folder: Path, plugins: tuple[Path, ...], times: int = 6) -> float:
    """Median seconds of a trial carried out in this process, warm, its messages thrown away."""
    trials = ablate.plan_space(space, results=folder).plan.trials
    seconds = []
    for trial in trials[: times + 1]:
        began = time.perf_counter()
        for message in messages(Task(trial=trial, folder=folder, plugins=plugins), lambda: False):
            assert message.trial_id == trial.id
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def main() -> None:
    """Measure one executor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", choices=["inline", "local", "ray"], default="local")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plugins = (HERE / "one_second_norm.py",)
        space = ablate.load_space(write_space(folder, asked.trials, asked.seconds), plugins=plugins)
        trial_seconds = alone(space, folder / "alone", plugins)
        began = time.time()
        done = ablate.run(
            space,
            results=folder / "results",
            executor=asked.executor,
            workers=asked.workers,
            plugins=plugins,
            console=Console(quiet=True),
            mirror=False,
        )
        clocks = ablate.query(
            "SELECT min(seconds) FILTER (name = 'began') AS first, max(seconds) FILTER (name = 'ended') AS last, "
            "(SELECT seconds FROM timings WHERE name = 'ended' ORDER BY seconds LIMIT 1) AS warm FROM timings",
            results=folder / "results",
        )
        table = clocks.iloc[0]
        # The first trial of each worker waits for its imports: what is measured begins when that is over.
        warm_trials = asked.trials - asked.workers
        seconds = float(table["last"] - table["warm"])
    ideal = warm_trials * trial_seconds / asked.workers
    print(
        json.dumps(
            {
                "benchmark": "executor_overhead",
                "date": datetime.now(UTC).date().isoformat(),
                "executor": asked.executor,
                "trials": asked.trials,
                "workers": asked.workers,
                "finished": done.ended.kinds["finished"],
                "start_seconds": round(float(table["warm"]) - began - trial_seconds, 2),
                "trial_seconds": round(trial_seconds, 4),
                "ideal_seconds": round(ideal, 2),
                "seconds": round(seconds, 2),
                "overhead": round(seconds / ideal - 1, 4),
                "versions": installed() | {"cores": str(os.cpu_count()), "machine": platform.machine()},
            }
        )
    )


if __name__ == "__main__":
    main()
