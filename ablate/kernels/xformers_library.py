"""Whether xformers can be used here: installed, of a version that fits this PyTorch, and with kernels that load.

Its library of kernels loads beside the CUDA that it was built for, and a PyTorch that has what it calls. Beside others
xformers warns in several lines while it is imported, and refuses whatever it is asked; or it fails, since it uses parts
of PyTorch that change. Either is said in one line, with the way out, and the next backend computes.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ablate.kernels import xformers
from ablate.kernels.xformers import Dispatch

WAY_OUT = "`ablate docs install` has a pair that fits"


def dispatch(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Dispatch:
    """Ask xformers' dispatcher as `kernels/xformers.py` does, if xformers can be used; else the refusal says why."""
    if why := missing():
        return Dispatch(refusal=why)
    try:
        return xformers.dispatch(q, k, v, **options)
    except Exception as error:  # noqa: BLE001  a library may raise anything, and there are other backends
        return Dispatch(refusal=_failed("fails", error))


@functools.cache
def missing() -> str:
    """Return why xformers cannot be used in this process; empty if it can."""
    try:
        with _without_warnings():
            xformers.import_ops()
            library = importlib.import_module("xformers._cpp_lib")
    except ModuleNotFoundError as error:
        return f"xformers is not installed; {WAY_OUT}" if error.name == "xformers" else _failed("is not whole", error)
    except Exception as error:  # noqa: BLE001  as above
        return _failed("cannot be imported", error)
    failed: BaseException | None = getattr(library, "_cpp_library_load_exception", None)
    if failed is None:
        return ""
    built = getattr(failed, "build_info", None)
    built_for = f", built for PyTorch {built.torch_version}," if built else ""
    return _failed(f"has no kernels here: its library{built_for} does not load", _first_cause(failed))


def _failed(how: str, error: BaseException) -> str:
    cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return f"xformers {how} beside PyTorch {torch.__version__} ({cause}); {WAY_OUT}"


def _first_cause(error: BaseException) -> BaseException:
    """Return the first of a chain of errors: that a library is missing, rather than that one did not load."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep xformers' own warning from the screen, which has the reason in one line instead."""
    logger = logging.getLogger("xformers")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
