"""Encoder-decoder: an encoder that reads a whole source, and a decoder that predicts the next token of a target.

    e_0 = encoder_entry_norm(dropout(positions(embedding(source))))    e_l = encoder.l(e_{l-1})
    encoder = encoder_norm(e_M)                                        what cross-attention reads, [B, S, D]
    x_0 = entry_norm(dropout(positions(embedding(tokens))))            x_l = layers.l(x_{l-1}; encoder)
    logits = head(logit_scale * final_norm(x_L))                       as in a decoder (`decoder.py`)

Both stacks repeat one block: the decoder's layers are the block, causal in its own attention, and the encoder's are the
block without the sub-layers that read `encoder` (`block/cross.py`), bidirectional. `depth` and `layer` in arithmetic
are those of the stack. Embedding and positions are shared, entry and final norms are each stack's own. Where the model
reads frames [B, S, F] rather than tokens, a linear map with a bias, `frames`, stands in the embedding's place:

    embedding(source) = frames(source) = source Wᵀ + b        b starts at 0

Source tokens that are `padding` of the sizes fill up: no query of either stack sees them. What fills up a target,
behind its end, is seen by no token of it, so that attention need not know it: only probes leave it out.

    Vaswani et al. 2017, arXiv:1706.03762 (Post-LN, without final norms); Raffel et al. 2020, arXiv:1910.10683 (Pre-LN,
    a final norm of each stack, as many layers in both)

Dimension key: B batch, S length of the source, T length of the target, F features, D width, V size of the vocabulary.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.config_values import Surroundings
from ablate.block.cross import check_reads_encoder, encoder_block
from ablate.block.value_addresses import ENCODER, ValuePlace
from ablate.compiler.affine import Affine
from ablate.compiler.build import Builder, SlotAddress, build_block
from ablate.compiler.decoder import Decoder
from ablate.compiler.padding import Padding
from ablate.compiler.values import KeptValue, ValuesRead

OWN_NAMES = {"entry_norm": "encoder_entry_norm"}
"""What stands before the encoder's layers under another name than before the decoder's."""


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
        read.attach(self, blocks, OWN_NAMES)
        self.padding = None if self.frames is not None else sizes.padding
        self.source_padding = Padding()
        if self.padding is not None:
            self.source_padding.tell(self, stack="encoder")
        self.target_filler, self.target_padding = sizes.padding, Padding()
        self.target_padding.tell_probes(self, stacks=("layers", "ahead"))

    def forward(  # type: ignore[override]  # a decoder reads no source
        self, source: Int[Tensor, "B S"] | Float[Tensor, "B S F"], tokens: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """[B, S] or [B, S, F], and [B, T] -> [B, T, V]."""
        if self.target_filler is not None:
            self.target_padding.real = tokens != self.target_filler
        self.encoded.value = self.encode(source)
        logits: Tensor = super().forward(tokens)
        return logits

    def real_source(self) -> Bool[Tensor, "B S"] | None:
        """Return, in a forward pass, which places of the source are tokens; None where nothing fills it up."""
        return self.source_padding.real

    def real_tokens(self) -> Bool[Tensor, "B T"] | None:
        """Return, in a forward pass, which places of the target are tokens; None where nothing fills it up."""
        return self.target_padding.real

    def encode(self, source: Int[Tensor, "B S"] | Float[Tensor, "B S F"]) -> Float[Tensor, "B S D"]:
        """[B, S] or [B, S, F] -> [B, S, D]: the encoder's output, behind its norm."""
        if self.padding is not None:
            self.source_padding.real = source != self.padding
        embedded = self.embedding(source) if self.frames is None else self.frames(source)
        x = self.applied(embedded, self.encoder_entry_norm, self.encoder)
        return x if self.encoder_norm is None else self.encoder_norm(x)
