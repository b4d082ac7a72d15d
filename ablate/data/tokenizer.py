"""What a tokenizer is, and those that turn any text into tokens and back: bytes, and byte-level BPE.

Every document is followed by one separator token, so that a model can tell where it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ablate.data.special import SpecialTokens
from ablate.data.text import Text
from ablate.data.wordpiece import WordPieceTokenizer
from ablate.space.documents import Bpe, WordPiece

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Trained

Tokens: TypeAlias = npt.NDArray[np.uint16]
TokenBytes: TypeAlias = npt.NDArray[np.int64]
"""The bytes of text of each token."""

END_OF_TEXT = "<|endoftext|>"
"""The separator of BPE. Only the separator becomes this token: the same characters inside a text stay characters."""


class Tokenizer(Protocol):
    """Text to tokens and back."""

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary: tokens are below it."""

    @property
    def separator(self) -> int:
        """The token after every document."""

    @property
    def special(self) -> SpecialTokens:
        """The ids that stand for no text; the separator is one of them."""

    def encode(self, texts: Iterable[Text]) -> Tokens:
        """Return the tokens of all texts in order, each text followed by the separator."""

    def decode(self, tokens: npt.ArrayLike) -> str:
        """Return the text of `tokens`; bytes that are not UTF-8 (a text cut in two) appear as `\\ufffd`."""

    def token_bytes(self) -> TokenBytes | None:
        """Return the number of UTF-8 bytes of each of the `vocab_size` tokens; a separator counts as one.

        None: tokens do not say how much text they were, so there are no bits per byte. Otherwise a text has the same
        number of bytes under any tokenizer, and bits per byte are of the same bytes.
        """

    def to_json(self) -> str | None:
        """Return what `tokenizer_from` needs to rebuild the tokenizer; None if `Data.tokenizer` is enough."""


@dataclass(frozen=True)
class ByteTokenizer:
    """A tokenizer whose tokens are the bytes of UTF-8; the separator is byte 0, which text hardly ever contains."""

    vocab_size: int = 256
    separator: int = 0

    @property
    def special(self) -> SpecialTokens:
        """The separator alone: all ids are bytes."""
        return SpecialTokens(self.separator)

    def encode(self, texts: Iterable[Text]) -> Tokens:
        """Return the bytes, with byte 0 after each text."""
        joined = b"".join(part for text in texts for part in (text.content, b"\x00"))
        return np.frombuffer(joined, dtype=np.uint8).astype(np.uint16)

    def decode(self, tokens: npt.ArrayLike) -> str:
        """Decode the bytes as UTF-8."""
        return np.asarray(tokens).astype(np.uint8).tobytes().decode("utf-8", errors="replace")

    def token_bytes(self) -> TokenBytes:
        """Return one byte for each token."""
        return np.ones(self.vocab_size, dtype=np.int64)

    def to_json(self) -> str | None:
        """Return None: nothing was trained."""
        return None


@dataclass(frozen=True)
class BpeTokenizer:
    """Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909; on bytes as in GPT-2).

    Token 0 is the separator, then come the 256 bytes, then merges by decreasing frequency in the training split.
    """

    trained: Trained
    vocab_size: int
    separator: int = 0

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

    @staticmethod
    def from_json(trained: str, vocab_size: int) -> BpeTokenizer:
        """Rebuild a tokenizer from the result of `to_json`."""
        from tokenizers import Tokenizer as Trained

        tokenizer = Trained.from_str(trained)
        tokenizer.encode_special_tokens = True  # characters inside a text never become the separator
        return BpeTokenizer(tokenizer, vocab_size)

    @property
    def special(self) -> SpecialTokens:
        """The separator alone."""
        return SpecialTokens(self.separator)

    @property
    def used(self) -> int:
        """The number of the `vocab_size` ids that stand for a token."""
        return int(self.trained.get_vocab_size())

    def encode(self, texts: Iterable[Text]) -> Tokens:
        """Return the merged tokens, with `END_OF_TEXT` after each text."""
        pieces: list[Tokens] = [np.empty(0, dtype=np.uint16)]
        for some in _in_batches(texts, 64):
            encoded = self.trained.encode_batch_fast([text.content.decode("utf-8") for text in some])
            pieces += (np.array([*each.ids, self.separator], dtype=np.uint16) for each in encoded)
        return np.concatenate(pieces)

    def decode(self, tokens: npt.ArrayLike) -> str:
        """Return the text, with separators as `END_OF_TEXT`."""
        return str(self.trained.decode(np.asarray(tokens).tolist(), skip_special_tokens=False))

    def token_bytes(self) -> TokenBytes:
        """Return the bytes of each token: one for each character, since byte-level BPE writes a byte as a character.

        The separator counts as one; an unused id counts as none.
        """
        sizes = np.zeros(self.vocab_size, dtype=np.int64)
        for token, id in self.trained.get_vocab().items():
            sizes[id] = len(token)
        sizes[self.separator] = 1
        return sizes

    def to_json(self) -> str | None:
        """Return the vocabulary and merges."""
        return str(self.trained.to_str())


def vocab_size_of(tokenizer: Literal["bytes"] | Bpe | WordPiece) -> int:
    """Return the size of the vocabulary, which is known before any text is read."""
    if isinstance(tokenizer, WordPiece):
        return tokenizer.wordpiece.size
    return tokenizer.bpe if isinstance(tokenizer, Bpe) else ByteTokenizer().vocab_size


def describe_tokenizer(tokenizer: Literal["bytes"] | Bpe | WordPiece) -> str:
    """Name a tokenizer by what decides its tokens: what is trained with its release of `tokenizers`, since others may
    merge differently."""
    if isinstance(tokenizer, WordPiece):
        pieces = tokenizer.wordpiece
        case = "lowercase" if pieces.lowercase else "cased"
        return f"wordpiece {pieces.size} {case} (tokenizers {version('tokenizers')})"
    return f"bpe {tokenizer.bpe} (tokenizers {version('tokenizers')})" if isinstance(tokenizer, Bpe) else "bytes"


def train_tokenizer(tokenizer: Literal["bytes"] | Bpe | WordPiece, texts: Sequence[Text]) -> Tokenizer:
    """Train the tokenizer that `Data.tokenizer` names on the texts of the training split."""
    if isinstance(tokenizer, WordPiece):
        pieces = tokenizer.wordpiece
        return WordPieceTokenizer.train(texts, pieces.size, lowercase=pieces.lowercase)
    return BpeTokenizer.train(texts, tokenizer.bpe) if isinstance(tokenizer, Bpe) else ByteTokenizer()


def tokenizer_from(tokenizer: Literal["bytes"] | Bpe | WordPiece, trained: str | None) -> Tokenizer:
    """Rebuild a tokenizer from the result of its `to_json`."""
    if isinstance(tokenizer, WordPiece) and trained is not None:
        return WordPieceTokenizer.from_json(trained, tokenizer.wordpiece.size)
    if isinstance(tokenizer, Bpe) and trained is not None:
        return BpeTokenizer.from_json(trained, tokenizer.bpe)
    return ByteTokenizer()


def _in_batches(texts: Iterable[Text], size: int) -> Iterator[list[Text]]:
    """Yield `texts` in lists of at most `size`."""
    rest = iter(texts)
    while some := list(islice(rest, size)):
        yield some
