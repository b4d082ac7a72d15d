"""The few exception types of `ablate`.

An `AblateError` is a message for the user: the command line prints its text and exits with its `exit_code`,
never a traceback. Anything else that escapes is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

from typing import Any


class AblateError(Exception):
    """Something the user can mend; the text says what, where, why and the way out."""

    exit_code = 2


class InputError(AblateError):
    """The input is wrong: a file, an option or an expression. The text shows every mistake found, with its place."""


class RefusedError(AblateError):
    """The input is fine but the surroundings are not: a locked store, a missing corpus, a folder without permission."""


class FailedError(AblateError):
    """Every trial that a run was to train failed; `run` is what it came to all the same."""

    exit_code = 1

    def __init__(self, text: str, run: Any = None):
        super().__init__(text)
        self.run = run


class AblateWarning(UserWarning):
    """Something that is not as it should be, beside what was asked; the command line prints it as a note."""
