"""How a schedule declares itself: a class of its settings, whose `share` is the rate of a step.

`ablate docs schedule` shows one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from ablate.extension.declaration import DeclarationError, DeclarationFault, declare_settings
from ablate.space.documents import Count, Document, NotNegative, Positive, Share
from ablate.space.recipe import ScheduleSpec
from ablate.space.schedule import Behind

__all__ = ["Behind", "Count", "Document", "NotNegative", "Positive", "Share", "schedule"]

S = TypeVar("S", bound=Document)


def schedule(name: str, *, source: str = "", version: int = 1, has_floor: bool = True) -> Callable[[type[S]], type[S]]:
    """Declare a schedule by its settings; the first line of its file is what `ablate list schedules` shows.

    `has_floor` is false for one that ignores the floor: a space that gives it one is then refused. `version` is that of
    its numbers: raise it when a change of the code changes them.

    Raises DeclarationError for a class that cannot be its settings, with everything that is wrong with it.
    """
    declare = declare_settings(ScheduleSpec, name, source=source, version=version, has_floor=has_floor)

    def declared(cls: type[S]) -> type[S]:
        if not inspect.isfunction(getattr(cls, "share", None)):
            way = "give it def share(self, at: Behind) -> float: the rate of a step as a share of the peak"
            raise DeclarationError(
                cls.__qualname__, (DeclarationFault("a schedule must give the rate of a step", "class", (way,)),)
            )
        return declare(cls)

    return declared
