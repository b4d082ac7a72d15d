"""A Python process on this machine that runs a module of ablate, and never the user's own `__main__`.

`multiprocessing` would run the user's file again in each process (with whatever it trains), and does not work for a
script from standard input. This runs `python -c` with a fixed text: the module is imported with this process's
`sys.path`, so what can be imported here can be imported there.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

BEGIN = (
    "import pickle, signal, sys; "
    "signal.signal(signal.SIGINT, signal.SIG_IGN); "  # Ctrl-C is the driver's
    "sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from {module} import main; main(); "
    "import gc; gc.freeze()"  # else Python collects all of torch before it exits, which takes a second or two
)


def launch(module: str, *arguments: object, told: Sequence[object] = (), **options: Any) -> subprocess.Popen[bytes]:
    """Start `module.main()` with these `sys.argv[1:]`; the objects `told` are sent, pickled, to its standard input.

    `options` are those of `subprocess.Popen`. OSError if no process can be started.
    """
    # -P: no folder is searched besides our own `sys.path`, which the process only learns after it has started.
    command = [sys.executable, *_flags(), "-P", "-c", BEGIN.format(module=module), *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, **options)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:  # a process that died already is noticed by its exit
        stdin.write(b"".join(pickle.dumps(each) for each in (_path(), *told)))
    return process


def _path() -> list[str]:
    """Return this process's `sys.path`, with the working folder (the empty string) by its name."""
    return [entry or str(os.path.realpath(os.curdir)) for entry in sys.path]


def _flags() -> list[str]:
    """Return the options of this interpreter (-O, -W, -X, -E, …), as `multiprocessing` passes them on."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags
