"""A tokenizer that was trained elsewhere, read from the file that a space names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ablate.data.library_tokenizer import LibraryTokenizer
from ablate.data.refusal import CorpusError, CorpusFault
from ablate.data.special import SpecialTokens
from ablate.source.problems import quote
from ablate.space.saved_tokenizer import SavedTokenizer, UnusableFileError, text_of

FILE = ("data", "tokenizer", "file")


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
            raise CorpusError([CorpusFault(error.message, FILE, notes=error.notes)]) from error
        if hashlib.sha256(text.encode()).hexdigest() != known.content:
            message = f"the tokenizer {quote(known.file)} has changed since this was planned"
            raise CorpusError([CorpusFault(message, FILE, notes=("plan again, or restore the file",))])
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
        """The special tokens that were found by their names."""
        known = self.known
        return SpecialTokens(known.separator_id, padding=known.padding, mask=known.mask, start=known.start)

    @property
    def used(self) -> int:
        """All ids: none was asked for."""
        return self.vocab_size

    def token_bytes(self) -> npt.NDArray[np.int64] | None:
        """Return the bytes of each token of byte-level BPE; None for a tokenizer that loses some of the text.

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
