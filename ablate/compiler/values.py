"""Values kept for the parts that read them: from where they arise in a forward pass to where they are read.

Only what some part reads is kept, and only until the pass ends. A module's value is taken by a hook on it, so that the
module knows nothing of its readers; readers hold the same `KeptValue`, also in a copy of the model or a traced graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from ablate.block.value_addresses import IN, OUT, TOKENS, ValuePlace
from ablate.errors import InputError


class KeptValue:
    """The value at one place, while a forward pass runs."""

    def __init__(self, address: str):
        self.address = address
        self.value: Tensor | None = None
        self.made: dict[Hashable, Any] = {}

    def __call__(self) -> Tensor:
        """Return the value; RuntimeError if it does not stand yet."""
        if self.value is None:
            raise RuntimeError(f"{self.address} is read before it stands")
        return self.value

    def once(self, make: Callable[..., Any], *options: Hashable) -> Any:
        """Return `make(value, store, *options)`, made once in a pass: for all readers that ask for the same.

        The store is emptied when the pass has ended. While a graph is traced all is made anew: it has no numbers yet.
        """
        if torch.compiler.is_compiling():
            return make(self(), {}, *options)
        if (make, options) not in self.made:
            with torch.inference_mode(False):  # else it could never be saved for a backward pass
                self.made[make, options] = make(self(), self.made, *options)
        return self.made[make, options]

    def keep_output(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep what a module gives."""
        self.value = output

    def keep_input(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Keep what a module is given."""
        self.value = inputs[0]

    def forget(self, *_: Any) -> None:
        """Let the value go, when the pass has ended."""
        self.value = None
        self.made.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the value out of copies and pickles."""
        return {"address": self.address, "value": None, "made": {}}


class KeptValues(tuple[KeptValue, ...]):
    """The values at several places, in order."""

    def __call__(self) -> tuple[Tensor, ...]:
        """Return them; RuntimeError if one does not stand yet."""
        return tuple(kept() for kept in self)


@dataclass
class ValuesRead:
    """The places in one model that are read; the values that are `given` are kept there by the model itself."""

    kept: dict[ValuePlace, KeptValue] = field(default_factory=dict)
    given: Mapping[ValuePlace, KeptValue] = field(default_factory=dict)

    def at(self, place: ValuePlace) -> KeptValue:
        """Return what will hold the value at a place, for its reader."""
        return self.kept.setdefault(place, self.given.get(place) or KeptValue(place.address))

    def attach(
        self, model: nn.Module, layers: Mapping[int, nn.Module], own_names: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Take the values from `model`, of which `layers` are the blocks by number, during each of its passes.

        What stands before the layers may have another name in the model: `own_names`.

        Raises InputError for a place that the model does not have: a block alone has no other layer.
        """
        for place, kept in self.kept.items():
            if place in self.given:
                model.register_forward_hook(kept.forget, always_call=True)
                continue
            block = model if place.layer is None else layers.get(place.layer)
            name = place.name if place.layer is not None else own_names.get(place.name, place.name)
            module = None if block is None else _module_at(block, name)
            if module is None:
                raise InputError(
                    f"{place.address} is read, but is not in this model\n"
                    "  = a block that reads from elsewhere is compiled with its model: compile_model"
                )
            if place.name in (IN, TOKENS):
                module.register_forward_pre_hook(kept.keep_input)
            else:
                module.register_forward_hook(kept.keep_output)
            model.register_forward_hook(kept.forget, always_call=True)


def _module_at(block: nn.Module, name: str) -> nn.Module | None:
    """Return the module at which a value is taken; None if there is none of that name."""
    if name in (IN, OUT):
        return block
    try:
        return block.get_submodule("embedding" if name == TOKENS else name)
    except AttributeError:
        return None
