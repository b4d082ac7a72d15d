"""A process that runs cases: `python fuzz_worker.py RECORD FIRST COUNT SEED`, or `… RECORD FILE` for those of a file.

RECORD says which case is at work, so that whoever started this knows what was at work when it ended; a line of JSON
on standard output is a case that failed, or the count of what all came to. A case that takes more than LIMIT ends
this process, and says where it was: by a signal that faulthandler answers in C, which no loop in an extension holds up.
The limit is of processor time, so that a busy machine finds nothing that is not there; what waits ends after PATIENCE.
"""

from __future__ import annotations

import collections
import faulthandler
import json
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "fuzz"), str(TESTS / "support")]

from fuzz_cases import Case, case, case_of  # noqa: E402

LIMIT = 5.0
"""Seconds of processor time that a case may take."""
PATIENCE = 120.0
"""Seconds that it may take on the clock."""
MEMORY = 6 << 30
"""Bytes of address space that this process may have."""


def main(record: str, *words: str) -> None:
    """Run the cases, and say what failed."""
    from fuzz_targets import Failed, attempt, world

    faulthandler.register(signal.SIGPROF, chain=True)  # which then ends the process, as it does by default
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counts: collections.Counter[str] = collections.Counter()
    slowest = (0.0, 0)
    with tempfile.TemporaryDirectory() as folder:
        record_path = Path(record).resolve()
        cases = list(_given(words)) if len(words) == 1 else _numbered(*map(int, words))
        world(Path(folder))
        out = sys.stdout
        with record_path.open("r+b", buffering=0) as at:
            for number, one in cases:
                at.seek(0)
                at.write(f"{number:>12}".encode())
                faulthandler.dump_traceback_later(PATIENCE, exit=True)
                signal.setitimer(signal.ITIMER_PROF, LIMIT)
                began = time.process_time()
                try:
                    counts[f"{one.target} {attempt(one)}"] += 1
                except Failed as failed:
                    counts[f"{one.target} failed"] += 1
                    print(json.dumps({"number": number, "case": one.line(), "why": str(failed)}), file=out, flush=True)
                slowest = max(slowest, (time.process_time() - began, number))
                signal.setitimer(signal.ITIMER_PROF, 0)
                faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"counts": counts, "slowest": slowest}), flush=True)


def _numbered(first: int, count: int, seed: int) -> Iterator[tuple[int, Case]]:
    return ((number, case(number, seed)) for number in range(first, first + count))


def _given(words: tuple[str, ...]) -> Iterator[tuple[int, Case]]:
    return enumerate(case_of(line) for line in Path(words[0]).read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main(*sys.argv[1:])
