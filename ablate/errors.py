"""The few exception types of `ablate`.

An `AblateError` is a message for the user: the command line prints its text and exits with its `exit_code`,
never a traceback. Any other exception is a bug of ours and keeps its traceback. The texts quote files, names and
errors of other programs, so they are escaped here, also where Python prints the traceback.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ablate.output.escape import visible


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake as data. Lines and columns count from 1; without a `file` it has no place.

    `file` is `--set` or `--profile` for a mistake in that option. `profile` is the profile that was being checked.
    """

    message: str
    way_out: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    text: str | None = None
    profile: str | None = None


class AblateError(Exception):
    """Something the user can fix; the text says what, where, why and the way out."""

    exit_code = 2

    def __init__(self, text: str = "", mistakes: Iterable[Mistake] = ()):
        super().__init__(text)
        self._mistakes = tuple(mistakes)

    def __str__(self) -> str:
        return visible(super().__str__())

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The mistakes that the text reports; an error without a place is one mistake."""
        if self._mistakes:
            return self._mistakes
        first, *rest = str(self).removeprefix("error: ").splitlines() or [""]
        said = [line.strip() for line in rest if line.strip()]
        ways = tuple(line.removeprefix("=").strip() for line in said if line.startswith("="))
        return (Mistake(" ".join([first, *(line for line in said if not line.startswith("="))]), ways),)


class InputError(AblateError):
    """The input is wrong: a file, an option or an expression. The text shows every mistake found, with its place."""


class RefusedError(AblateError):
    """The input is fine but the surroundings are not: a locked store, a missing corpus, a folder without permission."""


class FailedError(AblateError):
    """Every trial that a run was to train has failed; `run` is the run nevertheless."""

    exit_code = 1

    def __init__(self, text: str, run: Any = None):
        super().__init__(text)
        self.run = run


class AblateWarning(UserWarning):
    """Something wrong that does not stop the command; the command line prints it as a note."""

    def __str__(self) -> str:
        return visible(super().__str__())


def warn(text: str) -> None:
    """Warn of something that costs no result, at the line that called the function that says so."""
    warnings.warn(text, AblateWarning, stacklevel=3)
