"""Run one command line of `ablate` after the other in one process: `python exits_driver.py FILE`.

FILE holds, as JSON, pairs of a terminal's name and a command line. Where the name is `PIPES`, standard output and
standard error of the K-th line go to the files `out.K` and `err.K`, else to where they went at the start. There, a line
with `MARK` stands before what each command line says; its exit code stands at the end of its standard error.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

MARK = "=====verb"
PIPES = "pipes"


def main() -> None:
    from ablate.cli import main as ablate

    pairs = json.loads(Path(sys.argv[1]).read_text())
    terminal = os.dup(1), os.dup(2)
    for number, (term, line) in enumerate(pairs):
        sys.stdout.write(f"{MARK} {number}\n")
        sys.argv, os.environ["TERM"] = ["ablate", *line], "xterm-256color" if term == PIPES else term
        if term == PIPES:
            switch(*(os.open(f"{name}.{number}", os.O_WRONLY | os.O_CREAT) for name in ("out", "err")))
        try:
            ablate()
        except SystemExit as end:
            sys.stderr.write(f"exit {end.code or 0}\n")
        switch(*map(os.dup, terminal))


def switch(out: int, err: int) -> None:
    """Let standard output and standard error go there."""
    for stream, to in ((sys.stdout, out), (sys.stderr, err)):
        stream.flush()
        os.dup2(to, stream.fileno())
        os.close(to)


if __name__ == "__main__":
    main()
