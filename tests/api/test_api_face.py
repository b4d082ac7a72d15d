"""The names that `import ablate` gives: all of them are listed, and none is taken by a room."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import ablate

pytestmark = pytest.mark.fast

ROOMS = {room.name for room in pkgutil.iter_modules(ablate.__path__)}


def test_dir_lists_the_face_and_nothing_else():
    assert [name for name in dir(ablate) if not name.startswith("__")] == sorted(ablate.__all__)


def test_no_name_of_the_face_is_a_rooms_name():
    """Importing a room puts it into the package, where it would stand in the place of the name, or not."""
    assert "block" in ROOMS and not ROOMS & set(ablate.__all__)
    for room in ROOMS - {"testing"}:
        importlib.import_module(f"ablate.{room}")
    assert isinstance(ablate.block, ModuleType)
    assert not [name for name in ablate.__all__ if isinstance(getattr(ablate, name), ModuleType)]


@pytest.mark.parametrize("name", ablate.__all__)
def test_every_name_says_what_it_is(name):
    found = getattr(ablate, name)
    assert (inspect.getdoc(found) or "").strip() and not (found.__doc__ or "").startswith(f"{name}(")


def test_what_is_not_there_is_said_so():
    with pytest.raises(AttributeError, match="module 'ablate' has no attribute 'nothing'"):
        _ = ablate.nothing
