"""Sites: the other places of the stream at which a probe may read.

    blocks               the input of every block, and of the head: where every stream probe reads by its own name
    before_sublayers     the residual stream where the sub-layer of each mixer begins: where its skip sets out, which is
                         before its norm in Pre-LN; attention and MLP apart
    behind_norms         what each mixer is itself given: behind its norm where there is one, else the same stream

A probe at a site is a probe of its own, `kurtosis_behind_norms`, and so are its metrics, at the addresses of the mixers
(`layers.3.attention`, `layers.3.mlp`): nothing that is read at the inputs of blocks is mixed with them.

    He et al. 2024, App. G, arXiv:2405.19279: CodeParrot before the attention (and, to the same effect, the MLP)
    sub-layer, Languini behind the Pre-Norm
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from torch import Tensor, nn


def renamed(measure: Callable[[Tensor], Mapping[str, Tensor]], site: str) -> Callable[[Tensor], Mapping[str, Tensor]]:
    """What a probe measures, under the names that its metrics have at a site."""
    return lambda x: {f"{metric}_{site}": value for metric, value in measure(x).items()}


def read_at(model: nn.Module, site: str) -> Iterator[tuple[str, nn.Module]]:
    """The addresses of a site, each with the module whose input is read."""
    layers = model.get_submodule("layers")
    if site == "blocks":
        yield from ((f"layers.{name}", block) for name, block in layers.named_children())
        yield "head", model.get_submodule("head")
        return
    for name, block in layers.named_children():
        sublayers: Mapping[str, str] = getattr(block, "sublayers", {})
        for mixer, begins in sublayers.items():
            yield f"layers.{name}.{mixer}", block.get_submodule(mixer if site == "behind_norms" else begins)
