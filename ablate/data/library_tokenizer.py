"""LibraryTokenizer: what tokenizers of the library `tokenizers` have in common, however they were trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from ablate.data.special import SpecialTokens
from ablate.data.text import Text

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Trained


@dataclass(frozen=True)
class LibraryTokenizer(ABC):
    """A trained tokenizer of the library, with `vocab_size` ids."""

    trained: Trained
    vocab_size: int

    @classmethod
    def from_json(cls, trained: str, vocab_size: int) -> Self:
        """Rebuild a tokenizer from the result of `to_json`."""
        from tokenizers import Tokenizer as Trained

        tokenizer = Trained.from_str(trained)
        tokenizer.encode_special_tokens = True  # characters inside a text never become a special token
        return cls(tokenizer, vocab_size)

    @property
    @abstractmethod
    def special(self) -> SpecialTokens:
        """The ids that stand for no text."""

    @property
    def separator(self) -> int:
        """The token after every document."""
        return self.special.separator

    @property
    def used(self) -> int:
        """The number of the `vocab_size` ids that stand for a token."""
        return int(self.trained.get_vocab_size())

    def encode(self, texts: Iterable[Text]) -> npt.NDArray[np.uint16]:
        """Return the tokens of all texts in order, with the separator after each."""
        pieces = [np.empty(0, dtype=np.uint16)]
        rest = iter(texts)
        while some := list(islice(rest, 64)):
            written = [text.content.decode("utf-8") for text in some]
            encoded = self.trained.encode_batch_fast(written, add_special_tokens=False)
            pieces += (np.array([*each.ids, self.separator], dtype=np.uint16) for each in encoded)
        return np.concatenate(pieces)

    def decode(self, tokens: npt.ArrayLike) -> str:
        """Return the text, special tokens included."""
        return str(self.trained.decode(np.asarray(tokens).tolist(), skip_special_tokens=False))

    def to_json(self) -> str | None:
        """Return all that decides the tokens of a text."""
        return str(self.trained.to_str())
