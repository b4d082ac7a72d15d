"""Encoder: blocks that see a whole sequence, alone under a head for its tokens, or before a decoder that reads them.

Alone (`Encoder`), it predicts the tokens of the sequence; with classes, of the sequence too:

    x_0 = entry_norm(dropout(positions(embedding(tokens) + S[segments])))     x_l = layers.l(x_{l-1})
    h = final_norm(x_L)
    logits = head(logit_scale * h)                                            or, with a transform,
    logits = head(logit_scale * norm(φ(h W_tᵀ + b_t))) + b                    φ: gelu, relu or tanh
    classes = tanh(h_0 W_pᵀ + b_p) W_cᵀ + b_c                                 of the first token, where there are any

S are as many rows as there are `segments`, from N(0, std²) as the embedding; without a table the model is not told
the segments. The transform's norm is a component as the entry norm, or the final norm where there is none. No query
sees tokens that are `padding` of the sizes.

    Devlin et al. 2018, arXiv:1810.04805 (Post-LN, an entry norm, a transform by GELU); Geiping & Goldstein 2022,
    arXiv:2212.14034 (Pre-LN, without a transform)

Before a decoder (`EncoderDecoder`), it reads a whole source, and the decoder predicts the next token of a target:

    e_0 = encoder_entry_norm(dropout(positions(embedding(source))))    e_l = encoder.l(e_{l-1})
    encoder = encoder_norm(e_M)                                        read by cross-attention, [B, S, D]
    x_0 = entry_norm(dropout(positions(embedding(tokens))))            x_l = layers.l(x_{l-1}; encoder)
    logits = head(logit_scale * final_norm(x_L))                       as in a decoder (`decoder.py`)

Both stacks repeat one block: the decoder's layers are the block, causal in its own attention, and the encoder's are
the block without the sub-layers that read `encoder` (`block/architecture.py`), bidirectional. `depth` and `layer` in
arithmetic are those of the stack. Embedding and positions are shared, entry and final norms are each stack's own.
Where the model reads frames [B, S, F] rather than tokens, a linear map with a bias, `frames`, stands in the
embedding's place:

    embedding(source) = frames(source) = source Wᵀ + b        b starts at 0

No query of either stack sees padding of the source. Padding of a target, behind its end, is seen by no token of it,
so that attention need not know it: only probes leave it out.

    Vaswani et al. 2017, arXiv:1706.03762 (Post-LN, without final norms); Raffel et al. 2020, arXiv:1910.10683
    (Pre-LN, a final norm of each stack, as many layers in both)

Dimension key: B batch, S length of the source, T time or length of the target, F features, D width, V size of the
vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ablate.block.address import ENCODER, ValuePlace
from ablate.block.architecture import Architecture, check_reads_encoder, encoder_block
from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Surroundings
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.decoder import Affine, Decoder, TokenEmbedding
from ablate.compiler.values import KeptValue, ValuesRead
from ablate.kernels.attend import Attend


class Padding:
    """The tokens of sequences while a forward pass runs: `real` is [B, S], True for tokens, False for padding."""

    def __init__(self) -> None:
        self.real: Tensor | None = None

    def __call__(self) -> Bool[Tensor, "B S"]:
        """Raise RuntimeError outside of a pass."""
        if self.real is None:
            raise RuntimeError("what fills up sequences is known in a forward pass only")
        return self.real

    def tell(self, model: nn.Module, *, stack: str) -> None:
        """Let attention in a stack, or that reads elsewhere, leave out padding as keys; forgotten behind each pass."""
        for name, module in model.named_modules():
            if isinstance(module, Attend) and (module.elsewhere or name.startswith(f"{stack}.")):
                module.padding = self
        model.register_forward_hook(self.forget, always_call=True)

    def tell_probes(self, model: nn.Module, *, stacks: tuple[str, ...]) -> None:
        """Tell probes of stacks whose attention computes without it which queries are tokens."""
        for name, module in model.named_modules():
            if isinstance(module, Attend) and name.partition(".")[0] in stacks:
                module.queries = self.known
        model.register_forward_hook(self.forget, always_call=True)

    def known(self) -> Bool[Tensor, "B S"] | None:
        """None outside of a pass, and without padding."""
        return self.real

    def forget(self, *_: object) -> None:
        self.real = None

    def __getstate__(self) -> dict[str, object]:
        """Leave `real` out of copies and pickles."""
        return {"real": None}


# Encoders alone.

ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "gelu": nn.functional.gelu,
    "relu": nn.functional.relu,
    "tanh": torch.tanh,
}


class Encoder(Decoder):
    """[B, T] tokens, and [B, T] segments where it has any -> [B, T, V] logits, and [B, C] where it has classes."""

    def __init__(self, architecture: Architecture, catalogue: Catalogue, address: SlotAddress):
        super().__init__(architecture, catalogue, address)
        sizes, numbers = architecture.sizes, architecture.numbers()
        self.segments = None
        if architecture.segments:
            self.segments = TokenEmbedding(architecture.segments, sizes.d_model, std=numbers["embedding_std"], scale=1)
        self.transform = None
        if architecture.transform != "none":
            around = Builder(catalogue, Surroundings(sizes), address)
            norm = architecture.transform_norm()
            self.transform = Transform(
                Affine(sizes.d_model, sizes.d_model),
                ACTIVATIONS[architecture.transform],
                around.part(norm, ("transform_norm",))(sizes.d_model),
            )
            self.head_bias = nn.Parameter(torch.zeros(sizes.vocab_size))
        self.classifier = Classifier(sizes.d_model, architecture.classes) if architecture.classes else None
        self.padding, self.sequence_padding = sizes.padding, Padding()
        if self.padding is not None:
            self.sequence_padding.tell(self, stack="layers")

    def forward(  # type: ignore[override]  # a decoder has no segments
        self, tokens: Int[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T V"] | tuple[Float[Tensor, "B T V"], Float[Tensor, "B C"]]:
        if self.padding is not None:
            self.sequence_padding.real = tokens != self.padding
        embedded = self.embedding(tokens)
        if self.segments is not None:
            embedded = embedded + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        x = self.normed(self.applied(embedded, self.entry_norm, self.layers))
        logits = self.scored(x if self.transform is None else self.transform(x))
        if self.transform is not None:
            logits = logits + self.head_bias
        return logits if self.classifier is None else (logits, self.classifier(x[:, 0]))

    def real_tokens(self) -> Bool[Tensor, "B T"] | None:
        """In a forward pass, True for tokens; None without padding."""
        return self.sequence_padding.real


class Transform(nn.Module):
    """y = norm(φ(x Wᵀ + b))."""

    def __init__(self, dense: Affine, activation: Callable[[Tensor], Tensor], norm: nn.Module):
        super().__init__()
        self.dense, self.activation, self.norm = dense, activation, norm

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        y: Tensor = self.norm(self.activation(self.dense(x)))
        return y


class Classifier(nn.Module):
    """y = tanh(x W_pᵀ + b_p) W_cᵀ + b_c."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.pooler, self.classes = Affine(width, width), Affine(width, classes)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B C"]:
        y: Tensor = self.classes(torch.tanh(self.pooler(x)))
        return y


# Encoder-decoders.

ENCODER_NAMES = {"entry_norm": "encoder_entry_norm"}
"""Names of parts in front of the encoder's layers, by those in front of the decoder's."""


class EncoderDecoder(Decoder):
    """[B, S] tokens or [B, S, F] frames, and [B, T] tokens -> [B, T, V] logits."""

    def __init__(self, architecture: Architecture, catalogue: Catalogue, address: SlotAddress):
        check_reads_encoder(architecture)
        encoded = KeptValue(ENCODER)
        super().__init__(architecture, catalogue, address, {ValuePlace(None, ENCODER): encoded})
        of_encoder = architecture.of_encoder()
        sizes, entry, final = of_encoder.sizes, architecture.entry_norm, architecture.final_norm
        around = Builder(catalogue, Surroundings(sizes), address)
        self.encoded = encoded
        self.frames = Affine(architecture.input_shape[-1], sizes.d_model) if architecture.input_shape else None
        self.encoder_entry_norm = around.part(entry, ("encoder_entry_norm",))(sizes.d_model) if entry else None
        self.encoder_norm = around.part(final, ("encoder_norm",))(sizes.d_model) if final else None
        read = ValuesRead()
        blocks = {}
        for n, source in enumerate(of_encoder.sources(), start=1):
            block = encoder_block(architecture.block, sizes.at(n), catalogue)
            blocks[n] = build_block(block, sizes, catalogue, n, address.at("encoder", source), read)
        self.encoder = nn.ModuleDict({str(n): block for n, block in blocks.items()})
        read.attach(self, blocks, ENCODER_NAMES)
        self.padding = None if self.frames is not None else sizes.padding
        self.source_padding = Padding()
        if self.padding is not None:
            self.source_padding.tell(self, stack="encoder")
        self.target_filler, self.target_padding = sizes.padding, Padding()
        self.target_padding.tell_probes(self, stacks=("layers", "ahead"))

    def forward(  # type: ignore[override]  # a decoder reads no source
        self, source: Int[Tensor, "B S"] | Float[Tensor, "B S F"], tokens: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        if self.target_filler is not None:
            self.target_padding.real = tokens != self.target_filler
        self.encoded.value = self.encode(source)
        logits: Tensor = super().forward(tokens)
        return logits

    def real_source(self) -> Bool[Tensor, "B S"] | None:
        """In a forward pass, True for tokens of the source; None without padding."""
        return self.source_padding.real

    def real_tokens(self) -> Bool[Tensor, "B T"] | None:
        """In a forward pass, True for tokens of the target; None without padding."""
        return self.target_padding.real

    def encode(self, source: Int[Tensor, "B S"] | Float[Tensor, "B S F"]) -> Float[Tensor, "B S D"]:
        """The encoder's output, behind its norm."""
        if self.padding is not None:
            self.source_padding.real = source != self.padding
        embedded = self.embedding(source) if self.frames is None else self.frames(source)
        x = self.applied(embedded, self.encoder_entry_norm, self.encoder)
        return x if self.encoder_norm is None else self.encoder_norm(x)
