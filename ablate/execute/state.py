"""The state that a task goes on from."""

from __future__ import annotations

from ablate.errors import RefusedError
from ablate.execute.task import Task
from ablate.store import checkpoints


def state_of(task: Task) -> bytes | None:
    """The state of its checkpoint; None where it begins. RefusedError where it is not what was written."""
    if task.resume is None:
        return None
    state = checkpoints.read(task.folder, task.trial.id, task.resume)
    if state is None:
        raise RefusedError(
            f"the checkpoint of trial {task.trial.id} at step {task.resume.step} is not as it was written\n"
            "  = run again: the trial then goes on from what is whole"
        )
    return state
