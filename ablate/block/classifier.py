"""What a model that gives one answer for each input needs: of images (`vit`), or of features (`mlp`).

vit    images [C, H, W] in patches of p x p: (H / p) (W / p) tokens, and one more where a class token is read
mlp    features of any shape, flattened: one token
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue, ComponentSpec, Part
from ablate.block.expression import ValueAddress, walk
from ablate.block.value_addresses import TOKENS
from ablate.errors import InputError

VIT: Final = "vit"
MLP: Final = "mlp"
CLASSIFIERS: Final = (VIT, MLP)
"""The kinds of models that give one answer for each input."""
CLASS_TOKEN: Final = "class_token"
ON_A_GRID: Final = ("sine_cosine_2d", "sine_cosine_2d_as_released")
"""The positions that have a row and a column."""
OF_IMAGES: Final = {"patch": "the side of patches of images", "pooling": "what is read of the tokens of an image"}
"""The fields that only a model of images has."""
OF_TOKENS: Final = ValueAddress(TOKENS)
BLOCK: Final = "block"
MIXING: Final = frozenset({"position", "bias", "mask"})
"""Slots of parts that mix the tokens of a sequence."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a model, the field of `model` that says so (BLOCK: the block does), and a way out."""

    field: str
    message: str
    way_out: str


def side_of(architecture: Architecture) -> int:
    """Return the side of the patches of a model of images."""
    assert architecture.patch is not None
    return architecture.patch


def grid(architecture: Architecture) -> tuple[int, int]:
    """Return how many patches are above, and how many beside, each other."""
    _, height, width = architecture.input_shape
    return height // side_of(architecture), width // side_of(architecture)


def features(architecture: Architecture) -> int:
    """Return how many numbers one patch has, or one whole input that is not cut."""
    if architecture.kind == VIT:
        return architecture.input_shape[0] * side_of(architecture) ** 2
    return prod(architecture.input_shape)


def embedded(architecture: Architecture) -> int:
    """Return how many tokens are made of an input: its patches, or one."""
    return prod(grid(architecture)) if architecture.kind == VIT else 1


def n_tokens(architecture: Architecture) -> int:
    """Return how many tokens the layers see: a class token too, where there is one."""
    return embedded(architecture) + (architecture.pooling == CLASS_TOKEN)


def check_kind(architecture: Architecture, catalogue: Catalogue) -> None:
    """Raise InputError for the first fault of a model."""
    for fault in faults(architecture, catalogue):
        raise InputError(f"{fault.message}\n  = {fault.way_out}")


def faults(architecture: Architecture, catalogue: Catalogue) -> Iterator[Fault]:
    """Yield what does not fit the kind of a model, in the fields that came with models of images and of features."""
    kind = architecture.kind
    if kind != VIT:
        for field, what in OF_IMAGES.items():
            if getattr(architecture, field) is not None:
                message = f"model.{field} is {what}, but a model of kind {kind} reads none"
                yield Fault(field, message, f"leave it out, or set model.kind: {VIT}")
        if architecture.positions in ON_A_GRID:
            message = f"model.position is {architecture.positions}, but only patches of images have a row and column"
            yield Fault("position", message, f"set it to sinusoidal, or model.kind: {VIT}")
    if kind not in CLASSIFIERS:
        if architecture.head_layer:
            message = f"model.head is mlp, but a model of kind {kind} has a matrix alone"
            yield Fault("head", message, "set it to untied or tied")
        if architecture.head_init is not None and architecture.tied:
            message = "model.head_init is given, but the head is tied: its matrix is the embedding's"
            yield Fault("head_init", message, "leave it out, or set model.head: untied")
        return
    if architecture.tied:
        message = f"model.head is tied, but a model of kind {kind} has no table of tokens"
        yield Fault("head", message, "set it to untied, or to mlp")
    if architecture.ahead:
        message = f"model.ahead is {architecture.ahead}, but a model of kind {kind} predicts no tokens"
        yield Fault("ahead", message, "leave it out, or set it to 0")
    if (reader := _reads_tokens(architecture)) is not None:
        message = f"{reader} reads the numbers of tokens, but a model of kind {kind} has none"
        yield Fault(BLOCK, message, "leave it out, or read a signal, such as embedding")
    yield from _of_images(architecture) if kind == VIT else _of_features(architecture, catalogue)


def _reads_tokens(architecture: Architecture) -> str | None:
    """Return the name of a part that reads the numbers of tokens; None if none does."""
    reads = (node.name for node in walk(architecture.block) if any(v == OF_TOKENS for _, v in node.fields))
    return next(reads, None)


def _of_images(architecture: Architecture) -> Iterator[Fault]:
    shape, patch, sizes = architecture.input_shape, architecture.patch, architecture.sizes
    if sizes.causal:
        message = f"model.causal is true, but a model of kind {VIT} sees a whole image: its patches have no past"
        yield Fault("causal", message, "set it to false")
    if architecture.pooling is None:
        message = f"model.kind is {VIT}, but model.pooling is not given"
        yield Fault("kind", message, f"say what the head is given: pooling: {CLASS_TOKEN}, or pooling: mean")
    if architecture.positions in ON_A_GRID and sizes.d_model % 4:
        message = f"model.position is {architecture.positions}, but the width {sizes.d_model} is no multiple of 4"
        yield Fault("position", message, "give a width that is: a quarter each for sine and cosine of row and column")
    if patch is None:
        message = f"model.kind is {VIT}, but model.patch is not given"
        yield Fault("kind", message, "give the side of the patches that images are cut into: patch: 16")
    if len(shape) != 3:
        given = " x ".join(map(str, shape)) if shape else "text"
        message = f"model.kind is {VIT}, which reads images of channels x height x width, but the data are {given}"
        yield Fault("kind", message, "give it images (data.corpus), or choose another kind of model")
        return
    if patch is None:
        return
    _, height, width = shape
    if height % patch or width % patch:
        side = gcd(height, width)
        fitting = [str(each) for each in range(1, side + 1) if side % each == 0]
        message = f"model.patch is {patch}, which does not divide images of {height} x {width}"
        yield Fault("patch", message, f"give one that divides height and width: {', '.join(fitting)}")
    elif architecture.pooling is not None and sizes.seq_len != n_tokens(architecture):
        rows, columns = grid(architecture)
        token = " and a class token" if architecture.pooling == CLASS_TOKEN else ""
        message = f"model.context is {sizes.seq_len}, but an image is {rows} x {columns} patches{token}"
        yield Fault("context", message, f"set it to {n_tokens(architecture)}, the number of tokens")


def _of_features(architecture: Architecture, catalogue: Catalogue) -> Iterator[Fault]:
    if not architecture.input_shape:
        message = f"model.kind is {MLP}, which reads features of a fixed number, but the data are text"
        yield Fault("kind", message, "give it images (data.corpus), or choose another kind of model")
    if architecture.sizes.seq_len != 1:
        message = f"model.context is {architecture.sizes.seq_len}, but a model of kind {MLP} has one token"
        yield Fault("context", message, "set it to 1")
    if architecture.positions != "none":
        message = f"model.position is {architecture.positions}, but a model of kind {MLP} has one token"
        yield Fault("position", message, "set it to none")
    mixing = next((node.name for node in walk(architecture.block) if mixes(catalogue[node.name])), None)
    if mixing is not None:
        message = f"{mixing} mixes the tokens of a sequence, but a model of kind {MLP} has one token"
        yield Fault(BLOCK, message, "leave it out: residual: [layer_norm, mlp]; or choose another kind of model")


def mixes(spec: ComponentSpec) -> bool:
    """Return whether a component mixes the tokens of a sequence."""
    return any(isinstance(kind, Part) and kind.slot in MIXING for kind in spec.fields.values())
