"""Unigram pieces, as SentencePiece trains them, with bytes for what has no piece: any text comes back as it was."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ablate.data.refusal import CorpusError, CorpusFault
from ablate.data.special import SpecialTokens
from ablate.data.text import Text

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

SPECIAL: Final = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""Tokens 0 to 4; then come the 256 bytes. The same characters inside a text stay characters."""
SPACE: Final = "\u2581"
"""How a piece writes a space. In a text it is written in bytes, so that it does not become a space."""
MOST_BYTES: Final = 2**26
"""Of more text, 64 MiB, pieces are learnt from every second line, every third, and so on: all of it would not fit."""
LONGEST: Final = 1_000
"""Characters of a line that are learnt from at once: the library leaves out lines of more than 4,192 bytes."""


@dataclass(frozen=True)
class UnigramTokenizer:
    """A text is cut into the pieces x_1 … x_n whose product of probabilities is the largest,

        argmax over cuts of  Σ log p(x_i),

    with p fitted by EM and the least useful pieces left out until `vocab_size` are left. No character is normalised,
    no space is added, and a character without a piece is the bytes of its UTF-8.

        Kudo 2018, arXiv:1804.10959; by SentencePiece, Kudo & Richardson 2018, arXiv:1808.06226
    """

    trained: SentencePieceProcessor
    vocab_size: int

    @staticmethod
    def train(texts: Sequence[Text], vocab_size: int) -> UnigramTokenizer:
        """Learn pieces from `texts`: the same for the same texts, in any process, on the one thread that is used.

        A small corpus has fewer pieces; the other ids then stay unused (see `used`). Raises CorpusError where the
        letters of the texts are more than the pieces.
        """
        from sentencepiece import SentencePieceTrainer

        model = io.BytesIO()
        padding, unknown, start, separator, mask = SPECIAL
        try:
            SentencePieceTrainer.train(
                sentence_iterator=_lines(texts),
                model_writer=model,
                model_type="unigram",
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                add_dummy_prefix=False,
                pad_id=0,
                unk_id=1,
                bos_id=2,
                eos_id=3,
                pad_piece=padding,
                unk_piece=unknown,
                bos_piece=start,
                eos_piece=separator,
                control_symbols=[mask],
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:  # there are more letters than pieces, or nothing but white space
            said = str(error).rpartition("] ")[2] or str(error)
            message = f"{vocab_size:,} unigram pieces cannot be learnt from this corpus: {said}"
            notes = ("ask for more pieces: 5 special ones, 256 bytes and each frequent letter are among them",)
            raise CorpusError([CorpusFault(message, ("data", "tokenizer", "unigram"), notes=notes)]) from error
        return UnigramTokenizer(_processor(model.getvalue()), vocab_size)

    @staticmethod
    def from_json(trained: str, vocab_size: int) -> UnigramTokenizer:
        """Rebuild a tokenizer from the result of `to_json`."""
        return UnigramTokenizer(_processor(base64.b64decode(trained)), vocab_size)

    @property
    def special(self) -> SpecialTokens:
        """The ids of `</s>`, `<pad>`, `<mask>` and `<s>`."""
        return SpecialTokens(separator=3, padding=0, mask=4, start=2)

    @property
    def separator(self) -> int:
        """The token after every document: `</s>`."""
        return self.special.separator

    @property
    def used(self) -> int:
        """The number of the `vocab_size` ids that stand for a token."""
        return int(self.trained.vocab_size())

    def encode(self, texts: Iterable[Text]) -> npt.NDArray[np.uint16]:
        """Return the pieces, with `</s>` after each text."""
        written = [self.trained.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE.encode()]
        pieces = [np.empty(0, dtype=np.uint16)]
        for text in texts:
            parts = text.content.decode("utf-8").split(SPACE)
            ids = [id for part in self.trained.encode(parts) for id in (*part, *written)]
            ids[-len(written) :] = [self.separator]
            pieces.append(np.array(ids, dtype=np.uint16))
        return np.concatenate(pieces)

    def decode(self, tokens: npt.ArrayLike) -> str:
        """Return the text, special tokens included."""
        held = self._bytes()
        return b"".join(held.get(id, b"") for id in np.asarray(tokens).tolist()).decode("utf-8", errors="replace")

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """Return the bytes of text of each piece; `</s>` counts as one, other special and unused ids as none."""
        sizes = np.zeros(self.vocab_size, dtype=np.int64)
        for id, content in self._bytes().items():
            sizes[id] = len(content)
        sizes[: len(SPECIAL)] = 0
        sizes[self.separator] = 1
        return sizes

    def to_json(self) -> str | None:
        """Return the model in base 64."""
        return base64.b64encode(self.trained.serialized_model_proto()).decode()

    def _bytes(self) -> dict[int, bytes]:
        """Return what each id stands for."""
        pieces = {id: self.trained.id_to_piece(id) for id in range(self.used)}
        return {
            id: bytes([int(piece[3:-1], 16)]) if self.trained.is_byte(id) else piece.replace(SPACE, " ").encode()
            for id, piece in pieces.items()
        }


def _processor(model: bytes) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_proto=model)


def _lines(texts: Sequence[Text]) -> Iterator[str]:
    """Yield the lines that pieces are learnt from, without the characters that the library leaves lines out for."""
    every = max(1, -(-sum(len(text.content) for text in texts) // MOST_BYTES))
    lines = (line for text in texts for line in text.content.decode("utf-8").split("\n"))
    for number, line in enumerate(lines):
        if number % every == 0:
            for part in line.replace(SPACE, "\t").split("\t"):
                cuts = [*range(0, len(part), LONGEST), len(part)]
                yield from (part[start:end] for start, end in pairwise(cuts))
