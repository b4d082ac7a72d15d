"""A Python process of this machine that runs a module of ours, and never the user's own `__main__`.

`multiprocessing` would run the user's file again in each process (with whatever it trains), and cannot run what came
from standard input at all. Ours is `python -c` with a fixed text: the module is imported along this process's path of
imports, so what can be imported here can be imported there.
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
    "from {module} import main; main()"
)


def launch(module: str, *arguments: object, told: Sequence[object] = (), **options: Any) -> subprocess.Popen[bytes]:
    """Start `module.main()` with these `sys.argv[1:]`, after which its standard input has what it is `told`, pickled.

    `options` are those of `subprocess.Popen`. OSError where no process can be started.
    """
    # -P: nothing beside our own path of imports, which is not known yet when it begins.
    command = [sys.executable, *_flags(), "-P", "-c", BEGIN.format(module=module), *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, **options)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:  # one that is gone already is noticed when it is missing
        stdin.write(b"".join(pickle.dumps(one) for one in (_path(), *told)))
    return process


def _path() -> list[str]:
    """Where this process looks for modules; the empty string, which is the working folder, by its name."""
    return [entry or str(os.path.realpath(os.curdir)) for entry in sys.path]


def _flags() -> list[str]:
    """The options of this interpreter (-O, -W, -X, -E, …), as `multiprocessing` hands them on."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags
