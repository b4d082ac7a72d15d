"""The few exception types of `ablate`.

An `AblateError` is a message for the user: the command line prints its text and exits with its `exit_code`,
never a traceback. Anything else that escapes is a bug of ours and keeps its traceback.
"""


class AblateError(Exception):
    """Something the user can mend; the text says what, where, why and the way out."""

    exit_code = 2


class InputError(AblateError):
    """The input is wrong: a file, an option or an expression. The text shows every mistake found, with its place."""


class RefusedError(AblateError):
    """The input is fine but the surroundings are not: a locked store, a missing corpus, a folder without permission."""


class AblateWarning(UserWarning):
    """Something that is not as it should be, beside what was asked; the command line prints it as a note."""
