"""Blocks that predict tokens further ahead, each for one of them, beside the head of the next token.

    logits_k = head(logit_scale * final_norm(ahead.k(x_L)))        k = 2, 3, …: the k-th token ahead; then the softcap

Each is a copy of the model's block as it is in the last layer, with parameters of its own; norm and head are the
model's. What a copy reads of the last layer (`from: attention.key`, `in`) is its own, and of any other layer the
model's: it stands where the last layer stands, but on the stream behind that.

They are for training alone: they run while a model trains and gradients are tracked, so an evaluation is that of the
model without them. What they give is kept until the loss asks for it.

    Gloeckle et al. 2024, arXiv:2404.19737, Sec. 2: a trunk, a transformer layer for each token, one unembedding. There
    the next token has a layer of its own as well; here it has the last block of the model.

Dimension key: B batch, T time, V size of the vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ablate.components.kept import Kept


class Ahead(nn.ModuleDict):
    """The blocks, by the token that each predicts: `2`, `3`, …; they run in every pass while `always` is set."""

    def __init__(self, blocks: Mapping[int, nn.Module]):
        super().__init__({str(token): block for token, block in blocks.items()})
        self.always = False
        self._kept = Kept()

    def runs(self, *, training: bool) -> bool:
        """Return whether they run in a pass of their model, which is `training` or not."""
        return self.always or (training and torch.is_grad_enabled())

    def keep(self, logits: Iterable[Tensor]) -> None:
        """Keep the logits [B, T, V] of each token, in their order, instead of what an earlier pass left."""
        if self.always:  # no loss asks for these: computed one by one, and let go
            deque(logits, maxlen=0)
        else:
            self._kept.keep(logits=tuple(logits))

    def take(self) -> tuple[Tensor, ...]:
        """Return what is kept, once: the logits of the second token ahead, the third, and so on."""
        logits: tuple[Tensor, ...] = self._kept.take().get("logits", ())
        return logits


def logits_ahead(model: nn.Module) -> tuple[Tensor, ...]:
    """Return, once, the logits [B, T, V] of the tokens further ahead from the pass that just ran; empty without any."""
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
