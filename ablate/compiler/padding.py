"""What fills up sequences, known to attention while a model passes over them."""

from __future__ import annotations

from jaxtyping import Bool
from torch import Tensor, nn

from ablate.kernels.attend import Attend


class Padding:
    """Which places of sequences are tokens, while a forward pass runs: `real` is [B, S], True for tokens.

    `tell` makes the attention of a model that `sees` it leave out the other places as keys.
    """

    def __init__(self) -> None:
        self.real: Tensor | None = None

    def __call__(self) -> Bool[Tensor, "B S"]:
        """Return it; RuntimeError outside of a pass."""
        if self.real is None:
            raise RuntimeError("what fills up sequences is known in a forward pass only")
        return self.real

    def tell(self, model: nn.Module, *, stack: str) -> None:
        """Tell the attention in a stack of a model, and what reads from elsewhere; forget it behind each pass."""
        for name, module in model.named_modules():
            if isinstance(module, Attend) and (module.elsewhere or name.startswith(f"{stack}.")):
                module.padding = self
        model.register_forward_hook(self.forget, always_call=True)

    def tell_probes(self, model: nn.Module, *, stacks: tuple[str, ...]) -> None:
        """Tell stacks whose attention computes without it which queries are tokens; forget it behind each pass."""
        for name, module in model.named_modules():
            if isinstance(module, Attend) and name.partition(".")[0] in stacks:
                module.queries = self.known
        model.register_forward_hook(self.forget, always_call=True)

    def known(self) -> Bool[Tensor, "B S"] | None:
        """Return it; None outside of a pass, and where nothing fills sequences up."""
        return self.real

    def forget(self, *_: object) -> None:
        """Let it go, when the pass has ended."""
        self.real = None

    def __getstate__(self) -> dict[str, object]:
        """Leave it out of copies and pickles."""
        return {"real": None}
