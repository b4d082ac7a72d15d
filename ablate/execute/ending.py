"""The outcome of a trial that raised an exception."""

from __future__ import annotations

import traceback

from ablate.errors import RefusedError
from ablate.execute.policy import REFUSED
from ablate.train.events import Outcome
from ablate.train.loop import lacks_memory


def ending_of(error: Exception | SystemExit, step: int) -> Outcome:
    """Return the outcome of a trial that raised `error` after `step` steps; memory can run out outside its loop, too.

    `sys.exit` in a component is a bug of that code: it ends neither a worker nor, inline, the run.
    """
    if isinstance(error, RefusedError):
        return Outcome("interrupted", step, {"error": str(error), REFUSED: str(error)})
    if lacks_memory(error):
        return Outcome("out_of_memory", step, {"cause": str(error).partition("\n")[0]})
    trace = "".join(traceback.format_exception(error))
    return Outcome("bug", step, {"error": f"{type(error).__name__}: {error}", "trace": trace})
