"""Tokenizer: its protocol, bytes as tokens, the one that a space names, and one in a file, trained elsewhere.

Every document is followed by one separator token, so that a model can tell where it ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ablate.data.sources import CorpusError, CorpusFault, Text
from ablate.data.subwords import BpeTokenizer, LibraryTokenizer, SpecialTokens, UnigramTokenizer, WordPieceTokenizer
from ablate.source.problems import quote
from ablate.space.data import Bpe, SavedTokenizer, TokenizerChoice, Unigram, UnusableFileError, WordPiece, text_of

Tokens: TypeAlias = npt.NDArray[np.uint16]
TokenBytes: TypeAlias = npt.NDArray[np.int64]  # the bytes of text of each token


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
        """Return the text from which `tokenizer_from` rebuilds the tokenizer; None if `Data.tokenizer` is enough."""


@dataclass(frozen=True)
class ByteTokenizer:
    """A tokenizer whose tokens are the bytes of UTF-8; the separator is byte 0, which text hardly ever contains."""

    vocab_size: int = 256
    used: int = 256
    separator: int = 0

    @property
    def special(self) -> SpecialTokens:
        return SpecialTokens(self.separator)

    def encode(self, texts: Iterable[Text]) -> Tokens:
        joined = b"".join(part for text in texts for part in (text.content, b"\x00"))
        return np.frombuffer(joined, dtype=np.uint8).astype(np.uint16)

    def decode(self, tokens: npt.ArrayLike) -> str:
        return np.asarray(tokens).astype(np.uint8).tobytes().decode("utf-8", errors="replace")

    def token_bytes(self) -> TokenBytes:
        return np.ones(self.vocab_size, dtype=np.int64)

    def to_json(self) -> str | None:
        return None


def vocab_size_of(tokenizer: TokenizerChoice) -> int:
    """The size of the vocabulary, which is known before any text is read."""
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
    """Name a tokenizer by all that decides its tokens: what is trained or saved, with the release of its library, since
    others may merge differently; a file by its content.
    """
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
    """The tokenizer of `Data.tokenizer`, trained on the texts of the training split, or read from its file.

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


FILE_KEYS = ("data", "tokenizer", "file")


@dataclass(frozen=True)
class TokenizerOfFile(LibraryTokenizer):
    """The tokenizer of a file, with what was found out about it when the space was read.

    It cuts texts as it was saved, except that it adds no tokens of its own, neither before nor after a text, neither
    cuts a text off nor fills it up, and reads the names of special tokens inside a text as characters.
    """

    known: SavedTokenizer

    @staticmethod
    def read(known: SavedTokenizer, folder: Path) -> TokenizerOfFile:
        """Read the file. Raises CorpusError if it is no longer what it was when the space was read."""
        try:
            text = text_of(known, folder)
        except UnusableFileError as error:
            raise CorpusError([CorpusFault(error.message, FILE_KEYS, notes=error.notes)]) from error
        if hashlib.sha256(text.encode()).hexdigest() != known.content:
            message = f"the tokenizer {quote(known.file)} has changed since this was planned"
            raise CorpusError([CorpusFault(message, FILE_KEYS, notes=("plan again, or restore the file",))])
        return TokenizerOfFile.built(text, known)

    @staticmethod
    def built(text: str, known: SavedTokenizer) -> TokenizerOfFile:
        """Build the tokenizer from the content of its file, or from the result of `to_json`."""
        from tokenizers import Tokenizer as Trained

        trained = Trained.from_str(text)
        trained.encode_special_tokens = True  # characters inside a text never become a special token
        trained.no_truncation()
        trained.no_padding()
        return TokenizerOfFile(trained, known.size, known)

    @property
    def special(self) -> SpecialTokens:
        known = self.known
        return SpecialTokens(known.separator_id, padding=known.padding, mask=known.mask, start=known.start)

    @property
    def used(self) -> int:
        return self.vocab_size

    def token_bytes(self) -> npt.NDArray[np.int64] | None:
        """The bytes of each token of byte-level BPE; None for a tokenizer that loses some of the text.

        A byte is a character of a merged token; an added token is the text that it stands for. The separator counts as
        one, and other special tokens, which stand for no text, as none.
        """
        if self.known.lossy:
            return None
        sizes = np.zeros(self.vocab_size, dtype=np.int64)
        for token, id in self.trained.get_vocab(with_added_tokens=False).items():
            sizes[id] = len(token)
        for id, added in self.trained.get_added_tokens_decoder().items():
            sizes[id] = 0 if added.special else len(added.content.encode())
        sizes[self.separator] = 1
        return sizes
