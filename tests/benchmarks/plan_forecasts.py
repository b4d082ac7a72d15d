"""What forecasts add to the plan of a space, over what its planning takes without them.

    python tests/benchmarks/plan_forecasts.py --times 3
    python tests/benchmarks/plan_forecasts.py --times 3 --spaces danger skipless

Processor time of `plan_space`, in a process of its own each time, with forecasts and without, in turns; the corpora
were read before. `ratio` is of a process that has planned other spaces, so that it has loaded what all plans need: what
forecasts of the variants add over what planning them takes. `alone` is of a process that has planned nothing, which
loads the theory as well: what `ablate plan` adds. A line is printed for each space: seconds (medians) and the medians
of the ratios of pairs.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import ablate
from ablate.session.planning import plan_space
from ablate.store.machines import installed

SPACES = Path(__file__).resolve().parents[2] / "spaces"
BEFORE = ("op_vs_preln", "masked_words", "mlp_gain", "sas_p_fair")
"""The spaces that are planned before, but for the one that is measured."""


def planned(name: str, results: Path, forecasts: Literal["none", "quick"]) -> tuple[float, int, int]:
    """Plan a space; return the processor time, its variants and how many of them are forecast."""
    space = ablate.load_space(SPACES / f"{name}.yaml")
    gc.collect()
    gc.freeze()  # else some plan pays for what others have left behind
    start = time.process_time()
    found = plan_space(space, results=results, forecasts=forecasts, fresh=True).plan
    seconds = time.process_time() - start
    return seconds, len(found.variants), sum(not each.refused for _, each in found.forecasts)


def in_a_process(name: str, results: Path, forecasts: str, *, alone: bool) -> tuple[float, int, int]:
    """Plan a space in a process of its own."""
    command = [sys.executable, __file__, "--of", name, "--results", str(results), "--forecasts", forecasts]
    done = subprocess.run([*command, *(["--alone"] if alone else [])], capture_output=True, text=True, check=True)
    return tuple(json.loads(done.stdout))


def added(name: str, results: Path, times: int, *, alone: bool) -> tuple[float, float, float, int, int]:
    """Return the seconds of planning and what forecasts add, the median ratio, the variants and the forecasts."""
    pairs = []
    for _ in range(times):
        without = in_a_process(name, results, "none", alone=alone)
        pairs.append((without[0], in_a_process(name, results, "quick", alone=alone)))
    more = statistics.median(made[0] - without for without, made in pairs)
    ratio = statistics.median(made[0] / without - 1 for without, made in pairs)
    return statistics.median(without for without, _ in pairs), more, ratio, *pairs[0][1][1:]


def main() -> None:
    """Measure some spaces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--spaces", nargs="+", default=sorted(path.stem for path in SPACES.glob("*.yaml")))
    parser.add_argument("--of")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--forecasts", choices=["none", "quick"])
    parser.add_argument("--alone", action="store_true")
    asked = parser.parse_args()
    if asked.of:
        for other in () if asked.alone else BEFORE:
            if other != asked.of:
                planned(other, asked.results, "quick")
        print(json.dumps(planned(asked.of, asked.results, asked.forecasts)))
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # else idle threads count as work
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        for other in BEFORE:
            planned(other, results, "quick")
        for name in asked.spaces:
            planned(name, results, "quick")
            warm, alone = (added(name, results, asked.times, alone=alone) for alone in (False, True))
            line = {
                "benchmark": "plan_forecasts",
                "date": datetime.now(UTC).date().isoformat(),
                "device": "cpu",
                "space": name,
                "variants": warm[3],
                "forecast": warm[4],
                "seconds": {"planning": round(warm[0], 3), "added": round(warm[1], 3)},
                "ratio": round(warm[2], 2),
                "alone": {"planning": round(alone[0], 3), "added": round(alone[1], 3), "ratio": round(alone[2], 2)},
                "times": asked.times,
                "versions": installed() | {"cores": str(os.cpu_count()), "machine": platform.machine()},
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
