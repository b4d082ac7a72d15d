"""Errors in a user's own component are the user's to fix: they are reported with its file, never as a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.block.catalogue import ComponentSpec
from ablate.errors import AblateError, InputError

SHIPPED = Path(__file__).parent.parent


@contextmanager
def reporting_errors(spec: ComponentSpec, method: str) -> Iterator[None]:
    """Turn exceptions from a user's component into InputError, while a `method` of its Config is called.

    An AblateError is a message of the component itself, and is kept. So are exceptions of shipped components, which are
    bugs in this package.
    """
    try:
        yield
    except AblateError:
        raise
    except Exception as error:
        if spec.path.is_relative_to(SHIPPED):
            raise
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(
            f"component {spec.name}, from {_place(spec.path, error)}, fails in {method}: {message}\n"
            "  = fix it there; to refuse sizes or values, raise ablate's InputError with the reason and a way out"
        ) from error


def _place(path: Path, error: Exception) -> str:
    """Return the file, with its line that ran last, if any did."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if Path(frame.f_code.co_filename) == path]
    return f"{path}:{lines[-1]}" if lines else str(path)
