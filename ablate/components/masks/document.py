"""Document: a query sees no key of another document, where a sequence spans several.

    query i sees key j where j ≤ i and d_j = d_i        d_i: the separators before token i; without j ≤ i if not causal

A separator belongs to the document that it ends. Positions go on counting through the sequence.

    Zhao et al. 2024, arXiv:2402.13991, intra-document causal masking
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ablate.components.declare import Cost, Maker, Node, Sizes, arithmetic, component, earlier, fixed, implements
from ablate.errors import InputError


@component("document", slots=("mask",), source="Zhao et al. 2024, arXiv:2402.13991", shorthand="separator", version=1)
class Config:
    """`separator` is the number of the token that ends a document; none: the tokenizer's. `of` are the tokens."""

    leaks: ClassVar[bool] = False

    of: Maker = earlier()
    separator: float | None = arithmetic(at_least=0.0, whole=True, optional=True)

    def cost(self, sizes: Sizes) -> Cost:
        """Raise InputError for a token outside the vocabulary."""
        if self.separator is not None and self.separator >= sizes.vocab_size:
            raise InputError(
                f"document.separator is {self.separator:g}, but tokens are below {sizes.vocab_size}\n"
                "  = leave it out: it is the tokenizer's then"
            )
        read: Cost = self.of("tokens")
        return read

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """The mask without a separator of its own where that is the tokenizer's."""
        return node.replace({"separator": None}) if fixed(node["separator"]) == sizes.separator else node

    def propagate(self, sizes: Sizes) -> Any:
        raise InputError(
            "document is not forecast: which tokens are of one document depends on the text\n"
            "  = set mask: none, as for a text of one document"
        )

    def equation(self) -> str:
        return "j ≤ i in the same document"


from collections.abc import Hashable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ablate.kernels.mask import MaskOfBatch


@dataclass(frozen=True, eq=False)
class DocumentMask(MaskOfBatch):
    """The keys of the same document, of the past alone if `causal`."""

    documents: Int[Tensor, "B T"]
    causal: bool = True

    @property
    def batch(self) -> int:
        return len(self.documents)

    def of_one(self) -> DocumentMask:
        """The mask of the sequence with the most documents."""
        most = int(self.documents[:, -1].argmax())
        return DocumentMask(self.documents[most : most + 1], self.causal)

    def sees(self, b: Int[Tensor, "*#at"], t: Int[Tensor, "*#at"], s: Int[Tensor, "*#at"]) -> Bool[Tensor, "*#at"]:
        same = self.documents[b, t] == self.documents[b, s]
        return same & (s <= t) if self.causal else same


def document_mask(tokens: Int[Tensor, "B T"], store: dict[Hashable, Any], separator: int, causal: bool) -> DocumentMask:
    ends = (tokens == separator).to(torch.int64)
    return DocumentMask(ends.cumsum(-1) - ends, causal, held=store)


@implements(Config)
class Document:
    def __init__(self, config: Config, sizes: Sizes):
        self.read = config.of("tokens")
        self.separator = sizes.separator if config.separator is None else int(config.separator)
        self.causal = sizes.causal

    def mask(self) -> DocumentMask:
        """The mask of a pass, the same object in all layers."""
        mask: DocumentMask = self.read.once(document_mask, self.separator, self.causal)
        return mask
