"""WordPiece: words cut into pieces, as BERT cuts them. Text is normalised first, so it does not come back as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ablate.data.library_tokenizer import LibraryTokenizer
from ablate.data.special import SpecialTokens
from ablate.data.text import Text

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Trained

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Tokens 0 to 4. The same characters inside a text stay characters."""
INSIDE = "##"
"""What a piece begins with that continues a word."""


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
        """Learn pieces from `texts`: the same for the same texts, in any process and on any number of threads.

        If there are more letters than ids, the rarest letters have none.
        """
        from tokenizers import trainers

        trained = _untrained({"[UNK]": 0}, lowercase)
        # The library numbers letters inside words in the order of a hash table, which differs between processes, and
        # decides between equally frequent pairs by number. Letters that already have a number keep it.
        letters = _letters(texts, trained)
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocab_size, min_frequency=2, special_tokens=[*SPECIAL, *letters], show_progress=False
        )
        trained.train_from_iterator((text.content.decode("utf-8") for text in texts), trainer)
        pieces = {piece: id for piece, id in trained.get_vocab().items() if id < vocab_size}
        rebuilt = _untrained(pieces, lowercase)  # without letters as special tokens, which would be cut out of words
        rebuilt.add_special_tokens(list(SPECIAL))
        return WordPieceTokenizer.from_json(rebuilt.to_str(), vocab_size)

    @property
    def special(self) -> SpecialTokens:
        """The ids of `[SEP]`, `[PAD]`, `[MASK]` and `[CLS]`."""
        return SpecialTokens(separator=3, padding=0, mask=4, start=2)

    def token_bytes(self) -> None:
        """Return None: spaces, accents and unknown words are lost, so a token does not say how much text it was."""


def _untrained(pieces: dict[str, int], lowercase: bool) -> Trained:
    """Return a WordPiece tokenizer of the library with these pieces, which normalises and splits text as BERT does."""
    from tokenizers import Tokenizer as Trained
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    tokenizer = Trained(models.WordPiece(pieces, unk_token="[UNK]", continuing_subword_prefix=INSIDE))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=INSIDE, cleanup=False)
    return tokenizer


def _letters(texts: Iterable[Text], tokenizer: Trained) -> list[str]:
    """Return all pieces of one letter, the most frequent first, equally frequent ones by code points."""
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
