"""Sites: the other places of the residual stream where a probe may read.

    blocks               the input of every block, and of the head: the default of every stream probe
    before_sublayers     the residual stream where the sub-layer of each mixer begins: where its skip branches off, in
                         Pre-LN before its norm; attention and MLP separately
    behind_norms         the input of each mixer itself: after its norm if there is one, else the same stream
    in_training          the inputs of the blocks and of the head again, but in measured steps of training, on their
                         batch and with dropout, where all others are read at evaluations

A probe at a site is a separate probe, such as `kurtosis_behind_norms`, with its own metrics, at the addresses of the
mixers (`layers.3.attention`, `layers.3.mlp`) or of the blocks.

    He et al. 2024, App. G, arXiv:2405.19279: CodeParrot before the attention (and, to the same effect, the MLP)
    sub-layer, Languini behind the Pre-Norm
    Kedia et al. 2024, Sec. 3.4, arXiv:2403.09635: dropout keeps tokens apart, which an evaluation does not show
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from torch import Tensor, nn

from ablate.block.address import ENCODER
from ablate.space.metrics import BEHIND_NORMS, IN_TRAINING


def renamed(measure: Callable[[Tensor], Mapping[str, Tensor]], site: str) -> Callable[[Tensor], Mapping[str, Tensor]]:
    return lambda x: {f"{metric}_{site}": value for metric, value in measure(x).items()}


def read_at(model: nn.Module, site: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the addresses of a site, each with the module whose input is read."""
    blocks = [(f"{stack}.{name}", block) for stack, layers in stacks(model) for name, block in layers.named_children()]
    if site in ("blocks", IN_TRAINING):
        yield from blocks
        yield "head", model.get_submodule("head")
        return
    for address, block in blocks:
        sublayers: Mapping[str, str] = getattr(block, "sublayers", {})
        for mixer, begins in sublayers.items():
            yield f"{address}.{mixer}", block.get_submodule(mixer if site == BEHIND_NORMS else begins)


def behind_last(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the last layer of each stack, whose output is read, with its address: `layers.end`, `encoder.end`.

    A final norm or the head is given something else: behind the norm, scaled, or of tokens further ahead.
    """
    for stack, layers in stacks(model):
        for layer in list(layers.children())[-1:]:
            yield f"{stack}.end", layer


def stacks(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The stacks of layers by name, in the order in which they run: an encoder's before the decoder's."""
    children = dict(model.named_children())
    yield from ((name, children[name]) for name in (ENCODER, "layers") if name in children)
