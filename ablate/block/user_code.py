"""What goes wrong in a user's own component is the user's to mend: it is told with its file, never as a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ablate.block.catalogue import ComponentSpec
from ablate.errors import AblateError, InputError

SHIPPED = Path(__file__).parent.parent


@contextmanager
def asked(spec: ComponentSpec, method: str) -> Iterator[None]:
    """While a `method` of a component's Config is asked: InputError for what its own code raises.

    An AblateError is what the component has to say itself, and is kept. So is what the components here raise: that is a
    bug of ours.
    """
    try:
        yield
    except AblateError:
        raise
    except Exception as error:
        if spec.path.is_relative_to(SHIPPED):
            raise
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(
            f"component {spec.name}, from {_place(spec.path, error)}, fails in {method}: {said}\n"
            "  = mend it there; to refuse sizes or values, raise ablate's InputError, which says why and the way out"
        ) from error


def _place(path: Path, error: Exception) -> str:
    """The file, with the line of it that ran last; the file alone where none did."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if Path(frame.f_code.co_filename) == path]
    return f"{path}:{lines[-1]}" if lines else str(path)
