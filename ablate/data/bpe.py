"""Byte-level BPE, which turns any text into tokens and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ablate.data.library_tokenizer import LibraryTokenizer
from ablate.data.special import SpecialTokens
from ablate.data.text import Text

END_OF_TEXT = "<|endoftext|>"
"""The separator. Only the separator becomes this token: the same characters inside a text stay characters."""


@dataclass(frozen=True)
class BpeTokenizer(LibraryTokenizer):
    """Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909; on bytes as in GPT-2).

    Token 0 is the separator, then come the 256 bytes, then merges by decreasing frequency in the training split.
    """

    @staticmethod
    def train(texts: Iterable[Text], vocab_size: int) -> BpeTokenizer:
        """Learn merges from `texts`: the same for the same texts, on any number of threads.

        A small corpus may run out of pairs that occur twice; the ids without a merge then stay unused (see `used`).
        """
        from tokenizers import Tokenizer as Trained
        from tokenizers import decoders, models, pre_tokenizers, trainers

        trained = Trained(models.BPE())
        trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trained.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        trained.train_from_iterator((text.content.decode("utf-8") for text in texts), trainer)
        return BpeTokenizer.from_json(trained.to_str(), vocab_size)

    @property
    def special(self) -> SpecialTokens:
        """The separator alone."""
        return SpecialTokens(separator=0)

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """Return the bytes of each token: one for each character, since byte-level BPE writes a byte as a character.

        The separator counts as one; an unused id counts as none.
        """
        sizes = np.zeros(self.vocab_size, dtype=np.int64)
        for token, id in self.trained.get_vocab().items():
            sizes[id] = len(token)
        sizes[self.separator] = 1
        return sizes
