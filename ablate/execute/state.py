"""The state that a task resumes from."""

from __future__ import annotations

from ablate.errors import RefusedError
from ablate.execute.task import Task
from ablate.store import checkpoints


def state_of(task: Task) -> bytes | None:
    """Read the state of a task's checkpoint; None if it starts from the beginning. RefusedError if it is damaged."""
    if task.resume is None:
        return None
    state = checkpoints.read(task.folder, task.trial.id, task.resume)
    if state is None:
        raise RefusedError(
            f"the checkpoint of trial {task.trial.id} at step {task.resume.step} is missing or damaged\n"
            "  = run again: the trial then resumes from its last intact checkpoint, or from the start"
        )
    return state
