from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from data_library import prose
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.data.sources import Text
from ablate.data.subwords import END_OF_TEXT, BpeTokenizer
from ablate.data.tokenizer import ByteTokenizer, vocab_size_of
from ablate.space.data import Bpe

pytestmark = pytest.mark.fast

anything = st.lists(st.text(), max_size=5).map(lambda texts: [Text(str(i), t.encode()) for i, t in enumerate(texts)])


@pytest.fixture(scope="module")
def trained():
    return BpeTokenizer.train([Text(str(seed), prose(seed, 2000).encode()) for seed in range(5)], 300)


@given(texts=anything)
@settings(max_examples=examples_of(60), deadline=None)
def test_byte_tokens_are_the_bytes_each_text_ended_by_zero(texts):
    expected = [byte for text in texts for byte in [*text.content, 0]]
    tokens = ByteTokenizer().encode(texts)
    assert tokens.dtype == np.uint16
    assert tokens.tolist() == expected
    assert ByteTokenizer().decode(tokens) == "".join(text.content.decode() + "\x00" for text in texts)


@given(texts=anything)
@settings(max_examples=examples_of(60), deadline=None)
def test_bpe_gives_every_text_back(trained, texts):
    tokens = trained.encode(texts)
    assert trained.decode(tokens) == "".join(text.content.decode() + END_OF_TEXT for text in texts)
    assert (tokens < trained.vocab_size).all()
    assert (tokens == trained.separator).sum() == len(texts)


@given(texts=anything)
@settings(max_examples=examples_of(60), deadline=None)
def test_a_text_has_the_same_number_of_bytes_under_any_tokenizer(trained, texts):
    """Its own and one for its end; otherwise bits per byte would not be of the same bytes."""
    expected = sum(len(text.content) + 1 for text in texts)
    for tokenizer in (ByteTokenizer(), trained):
        assert tokenizer.token_bytes()[tokenizer.encode(texts)].sum() == expected


def test_the_bytes_of_a_bpe_token_are_those_that_its_letters_stand_for(trained):
    """By the table that GPT-2 was released with (`encoder.py`, bytes_to_unicode), written anew."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    byte_of = {chr(byte): byte for byte in shown} | {chr(256 + n): byte for n, byte in enumerate(hidden)}
    sizes = trained.token_bytes()
    assert sizes[trained.separator] == 1 and sizes.dtype == np.int64
    for id in range(1, trained.used):
        assert sizes[id] == len(bytes(byte_of[letter] for letter in trained.trained.id_to_token(id)))
    assert sizes.max() > 2 and len(sizes) == trained.vocab_size


def test_an_id_that_no_merge_took_stands_for_no_byte():
    tokenizer = BpeTokenizer.train([Text("short", b"abcabc")], 1000)
    assert (tokenizer.token_bytes() == 0).sum() == 1000 - tokenizer.used


def test_bpe_comes_back_from_its_json(trained):
    again = BpeTokenizer.from_json(trained.to_json(), trained.vocab_size)
    texts = [Text("new", prose(77, 3000).encode()), Text("odd", f"a{END_OF_TEXT}b \x00é".encode())]
    np.testing.assert_array_equal(again.encode(texts), trained.encode(texts))


def test_letters_of_the_separator_in_a_text_are_not_the_separator(trained):
    text = Text("sly", f"one{END_OF_TEXT}two".encode())
    assert trained.encode([text]).tolist().count(trained.separator) == 1
    trusting = BpeTokenizer.from_json(trained.to_json(), trained.vocab_size)  # the claim can fail
    trusting.trained.encode_special_tokens = False
    assert trusting.encode([text]).tolist().count(trusting.separator) == 2


def test_merges_go_by_frequency():
    """Counted here by hand: words keep the space before them, and pairs do not cross words."""
    text = "xab yab zab wab qab cd cd cd ab e"
    words = [text.split()[0], *(" " + word for word in text.split()[1:])]
    pairs = Counter(pair for word in words for pair in pairwise(word))
    (best, most), (_, second) = pairs.most_common(2)
    assert most > second
    tokenizer = BpeTokenizer.train([Text("words", text.encode())], 258)
    assert tokenizer.decode([257]) == "".join(best) == "ab"


def test_a_small_text_leaves_ids_unused():
    tokenizer = BpeTokenizer.train([Text("short", b"abcabc")], 1000)
    assert tokenizer.vocab_size == 1000
    assert 257 <= tokenizer.used < 270


def test_the_vocabulary_is_known_beforehand(trained):
    assert vocab_size_of("bytes") == ByteTokenizer().vocab_size == 256
    assert vocab_size_of(Bpe(bpe=300)) == trained.vocab_size == trained.used
