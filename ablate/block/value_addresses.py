"""Addresses of values that stand earlier in the model: what a field may read besides its input.

    layers.first.attention.value     what the values of the first layer's attention are
    layers.previous.mlp              what the MLP of the layer before gives
    layers.2.out                     the stream behind block 2; `layers.first.in` is the stream before the first
    layers.(depth+1-layer).out       the layer is arithmetic in `layer` and `depth`
    layers.*.in                      the streams before all blocks up to this one, where a field takes several
    attention.key                    of this layer: what stands before it in the block
    tokens                           the numbers of the tokens, [B, T]
    embedding, positions, entry_norm what these parts of the model give
    encoder                          in a decoder beside an encoder: what the encoder gives, [B, S, D], behind its norm

The names are those of parts and of the weights in their fields, as everywhere (`address.py`). A value is read as it is,
with its gradient. What it stands before, and what it is inside of, a field cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ablate.block.address import address
from ablate.block.arithmetic import ArithmeticProblem, number_text
from ablate.block.arithmetic import parse as parse_arithmetic
from ablate.block.expression import ValueAddress

TOKENS: Final = "tokens"
AROUND: Final = ("embedding", "positions", "entry_norm")
"""The parts before the blocks whose output can be read."""
ENCODER: Final = "encoder"
"""The output of the encoder, which only the `source` of an attention can read: it has another length."""
IN, OUT = "in", "out"
EVERY: Final = "*"
WHICH: Final = ("first", "previous", EVERY)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
ONE_LAYER: Final = r"first|previous|\*|[0-9]+|\([^()]*(?:\([^()]*\)[^()]*)*\)"
OF_LAYER = re.compile(rf"layers\.({ONE_LAYER})\.(.+)")
LEAD: Final = len("layers.")


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A value of the model: of block `layer`, or of what stands before the blocks (None), under its name there."""

    layer: int | None
    name: str

    @property
    def address(self) -> str:
        """The address in the model."""
        return self.name if self.layer is None else address(self.layer, self.name)


def fault_of(text: str, *, several: bool) -> ArithmeticProblem | None:
    """Return what is wrong with an address as it is written, and with which of its characters; None if nothing is."""
    if text in (TOKENS, ENCODER, *AROUND):
        return None
    if not text.startswith("layers."):
        return _fault_of_name(text, 0, f"{text!r} is not the address of a value")
    match = OF_LAYER.fullmatch(text)
    message = f"{text!r} is not the address of a value in a layer"
    if match is None:
        which = text.split(".")[1]
        if re.fullmatch(ONE_LAYER, which):
            return ArithmeticProblem(f"{message}: say which value, as in layers.{which}.out")
        return ArithmeticProblem(f"{message}: {which!r} is no layer", LEAD, LEAD + len(which))
    if match[1] == EVERY and not several:
        return ArithmeticProblem(f"{text!r} is many values, but one is read here", *match.span(1))
    if match[1].startswith("("):
        try:
            parse_arithmetic(match[1][1:-1])
        except ArithmeticProblem as problem:
            start, end = (offset + 1 for offset in match.span(1))
            end = end - 2 if problem.end is None else start + problem.end
            return ArithmeticProblem(f"{text!r}: {problem}", start + problem.start, end)
    return _fault_of_name(match[2], match.start(2), message)


def _fault_of_name(name: str, start: int, message: str) -> ArithmeticProblem | None:
    """Return the fault that `name` is none, from where it stops to be one; `start` is its place in the address."""
    if NAME.fullmatch(name):
        return None
    begun = NAME.match(name)
    return ArithmeticProblem(message, start + (begun.end() if begun else 0), start + len(name))


def values_named(read: ValueAddress, scope: Mapping[str, float]) -> tuple[ValuePlace, ...]:
    """Return the values that an address names as the layer of `scope` sees it; several for `layers.*`.

    `layers.*.in` are those up to and with this layer, `layers.*` of anything else those of the layers before.

    Raises ArithmeticProblem for a layer that has no number.
    """
    match = OF_LAYER.fullmatch(read.text)
    here = int(scope["layer"])
    if match is None:
        around = read.text in (TOKENS, ENCODER, *AROUND)
        return (ValuePlace(None if around else here, read.text),)
    which, name = match[1], match[2]
    if which == EVERY:
        return tuple(ValuePlace(layer, name) for layer in range(1, here + (name == IN)))
    return (ValuePlace(_layer(which, scope), name),)


def is_several(read: ValueAddress) -> bool:
    """Return whether an address names as many values as there are layers: `layers.*.in`."""
    return read.text.startswith(f"layers.{EVERY}.")


def resolved(read: ValueAddress, scope: Mapping[str, float]) -> ValueAddress:
    """Return the address with the layer as a number, of this layer without one; `layers.*` as it is."""
    match = OF_LAYER.fullmatch(read.text)
    if match is None or match[1] == EVERY:
        return read
    layer = _layer(match[1], scope)
    own = layer == scope["layer"] and match[2] not in (IN, OUT)
    return ValueAddress(match[2] if own else address(layer, match[2]))


def _layer(which: str, scope: Mapping[str, float]) -> int:
    if which == "first":
        return 1
    if which == "previous":
        return int(scope["layer"]) - 1
    if which.isdigit():
        return int(which)
    number = parse_arithmetic(which[1:-1]).at(scope)
    if not number.is_integer():
        raise ArithmeticProblem(f"layer {which} is {number_text(number)} in layer {int(scope['layer'])}, not whole")
    return int(number)
