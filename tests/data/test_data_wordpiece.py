"""WordPiece, held against a longest-match of its own, and against another process."""

import os
import subprocess
import sys

import numpy as np
import pytest
from data_library import prose

from ablate.data.sources import Text
from ablate.data.subwords import WORDPIECE_SPECIAL, SpecialTokens, WordPieceTokenizer
from ablate.data.tokenizer import ByteTokenizer, describe_tokenizer, tokenizer_from, train_tokenizer, vocab_size_of
from ablate.space.data import Bpe, Data, WordPiece

TEXTS = [Text(str(seed), prose(seed, 2000).encode()) for seed in range(5)]
SPACE = WordPiece.model_validate({"wordpiece": 300})


@pytest.fixture(scope="module")
def trained():
    return train_tokenizer(SPACE, TEXTS)


def longest_match(word, pieces):
    """Wu et al. 2016, Section 4.1, written anew."""
    found, start = [], 0
    while start < len(word):
        ends = [end for end in range(start + 1, len(word) + 1) if "##" * (start > 0) + word[start:end] in pieces]
        if not ends:
            return ["[UNK]"]
        found.append("##" * (start > 0) + word[start : ends[-1]])
        start = ends[-1]
    return found


def test_words_are_cut_by_the_longest_piece(trained):
    words = "".join(c if c.isalpha() else " " for c in prose(77, 3000)).lower().split()
    pieces = trained.trained.get_vocab()
    expected = [pieces[piece] for word in words for piece in longest_match(word, pieces)]
    tokens = trained.encode([Text("new", " ".join(words).encode())])
    assert tokens.dtype == np.uint16
    assert tokens.tolist() == [*expected, 3]
    assert any(piece.startswith("##") and len(piece) > 3 for piece in pieces)


def test_special_tokens_have_the_ids_of_bert(trained):
    assert [trained.trained.token_to_id(token) for token in WORDPIECE_SPECIAL] == [0, 1, 2, 3, 4]
    assert trained.special == SpecialTokens(separator=3, padding=0, mask=4, start=2)
    assert ByteTokenizer().special == SpecialTokens(0)
    assert train_tokenizer(Bpe(bpe=300), TEXTS).special == SpecialTokens(0)


def test_special_tokens_in_a_text_stay_letters(trained):
    tokens = trained.encode([Text("sly", b"a [SEP] b [MASK]")]).tolist()
    assert tokens.count(3) == 1 and tokens[-1] == 3 and 4 not in tokens


def test_an_unknown_letter_makes_its_word_unknown(trained):
    assert trained.encode([Text("odd", "\u0416".encode())]).tolist() == [1, 3]


def test_case_and_accents_are_kept_only_if_asked_for():
    texts = [Text("t", "Caf\u00e9 cafe CAFE".encode())]
    dropped = WordPieceTokenizer.train(texts, 100, lowercase=True).encode(texts).tolist()
    assert len({tuple(dropped[n : n + len(dropped) // 3]) for n in range(0, len(dropped) - 1, len(dropped) // 3)}) == 1
    kept = WordPieceTokenizer.train(texts, 100, lowercase=False)
    assert kept.decode(kept.encode(texts)) == "Caf\u00e9 cafe CAFE [SEP]"


def test_ids_stay_below_a_vocabulary_smaller_than_the_alphabet():
    tokenizer = WordPieceTokenizer.train(TEXTS, 12, lowercase=True)
    assert tokenizer.used == 12
    assert tokenizer.encode(TEXTS).max() < 12


def test_it_comes_back_from_its_json_and_has_no_bytes(trained):
    again = tokenizer_from(SPACE, trained.to_json())
    np.testing.assert_array_equal(again.encode(TEXTS), trained.encode(TEXTS))
    assert trained.token_bytes() is None


def test_the_shorthand_is_the_size():
    assert WordPiece.model_validate({"wordpiece": {"size": 300, "lowercase": True}}) == SPACE
    cased = WordPiece.model_validate({"wordpiece": {"size": 300, "lowercase": False}})
    assert vocab_size_of(SPACE) == vocab_size_of(cased) == 300
    assert describe_tokenizer(SPACE) != describe_tokenizer(cased)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_training_is_the_same_in_another_process(trained, threads):
    """The library's own training is not: it numbers letters by a hash table with a seed of the process."""
    script = (
        "from data_library import prose; from ablate.data.sources import Text\n"
        "from ablate.data.subwords import WordPieceTokenizer\n"
        "texts = [Text(str(seed), prose(seed, 2000).encode()) for seed in range(5)]\n"
        "print(WordPieceTokenizer.train(texts, 300, lowercase=True).to_json(), end='')"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True, encoding="utf-8"
    )
    assert run.stdout == trained.to_json()


@pytest.mark.parametrize("tokenizer", ["bytes", Bpe(bpe=300), SPACE], ids=["bytes", "bpe", "wordpiece"])
def test_a_space_knows_what_ends_its_documents(tokenizer):
    data = Data.model_construct(tokenizer=tokenizer)
    assert data.separator == train_tokenizer(tokenizer, TEXTS).separator
