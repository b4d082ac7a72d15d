"""The largest logit of each head, exact, without holding all of them.

    max over the batch, and over the pairs (t, s) that are seen, of  scale · q_t·k_s        before maps and biases

Dimension key: B batch, H heads, T queries, S keys, K width of a head.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ablate.kernels.eager import hidden
from ablate.kernels.mask import Mask, named, seen_pairs
from ablate.kernels.precision import as_given
from ablate.kernels.scale import with_positive_scale


@torch.no_grad()
def largest_logits(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    *,
    causal: bool,
    scale: float,
    mask: Mask | None = None,
    padding: Bool[Tensor, "B S"] | None = None,
    rows: int = 256,
) -> Float[Tensor, "H"]:
    """Compute it in the dtype of q, `rows` queries at a time; in float32 at least. A `mask` replaces `causal`.

    `padding` is True for the keys that are tokens, and a query that sees none has no logit.
    """
    q, scale = with_positive_scale(q, scale)
    mask, causal = named(mask, causal=causal)
    found = []
    with as_given(q.device.type):
        for first in range(0, q.shape[-2], rows):
            within = q[..., first : first + rows, :]
            products = within @ k.mT
            size = {"n_queries": within.shape[-2], "n_keys": k.shape[-2]}
            pairs = seen_pairs(mask, padding, causal=causal, device=q.device, first=first, **size)
            if pairs is not None:
                products.masked_fill_(~pairs.keys, -torch.inf)
                if pairs.blind is not None:
                    products.masked_fill_(pairs.blind, -torch.inf)
            elif causal:
                products.masked_fill_(hidden(products, first), -torch.inf)
            found.append(products.amax(dim=(0, 2, 3)))
    largest = torch.stack(found).amax(0)
    return scale * largest.to(torch.promote_types(largest.dtype, torch.float32))
