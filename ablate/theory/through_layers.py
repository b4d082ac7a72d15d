"""Through the layers of a model: the token kernel behind each, and the gradient in front of each on the way back.

Layer by layer, or, in a deep model whose layers differ smoothly, by strides. A state is the logarithm of each token's
mean square, that of 1 - cosine of each pair of tokens, and each token's mean over its channels in units of its size:
exponential growth, decay and collapse are straight lines of these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import nan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ablate.block.architecture import encoder_block
from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node, walk
from ablate.block.layers import has_patterns
from ablate.block.sizes import Sizes
from ablate.errors import InputError
from ablate.signal.propagation import Array, Signal, transferred
from ablate.signal.sampled_attention import AttentionStart
from ablate.theory.blocks import (
    Elsewhere,
    InsideValue,
    PlacesRead,
    in_all_layers,
    own_part,
    profiles,
    reads_values,
    through_block,
)
from ablate.theory.initial_state import LayerScatter, gradient_variance

# Strides: what is behind every layer of a deep model, of which only a few are computed.
#
# A state y behind a layer goes to F_l(y) behind the next. Where its increment δ_l = F_l(y) - y goes smoothly with
# depth, it is a polynomial of l between a few layers, and y is its sum. A stride of h layers
#
#     predicts    y_{l+h} from the last three increments,
#     computes    two layers from there: what is forgotten from layer to layer is right behind them,
#     corrects    by the sum of the polynomial that goes through the newest increment, too.
#
# How far the correction is from the prediction says how long the next stride may be, and whether this one is taken
# again with a shorter h. The first layers, the last one, and those where h comes down to 1, are computed one by one,
# ever more of them in a row where the next stride fails, too; and a row goes on while increments come to rest. From
# there a stride may be as long as any: what sways about a fixed point would grow from one stride to the next.
#
#     Gear & Kevrekidis 2003, SIAM J. Sci. Comput. 24, "Projective methods for stiff differential equations".

Step: TypeAlias = Callable[[int, Array], Array]  # from l and the state behind layer l to that behind layer l + 1

TOLERANCE = 2e-3
"""The most by which a number of a state may be corrected in a stride, over 1 + the size of its change in it."""
FIRST_SINGLY = 6  # the layers that are computed one by one before the first stride
LONGEST_SINGLY = 32  # the most layers that are computed one by one before a stride is tried again
LEAST_STRIDE, MOST_STRIDE = 2, 256
"""A stride jumps over at least and at most so many layers; shorter ones save nothing."""
LONGER, SHORTER = 1.8, 0.25  # by how much a stride may differ from the one before
POINTS = 3  # the increments that a polynomial goes through
FLAT = 1e-6  # increments that change by less are one: extrapolated as they are, they sway less
RESTS, FALLS = 1e-12, 0.9
"""Increments come to rest while their changes are more than this, and fall to less than this part in a layer."""


@dataclass(frozen=True, slots=True)
class Strides:
    """The `states` behind layers 0, 1, …, [layers + 1, numbers], and the layers that were `computed`."""

    states: Array
    computed: frozenset[int]


def strides(step: Step, start: Array, layers: int, tolerance: float = TOLERANCE, cheap: Container[int] = ()) -> Strides:
    """Go through so many layers from the state `start`, [numbers], by strides where increments are smooth.

    A stride ends earlier, after half of its length at least, if the two steps from there are among the `cheap` ones.
    A state that is not finite is followed by layers that are computed one by one, as no stride holds from it.
    """
    states = np.empty((layers + 1, len(start)))
    states[0] = start
    computed = {0}
    known: list[tuple[int, Array]] = []
    layer, length, singly, wait, change = 0, float(LEAST_STRIDE), FIRST_SINGLY, 1, nan

    def both(end: int) -> bool:
        return end in cheap and end + 1 in cheap

    while layer < layers:
        jumped = min(int(length), layers - layer - 3)
        if layer < singly or jumped < LEAST_STRIDE or change > RESTS:
            states[layer + 1] = step(layer, states[layer])
            known.append((layer, states[layer + 1] - states[layer]))
            layer += 1
            computed.add(layer)
            change = _change(known)
            length = MOST_STRIDE if change <= RESTS else length
            continue
        jumped = next((h for h in range(jumped, max(jumped // 2, LEAST_STRIDE) - 1, -1) if both(layer + h)), jumped)
        points = 1 if np.abs(known[-1][1] - known[-2][1]).max() < FLAT else POINTS
        before = known[-points:]
        predicted = states[layer] + _sums(before, layer, jumped)[-1]
        first = step(layer + jumped, predicted)
        second = step(layer + jumped + 1, first)
        newest = (layer + jumped + 1, second - first)
        corrected = states[layer] + _sums([*before[1:], newest], layer, jumped)
        gap = corrected[-1] - predicted
        error = float((np.abs(gap) / (1 + np.abs(predicted - states[layer]))).max())
        factor = 0.9 * (tolerance / error) ** (1 / POINTS) if error else LONGER
        if not error <= tolerance:
            length = jumped * max(factor, SHORTER) if np.isfinite(error) else 0
            if length < LEAST_STRIDE:
                length, singly, wait = LEAST_STRIDE, layer + wait, min(2 * wait, LONGEST_SINGLY)
            continue
        states[layer + 1 : layer + jumped + 1] = corrected
        states[layer + jumped + 1], states[layer + jumped + 2] = first + gap, second + gap
        known.append(newest)
        layer += jumped + 2
        computed |= {layer - 1, layer}
        length, wait, change = min(max(jumped * min(factor, LONGER), LEAST_STRIDE), MOST_STRIDE), 1, nan
    return Strides(states, frozenset(computed))


def _change(known: Sequence[tuple[int, Array]]) -> float:
    """The last change of increments in a row of layers in which they come to rest; nan elsewhere."""
    if len(known) < POINTS or known[-1][0] - known[-POINTS][0] >= POINTS:
        return nan
    first, second, third = (increment for _, increment in known[-POINTS:])
    changed, before = float(np.abs(third - second).max()), float(np.abs(second - first).max())
    return changed if changed < max(FALLS * before, RESTS) else nan


def _sums(known: Sequence[tuple[int, Array]], layer: int, count: int) -> Array:
    """The sums of 1, 2, …, count increments from `layer` on, of the polynomial through those known."""
    places = np.arange(layer, layer + count, dtype=float)
    at, increments = np.array([place for place, _ in known], dtype=float), np.stack([each for _, each in known])
    basis = np.ones((len(at), count))
    for k, place in enumerate(at):
        for other in np.delete(at, k):
            basis[k] *= (places - other) / (place - other)
    return np.asarray(np.cumsum(basis, axis=1).T @ increments)


FEWEST = 128  # the fewest layers that are gone through by strides
ALIKE = 1e-7  # the least 1 - cosine that is told from 0
AT_REST = 1e-9  # layers in front of which the states differ by less are one
NOTHING = 1e-200  # the least mean square of a token, over the largest of all, that is told from 0
NO_GRADIENT, NO_GRADIENT_CARRIED = 1e-8, 1e-12
"""The mean square of a token's gradient, over the largest of all, that no number of the model follows from, and the
least that is carried."""


@dataclass(frozen=True, slots=True)
class LayerKernels:
    """The `kernels` Σ_l [T, T] behind the embedding (l = 0) and each layer, and the way back.

    `kept` is the transfer from the embedding to the end. Layers that are not among the `computed` are between those
    that are, and within a few parts in a thousand. `scatter` is the effect of the computed ones on variances, and
    `attention` theirs, in their order; `sampled` names components whose numbers are means of samples. `backward` takes
    the kernel of a gradient behind the last layer to the gradients behind each.
    """

    kernels: tuple[Array, ...]
    kept: Array | None
    mean: Array
    computed: frozenset[int]
    scatter: Mapping[int, LayerScatter]
    attention: tuple[AttentionStart, ...]
    sampled: tuple[str, ...]
    backward: Callable[[Array], Gradients]


@dataclass(frozen=True, slots=True)
class Gradients:
    """The mean squares and mean cosines of the gradient behind each layer, from l = 0 on.

    Cosines are Γ_ij / √((Γ_ii + ν) (Γ_jj + ν)), ν `NO_GRADIENT` of the largest: tokens without a gradient have none
    with others. `variances` is what layers add to that of the log of the mean square, of those that were computed on
    the way back.
    """

    mean_squares: tuple[float, ...]
    cosines: tuple[float, ...]
    variances: Mapping[int, float]


@dataclass(frozen=True)
class _BlockInLayers:
    block: Block
    sizes: Sizes
    init: Node
    catalogue: Catalogue
    elsewhere: Elsewhere
    encodes: bool

    def layer(self, layer: int, kernel: Array, mean: Array) -> Signal:
        """The signal behind a layer (from 1), from its root in front of it."""
        root, at = Signal.root(kernel, mean, self.sizes.d_model), self.sizes.at(layer)
        if self._made is not None:
            return self._made(root, layer)
        return through_block(self._in(at), root, at, self.init, self.catalogue, self.elsewhere)

    @cached_property
    def _made(self) -> Callable[[Signal, int], Signal] | None:
        """The block as it is in all layers; None if it is not the same in all."""
        if profiles(self.block, self.catalogue) or _by_layer(self.block, self.catalogue):
            return None
        block = self._in(self.sizes.at(1))
        if reads_values(block):
            return None
        return in_all_layers(block, self.sizes, self.init, self.catalogue, self.elsewhere)

    def _in(self, sizes: Sizes) -> Block:
        return encoder_block(self.block, sizes, self.catalogue) if self.encodes else self.block


def through_layers(
    block: Block,
    start: Signal,
    sizes: Sizes,
    init: Node,
    catalogue: Catalogue,
    repetition: Array | None,
    encoder: InsideValue | None = None,
    *,
    encodes: bool = False,
) -> LayerKernels:
    """Go through all layers of a block from a stream in front of the first.

    `repetition` is how likely two tokens are the same, [T, T]; None where tokens are not read. `encoder` is what a
    decoder reads beside them; layers of the encoder itself, which `encodes`, are the block without its reader. Raises
    InputError for a component without a `propagate`.
    """
    at = map(sizes.at, range(1, sizes.n_layers + 1) if reads_values(block) else ())
    blocks = [encoder_block(block, each, catalogue) if encodes else block for each in at]
    read = PlacesRead.of_layers(blocks, sizes, catalogue)
    model = _BlockInLayers(block, sizes, init, catalogue, Elsewhere(read, repetition, encoder=encoder), encodes)
    if profiles(block, catalogue):  # a first pass, from what it measures parameters start in the second
        _one_by_one(model, start)
        return _one_by_one(replace(model, elsewhere=model.elsewhere.again()), start)
    if sizes.n_layers >= FEWEST and not (_by_layer(block, catalogue) or any(read.of_layer.values())):
        through = _by_strides(model, start)
        if through is not None:
            return through
    return _one_by_one(model, start)


def _by_layer(block: Block, catalogue: Catalogue) -> bool:
    """True if a block may jump from one layer to the next: it has patterns, or arithmetic that names `layer`."""
    if has_patterns(block, catalogue):
        return True
    fields = [getattr(value, "value", value) for node in walk(block) for _, value in node.fields]
    return any(isinstance(value, Expression) and "layer" in value.names() for value in fields)


def _one_by_one(model: _BlockInLayers, start: Signal) -> LayerKernels:
    streams, length = [start], model.sizes.seq_len
    for layer in range(1, model.sizes.n_layers + 1):
        streams.append(model.layer(layer, streams[-1].kernel, streams[-1].mean))

    def backward(gradient: Array) -> Gradients:
        gradients, variances = [gradient], dict[int, float]()
        for layer in range(model.sizes.n_layers, 0, -1):
            gradients.append(streams[layer].backward(gradients[-1]))
            behind, before = gradients[-2:]
            variances[layer] = gradient_variance(behind, before, streams[layer].transfer, model.sizes)
        gradients.reverse()
        own = [own_part(each, length) for each in gradients]
        cosines = _mean_cosines(np.stack([_state(each, np.zeros(length)) for each in own]), length)
        return Gradients(tuple(float(np.diag(each).mean()) for each in own), cosines, variances)

    return LayerKernels(
        tuple(own_part(stream.kernel, length) for stream in streams),
        reduce(_then, (stream.transfer for stream in streams)),
        streams[-1].mean,
        frozenset(range(len(streams))),
        {layer: LayerScatter.of(streams[layer - 1].kernel, streams[layer], length) for layer in range(1, len(streams))},
        _attention(dict(enumerate(streams[1:], 1))),
        tuple(sorted(model.elsewhere.sampled)),
        backward,
    )


def _by_strides(model: _BlockInLayers, start: Signal) -> LayerKernels | None:
    """Go through the layers by strides; None where a token has no size, or one that is not finite."""
    layers, signals, scatter = model.sizes.n_layers, dict[int, Signal](), dict[int, LayerScatter]()

    def forth(layer: int, state: Array) -> Array:
        kernel, mean = _kernel_and_mean(state)
        try:
            behind = signals[layer + 1] = model.layer(layer + 1, kernel, mean)
        except InputError:  # it may be that only what was predicted is refused: one by one it will show
            return np.full_like(state, np.nan)
        scatter[layer + 1] = LayerScatter.of(kernel, behind, len(mean))
        return _state(behind.kernel, behind.mean)

    with np.errstate(all="ignore"):
        through = strides(forth, _state(start.kernel, start.mean), layers)
    if not np.isfinite(through.states).all():
        return None
    for layer in set(signals) - through.computed:
        del signals[layer], scatter[layer]

    def signal_of(layer: int) -> Signal:
        if layer not in signals:
            near, state = min(signals, key=lambda other: abs(other - layer)), through.states[layer - 1]
            if np.abs(state - through.states[near - 1]).max() < AT_REST:  # layers are one map, of what is in front
                signals[layer] = signals[near]
            else:
                signals[layer] = model.layer(layer, *_kernel_and_mean(state))
        return signals[layer]

    def backward(gradient: Array) -> Gradients:
        length, variances = len(gradient), dict[int, float]()

        def back(behind: int, state: Array) -> Array:
            """Go from the gradient behind a layer to that in front of it, at a size of 1: it is linear."""
            layer, size = layers - behind, state[:length].max()
            kernel, mean = _kernel_and_mean(np.concatenate([state[:length] - size, state[length:]]))
            arrived = signal_of(layer).backward(kernel)
            variances[layer] = gradient_variance(kernel, arrived, signals[layer].transfer, model.sizes)
            state = _state(arrived, mean, NO_GRADIENT_CARRIED)
            state[:length] += size
            return state

        with np.errstate(all="ignore"):
            known = {layers - layer for layer in signals}
            way = strides(back, _state(gradient, np.zeros(length), NO_GRADIENT_CARRIED), layers, cheap=known)
            states = way.states[::-1]
            if not np.isfinite(states).all():
                return _one_by_one(model, start).backward(gradient)
            squares = np.exp(states[:, :length]).mean(1)
        own = {layer: variances[layer] for layer in (layers - behind + 1 for behind in way.computed if behind)}
        return Gradients(tuple(squares.tolist()), _mean_cosines(states, length), own)

    kernels = (start.kernel, *(_kernel_and_mean(state)[0] for state in through.states[1:]))
    kept = _kept(start, signals, layers)
    attention = _attention(signals)
    sampled = tuple(sorted(model.elsewhere.sampled))
    return LayerKernels(kernels, kept, signals[layers].mean, through.computed, scatter, attention, sampled, backward)


def _attention(signals: Mapping[int, Signal]) -> tuple[AttentionStart, ...]:
    return tuple(replace(each, layer=layer) for layer in sorted(signals) for each in signals[layer].attention)


def _state(kernel: Array, mean: Array, nothing: float = NOTHING) -> Array:
    """The state of a layer: T + T (T - 1) / 2 + T numbers."""
    squares = np.maximum(np.diag(kernel), nothing * np.diag(kernel).max())
    with np.errstate(all="ignore"):
        size, (first, second) = np.sqrt(squares), _pairs(len(kernel))
        apart = 1 - kernel[first, second] / (size[first] * size[second])
        return np.concatenate([np.log(squares), np.log(np.maximum(apart, ALIKE)), mean / size])


def _mean_cosines(states: Array, length: int) -> tuple[float, ...]:
    """The mean cosines of the `Gradients` of states, [layers + 1, numbers]; NaN for one token."""
    if length < 2:
        return (np.nan,) * len(states)
    squares = np.exp(states[:, :length] - states[:, :length].max(1, keepdims=True))
    weights, (first, second) = np.sqrt(squares / (squares + NO_GRADIENT)), _pairs(length)
    cosines = weights[:, first] * weights[:, second] * (1 - np.exp(states[:, length:-length]))
    return tuple(cosines.mean(1).tolist())


def _kernel_and_mean(state: Array) -> tuple[Array, Array]:
    length = round((np.sqrt(9 + 8 * len(state)) - 3) / 2)
    size = np.exp(state[:length] / 2)
    cosines = np.append(1 - np.exp(state[length:-length]), 1.0)
    return cosines[_place(length)] * np.outer(size, size), state[-length:] * size


@functools.lru_cache(maxsize=4)
def _pairs(length: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(length, 1)


@functools.lru_cache(maxsize=4)
def _place(length: int) -> NDArray[np.intp]:
    """The place of each pair of tokens among `_pairs`, [T, T]; that behind the last for a token and itself."""
    first, second = _pairs(length)
    place = np.full((length, length), len(first), dtype=np.intp)
    place[first, second] = place[second, first] = np.arange(len(first))
    return place


def _kept(start: Signal, signals: Mapping[int, Signal], layers: int) -> Array | None:
    """The transfer through all layers; one between those computed has that of the next computed one."""
    kept, before = start.transfer, 0
    for layer in sorted(signals):
        transfer = signals[layer].transfer
        for _ in range(layer - before):
            kept = _then(kept, transfer)
        before = layer
    return kept


def _then(before: Array | None, after: Array | None) -> Array | None:
    return None if before is None else transferred(after, before)
