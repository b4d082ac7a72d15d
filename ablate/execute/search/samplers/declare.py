"""How a sampler declares itself: the names that every file of a sampler starts from.

Such a file declares a class of settings, without what makes proposals, and below it a function that makes a `Proposer`;
`ablate docs sampler` has an example and the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, get_args

from ablate.extension.declaration import DeclarationError, DeclarationFault, declare_settings, implements
from ablate.space.design import Objectives, SamplerSpec
from ablate.space.documents import Count, Document, NotNegative, Positive, Share

__all__ = ["Count", "Document", "NotNegative", "Positive", "Share", "implements", "sampler"]

S = TypeVar("S", bound=Document)


def sampler(name: str, *, source: str = "", version: int = 1, objectives: Objectives) -> Callable[[type[S]], type[S]]:
    """Declare a sampler by its settings; the first line of its file is what `ablate list samplers` shows.

    A sampler of `one` objective is refused if a search has more. `version` is that of its proposals: raise it when a
    change of the code changes them.

    Raises DeclarationError for a class that cannot be its settings, with everything that is wrong with it.
    """
    declare = declare_settings(SamplerSpec, name, source=source, version=version, objectives=objectives)

    def declared(cls: type[S]) -> type[S]:
        if objectives not in get_args(Objectives):
            message = f"a sampler has one objective or several, not {objectives!r}"
            raise DeclarationError(
                cls.__qualname__,
                (DeclarationFault(message, "objectives", ('use objectives="one" or objectives="several"',)),),
            )
        return declare(cls)

    return declared
