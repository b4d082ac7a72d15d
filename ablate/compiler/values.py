"""Values of a forward pass: from where they arise to where they are read, by later parts of the model or by the loss.

A value is kept only if it is read, and only until it is read or the pass ends. A hook on the module takes it; readers
hold the same `KeptValue`, also in a copy of the model or a traced graph. Logits of tokens further ahead are kept until
the loss asks for them.

Dimension key: B batch, T time, V size of the vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from ablate.block.address import IN, OUT, TOKENS, ValuePlace
from ablate.components.kept import Kept
from ablate.errors import InputError


class KeptValue:
    """The value at one place, while a forward pass runs."""

    def __init__(self, address: str):
        self.address = address
        self.value: Tensor | None = None
        self.made: dict[Hashable, Any] = {}

    def __call__(self) -> Tensor:
        """Raise RuntimeError if the value does not stand yet."""
        if self.value is None:
            raise RuntimeError(f"{self.address} is read before it stands")
        return self.value

    def once(self, make: Callable[..., Any], *options: Hashable) -> Any:
        """`make(value, store, *options)`, made once in a pass for all readers that ask for the same.

        The store is emptied after the pass. While a graph is traced all is made anew: it has no numbers yet.
        """
        if torch.compiler.is_compiling():
            return make(self(), {}, *options)
        if (make, options) not in self.made:
            with torch.inference_mode(False):  # else it could never be saved for a backward pass
                self.made[make, options] = make(self(), self.made, *options)
        return self.made[make, options]

    def keep_output(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        self.value = output

    def keep_input(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.value = inputs[0]

    def forget(self, *_: Any) -> None:
        self.value = None
        self.made.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the value out of copies and pickles."""
        return {"address": self.address, "value": None, "made": {}}


class KeptValues(tuple[KeptValue, ...]):
    def __call__(self) -> tuple[Tensor, ...]:
        """Raise RuntimeError if one does not stand yet."""
        return tuple(kept() for kept in self)


@dataclass
class ValuesRead:
    """The places in one model that are read; the values that are `given` are kept there by the model itself."""

    kept: dict[ValuePlace, KeptValue] = field(default_factory=dict)
    given: Mapping[ValuePlace, KeptValue] = field(default_factory=dict)

    def at(self, place: ValuePlace) -> KeptValue:
        return self.kept.setdefault(place, self.given.get(place) or KeptValue(place.address))

    def attach(
        self, model: nn.Module, layers: Mapping[int, nn.Module], own_names: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Take the values from `model`, of which `layers` are the blocks by number, during each of its passes.

        `own_names`: other names in the model of parts in front of the layers. InputError for a place that is not there.
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
    """The module at which a value is taken; None if there is none of that name."""
    if name in (IN, OUT):
        return block
    try:
        return block.get_submodule("embedding" if name == TOKENS else name)
    except AttributeError:
        return None


# Blocks that predict tokens further ahead, each for one of them, beside the head of the next token.
#
#     logits_k = head(logit_scale * final_norm(ahead.k(x_L)))        k = 2, 3, …: the k-th token ahead; then the softcap
#
# Each is a copy of the model's last layer with parameters of its own; norm and head are the model's. What a copy reads
# of the last layer (`from: attention.key`, `in`) is its own, and of any other layer the model's.
#
# They run only while a model trains and gradients are tracked.
#
# Gloeckle et al. 2024, arXiv:2404.19737, Sec. 2: a trunk, a transformer layer for each token, one unembedding. There
# the next token has a layer of its own as well; here it has the last block of the model.


class Ahead(nn.ModuleDict):
    """The blocks, by the token that each predicts: `2`, `3`, …; they run in every pass while `always` is set."""

    def __init__(self, blocks: Mapping[int, nn.Module]):
        super().__init__({str(token): block for token, block in blocks.items()})
        self.always = False
        self._kept = Kept()

    def runs(self, *, training: bool) -> bool:
        return self.always or (training and torch.is_grad_enabled())

    def keep(self, logits: Iterable[Tensor]) -> None:
        """Keep the logits [B, T, V] of each token, in their order, instead of what an earlier pass left."""
        if self.always:  # no loss asks for these: computed one by one, and let go
            deque(logits, maxlen=0)
        else:
            self._kept.keep(logits=tuple(logits))

    def take(self) -> tuple[Tensor, ...]:
        """The logits of the second token ahead, the third, and so on: given out once."""
        logits: tuple[Tensor, ...] = self._kept.take().get("logits", ())
        return logits


def logits_ahead(model: nn.Module) -> tuple[Tensor, ...]:
    """The logits [B, T, V] of the tokens further ahead in the pass that just ran, given out once; empty without any."""
    ahead = getattr(model, "ahead", None)
    return ahead.take() if isinstance(ahead, Ahead) else ()


@contextmanager
def running_ahead(model: nn.Module) -> Iterator[None]:
    """Let the blocks ahead run in every pass, as in training, whatever mode the model is in; their logits are lost."""
    ahead = getattr(model, "ahead", None)
    if not isinstance(ahead, Ahead):
        yield
        return
    before, ahead.always = ahead.always, True
    try:
        yield
    finally:
        ahead.always = before
