"""What a tokenizer is, bytes as tokens, and the tokenizer that a space names.

Every document is followed by one separator token, so that a model can tell where it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ablate.data.bpe import BpeTokenizer
from ablate.data.saved import TokenizerOfFile
from ablate.data.special import SpecialTokens
from ablate.data.text import Text
from ablate.data.unigram import UnigramTokenizer
from ablate.data.wordpiece import WordPieceTokenizer
from ablate.space.documents import Bpe, TokenizerChoice, Unigram, WordPiece
from ablate.space.saved_tokenizer import SavedTokenizer

Tokens: TypeAlias = npt.NDArray[np.uint16]
TokenBytes: TypeAlias = npt.NDArray[np.int64]
"""The bytes of text of each token."""


class Tokenizer(Protocol):
    """Text to tokens and back."""

    @property
    def vocab_size(self) -> int:
        """The size of the vocabulary: tokens are below it."""

    @property
    def used(self) -> int:
        """The number of these ids that stand for a token: training on little text may leave some over."""

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
    used: int = 256
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


def vocab_size_of(tokenizer: TokenizerChoice) -> int:
    """Return the size of the vocabulary, which is known before any text is read."""
    match tokenizer:
        case Bpe():
            return tokenizer.bpe
        case WordPiece():
            return tokenizer.wordpiece.size
        case Unigram():
            return tokenizer.unigram
        case SavedTokenizer():
            return tokenizer.size
    return ByteTokenizer().vocab_size


def describe_tokenizer(tokenizer: TokenizerChoice) -> str:
    """Name a tokenizer by what decides its tokens: what is trained or saved, with the release of its library, since
    others may merge differently; a file by its content."""
    match tokenizer:
        case Bpe():
            return f"bpe {tokenizer.bpe} ({_library()})"
        case WordPiece():
            pieces = tokenizer.wordpiece
            return f"wordpiece {pieces.size} {'lowercase' if pieces.lowercase else 'cased'} ({_library()})"
        case Unigram():
            return f"unigram {tokenizer.unigram} (sentencepiece {version('sentencepiece')})"
        case SavedTokenizer():
            return f"file {tokenizer.content[:16]} ({_library()})"
    return "bytes"


def train_tokenizer(tokenizer: TokenizerChoice, texts: Sequence[Text], folder: Path = Path()) -> Tokenizer:
    """Train the tokenizer that `Data.tokenizer` names on the texts of the training split, or read it from its file.

    `folder` is where relative paths start.
    """
    match tokenizer:
        case Bpe():
            return BpeTokenizer.train(texts, tokenizer.bpe)
        case WordPiece():
            pieces = tokenizer.wordpiece
            return WordPieceTokenizer.train(texts, pieces.size, lowercase=pieces.lowercase)
        case Unigram():
            return UnigramTokenizer.train(texts, tokenizer.unigram)
        case SavedTokenizer():
            return TokenizerOfFile.read(tokenizer, folder)
    return ByteTokenizer()


def tokenizer_from(tokenizer: TokenizerChoice, trained: str | None) -> Tokenizer:
    """Rebuild a tokenizer from the result of its `to_json`."""
    if trained is None:
        return ByteTokenizer()
    match tokenizer:
        case Bpe():
            return BpeTokenizer.from_json(trained, tokenizer.bpe)
        case WordPiece():
            return WordPieceTokenizer.from_json(trained, tokenizer.wordpiece.size)
        case Unigram():
            return UnigramTokenizer.from_json(trained, tokenizer.unigram)
        case SavedTokenizer():
            return TokenizerOfFile.built(trained, tokenizer)
    return ByteTokenizer()


def _library() -> str:
    return f"tokenizers {version('tokenizers')}"
