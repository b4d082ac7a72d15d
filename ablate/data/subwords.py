"""Subwords: tokenizers whose pieces are learnt from the training split: byte-level BPE, WordPiece and unigram pieces.

`tokenizers` trains the first two, `sentencepiece` the last; both are imported only where a space names them.
"""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt

from ablate.data.sources import CorpusError, CorpusFault, Text

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer as Trained


@dataclass(frozen=True)
class SpecialTokens:
    """The ids that stand for no text; None: the tokenizer has none.

    `separator` ends a document, `padding` fills up a sequence, `mask` replaces a token to be predicted, and `start`
    comes before a sequence (or is what a whole sequence is classified by).
    """

    separator: int
    padding: int | None = None
    mask: int | None = None
    start: int | None = None


@dataclass(frozen=True)
class LibraryTokenizer(ABC):
    """A trained tokenizer of the library `tokenizers`, with `vocab_size` ids."""

    trained: Trained
    vocab_size: int

    @classmethod
    def from_json(cls, trained: str, vocab_size: int) -> Self:
        from tokenizers import Tokenizer as Trained

        tokenizer = Trained.from_str(trained)
        tokenizer.encode_special_tokens = True  # characters inside a text never become a special token
        return cls(tokenizer, vocab_size)

    @property
    @abstractmethod
    def special(self) -> SpecialTokens: ...

    @property
    def separator(self) -> int:
        return self.special.separator

    @property
    def used(self) -> int:
        return int(self.trained.get_vocab_size())

    def encode(self, texts: Iterable[Text]) -> npt.NDArray[np.uint16]:
        pieces = [np.empty(0, dtype=np.uint16)]
        rest = iter(texts)
        while some := list(islice(rest, 64)):
            written = [text.content.decode("utf-8") for text in some]
            encoded = self.trained.encode_batch_fast(written, add_special_tokens=False)
            pieces += (np.array([*each.ids, self.separator], dtype=np.uint16) for each in encoded)
        return np.concatenate(pieces)

    def decode(self, tokens: npt.ArrayLike) -> str:
        return str(self.trained.decode(np.asarray(tokens).tolist(), skip_special_tokens=False))

    def to_json(self) -> str | None:
        return str(self.trained.to_str())


# Byte-level BPE.

END_OF_TEXT = "<|endoftext|>"
"""The separator. The same characters inside a text stay characters."""


@dataclass(frozen=True)
class BpeTokenizer(LibraryTokenizer):
    """Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909; on bytes as in GPT-2).

    Token 0 is the separator, then come the 256 bytes, then merges by decreasing frequency in the training split.
    """

    @staticmethod
    def train(texts: Iterable[Text], vocab_size: int) -> BpeTokenizer:
        """Learn merges: the same for the same texts, on any number of threads.

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
        return SpecialTokens(separator=0)

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """The bytes of each token: one for each character, since byte-level BPE writes a byte as a character.

        The separator counts as one; an unused id counts as none.
        """
        sizes = np.zeros(self.vocab_size, dtype=np.int64)
        for token, id in self.trained.get_vocab().items():
            sizes[id] = len(token)
        sizes[self.separator] = 1
        return sizes


# WordPiece: words cut into pieces, as BERT cuts them. Text is normalised first, so it does not come back as it was.

WORDPIECE_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Tokens 0 to 4. The same characters inside a text stay characters."""
INSIDE = "##"
"""The beginning of a piece that continues a word."""


@dataclass(frozen=True)
class WordPieceTokenizer(LibraryTokenizer):
    """WordPiece: a word is the longest piece that it begins with, then the longest of what is left, and so on; a word
    that cannot be cut so is `[UNK]`. White space is not kept, nor are accents if `lowercase`.

    Pieces are learnt by merges of the most frequent pair, as `tokenizers` does, not by likelihood.

        Schuster & Nakajima 2012; Wu et al. 2016, arXiv:1609.08144, Section 4.1; as in Devlin et al. 2018,
        arXiv:1810.04805
    """

    @staticmethod
    def train(texts: Sequence[Text], vocab_size: int, *, lowercase: bool) -> WordPieceTokenizer:
        """Learn pieces: the same for the same texts, in any process and on any number of threads.

        If there are more letters than ids, the rarest letters have none.
        """
        from tokenizers import trainers

        trained = _bert_like({"[UNK]": 0}, lowercase)
        # The library numbers letters inside words in the order of a hash table, which differs between processes, and
        # decides between equally frequent pairs by number. Letters that already have a number keep it.
        letters = _letters(texts, trained)
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocab_size, min_frequency=2, special_tokens=[*WORDPIECE_SPECIAL, *letters], show_progress=False
        )
        trained.train_from_iterator((text.content.decode("utf-8") for text in texts), trainer)
        pieces = {piece: id for piece, id in trained.get_vocab().items() if id < vocab_size}
        rebuilt = _bert_like(pieces, lowercase)  # without letters as special tokens, which would be cut out of words
        rebuilt.add_special_tokens(list(WORDPIECE_SPECIAL))
        return WordPieceTokenizer.from_json(rebuilt.to_str(), vocab_size)

    @property
    def special(self) -> SpecialTokens:
        return SpecialTokens(separator=3, padding=0, mask=4, start=2)

    def token_bytes(self) -> None:
        """None: spaces, accents and unknown words are lost, so a token does not say how much text it was."""


def _bert_like(pieces: dict[str, int], lowercase: bool) -> Trained:
    """A WordPiece tokenizer of the library with these pieces, which normalises and splits text as BERT does."""
    from tokenizers import Tokenizer as Trained
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    tokenizer = Trained(models.WordPiece(pieces, unk_token="[UNK]", continuing_subword_prefix=INSIDE))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=INSIDE, cleanup=False)
    return tokenizer


def _letters(texts: Iterable[Text], tokenizer: Trained) -> list[str]:
    """All pieces of one letter, the most frequent first, equally frequent ones by code points."""
    words: Counter[str] = Counter()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text.content.decode("utf-8"))
        words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts[word[0]] += count
        for letter in word[1:]:
            counts[INSIDE + letter] += count
    return sorted(counts, key=lambda piece: (-counts[piece], piece))


# Unigram pieces, as SentencePiece trains them, with bytes for what has no piece: any text comes back as it was.

UNIGRAM_SPECIAL: Final = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""Tokens 0 to 4; then come the 256 bytes. The same characters inside a text stay characters."""
SPACE: Final = "\u2581"
"""A space in a piece. In a text it is written in bytes, so that it does not become a space."""
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
        """Learn pieces: the same for the same texts, in any process, on the one thread that is used.

        A small corpus has fewer pieces; the other ids then stay unused (see `used`). Raises CorpusError where the
        letters of the texts are more than the pieces.
        """
        from sentencepiece import SentencePieceTrainer

        model = io.BytesIO()
        padding, unknown, start, separator, mask = UNIGRAM_SPECIAL
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
        return UnigramTokenizer(_processor(base64.b64decode(trained)), vocab_size)

    @property
    def special(self) -> SpecialTokens:
        return SpecialTokens(separator=3, padding=0, mask=4, start=2)

    @property
    def separator(self) -> int:
        return self.special.separator

    @property
    def used(self) -> int:
        return int(self.trained.vocab_size())

    def encode(self, texts: Iterable[Text]) -> npt.NDArray[np.uint16]:
        written = [self.trained.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE.encode()]
        pieces = [np.empty(0, dtype=np.uint16)]
        for text in texts:
            parts = text.content.decode("utf-8").split(SPACE)
            ids = [id for part in self.trained.encode(parts) for id in (*part, *written)]
            ids[-len(written) :] = [self.separator]
            pieces.append(np.array(ids, dtype=np.uint16))
        return np.concatenate(pieces)

    def decode(self, tokens: npt.ArrayLike) -> str:
        held = self._bytes()
        return b"".join(held.get(id, b"") for id in np.asarray(tokens).tolist()).decode("utf-8", errors="replace")

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """The bytes of text of each piece; `</s>` counts as one, other special and unused ids as none."""
        sizes = np.zeros(self.vocab_size, dtype=np.int64)
        for id, content in self._bytes().items():
            sizes[id] = len(content)
        sizes[: len(UNIGRAM_SPECIAL)], sizes[self.separator] = 0, 1
        return sizes

    def to_json(self) -> str | None:
        return base64.b64encode(self.trained.serialized_model_proto()).decode()

    def _bytes(self) -> dict[int, bytes]:
        """The text of each id."""
        pieces = {id: self.trained.id_to_piece(id) for id in range(self.used)}
        return {
            id: bytes([int(piece[3:-1], 16)]) if self.trained.is_byte(id) else piece.replace(SPACE, " ").encode()
            for id, piece in pieces.items()
        }


def _processor(model: bytes) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_proto=model)


def _lines(texts: Sequence[Text]) -> Iterator[str]:
    """The lines that pieces are learnt from, without the characters that the library leaves lines out for."""
    every = max(1, -(-sum(len(text.content) for text in texts) // MOST_BYTES))
    lines = (line for text in texts for line in text.content.decode("utf-8").split("\n"))
    for number, line in enumerate(lines):
        if number % every == 0:
            for part in line.replace(SPACE, "\t").split("\t"):
                cuts = [*range(0, len(part), LONGEST), len(part)]
                yield from (part[start:end] for start, end in pairwise(cuts))
