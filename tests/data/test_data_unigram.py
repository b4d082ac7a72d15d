"""Unigram pieces: any text comes back, cuts are the most likely ones, and training is the same in every process."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from data_library import data, prose, read_corpus
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_spaces import write_world

from ablate import load_space
from ablate.data import subwords
from ablate.data.corpus import CorpusError
from ablate.data.sources import Text
from ablate.data.streams import prepare
from ablate.data.subwords import UNIGRAM_SPECIAL, SpecialTokens, UnigramTokenizer
from ablate.data.tokenizer import describe_tokenizer, tokenizer_from, train_tokenizer, vocab_size_of
from ablate.errors import InputError
from ablate.space import data as data_section
from ablate.space.data import Data, Unigram

TEXTS = [Text(str(seed), prose(seed, 2000).encode()) for seed in range(5)]
SPACE = Unigram(unigram=330)
anything = st.lists(st.text(), max_size=5).map(lambda texts: [Text(str(i), t.encode()) for i, t in enumerate(texts)])


@pytest.fixture(scope="module")
def trained():
    return train_tokenizer(SPACE, TEXTS)


@given(texts=anything)
@settings(max_examples=examples_of(60), deadline=None)
def test_every_text_comes_back_and_has_its_bytes(trained, texts):
    texts = [*texts, Text("odd", " \u2581 def\u2581<0x0A></s>\t\t\r\n\x00  ".encode())]
    tokens = trained.encode(texts)
    assert tokens.dtype == np.uint16 and (tokens < trained.used).all()
    assert trained.decode(tokens) == "".join(text.content.decode() + "</s>" for text in texts)
    assert trained.token_bytes()[tokens].sum() == sum(len(text.content) + 1 for text in texts)
    assert (tokens == trained.separator).sum() == len(texts)
    assert not {0, 1, 2, 4} & set(tokens.tolist())


def most_likely(text, scores):
    """The logarithm of the probability of the most likely cut: Viterbi (Kudo 2018, Section 3.1), written anew."""
    best = [0.0] + [-math.inf] * len(text)
    for end in range(1, len(text) + 1):
        cuts = (best[start] + scores[text[start:end]] for start in range(end) if text[start:end] in scores)
        best[end] = max(cuts, default=-math.inf)
    return best[-1]


def test_a_text_is_cut_into_the_most_likely_pieces(trained):
    model = trained.trained
    scores = {model.id_to_piece(id).replace("\u2581", " "): model.get_score(id) for id in range(5 + 256, trained.used)}
    assert max(map(len, scores)) > 3
    for line in prose(77, 2000).split("\n")[:-1]:
        tokens = trained.encode([Text("line", line.encode())])[:-1].tolist()
        found = sum(model.get_score(token) for token in tokens)
        assert math.isfinite(found) and found == pytest.approx(most_likely(line, scores), rel=1e-5)


def test_special_tokens_have_their_ids(trained):
    assert [trained.trained.piece_to_id(token) for token in UNIGRAM_SPECIAL] == [0, 1, 2, 3, 4]
    assert trained.special == SpecialTokens(separator=3, padding=0, mask=4, start=2)
    assert Data.model_construct(tokenizer=SPACE).separator == trained.separator
    assert trained.token_bytes()[[0, 1, 2, 3, 4]].tolist() == [0, 0, 0, 1, 0]
    assert trained.token_bytes()[5 : 5 + 256].tolist() == [1] * 256


def test_it_comes_back_from_its_json(trained):
    again = tokenizer_from(SPACE, trained.to_json())
    np.testing.assert_array_equal(again.encode(TEXTS), trained.encode(TEXTS))
    assert vocab_size_of(SPACE) == again.vocab_size == 330 and "sentencepiece" in describe_tokenizer(SPACE)


@pytest.mark.parametrize("seed", ["0", "1"])
def test_training_is_the_same_in_another_process(trained, seed):
    script = (
        "from data_library import prose; from ablate.data.sources import Text\n"
        "from ablate.data.subwords import UnigramTokenizer\n"
        "texts = [Text(str(seed), prose(seed, 2000).encode()) for seed in range(5)]\n"
        "print(UnigramTokenizer.train(texts, 330).to_json(), end='')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True, encoding="utf-8"
    )
    assert run.stdout == trained.to_json()


def test_few_texts_have_few_pieces(library, cache):
    tokenizer = UnigramTokenizer.train([Text("t", b"abc abd\n")], 1000)
    assert tokenizer.used < tokenizer.vocab_size == len(tokenizer.token_bytes()) == 1000
    streams = prepare(data(tokenizer={"unigram": 5000}), library, cache)
    assert any("of the 5,000 requested tokens" in note for note in streams.report.notes)
    texts = read_corpus(data(), library).texts["verdict"]
    assert streams.tokenizer.decode(streams.verdict) == "".join(text.content.decode() + "</s>" for text in texts)


def test_more_letters_than_pieces_are_refused_at_their_place():
    letters = Text("many", " ".join(chr(0x4E00 + n) for n in range(400)).encode())
    with pytest.raises(CorpusError, match="300 unigram pieces cannot be learnt") as refused:
        UnigramTokenizer.train([letters], 300)
    (fault,) = refused.value.faults
    assert fault.at == ("data", "tokenizer", "unigram") and fault.notes


def test_without_the_library_a_space_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(data_section, "find_spec", lambda name: None)
    world = write_world(tmp_path)
    with pytest.raises(InputError, match=r"sentencepiece, which is not installed\n(.*\n)*.*unigram: 8000") as refused:
        load_space(world, settings=["data.tokenizer={unigram: 8000}"])
    assert "= pip install 'ablate[unigram]'" in str(refused.value)


def test_pieces_are_learnt_from_all_lines_or_evenly_from_some(monkeypatch):
    long = "x" * 2500
    texts = [Text("a", f"one\ttwo\u2581three\n{long}\n".encode()), Text("b", b"four\nfive")]
    assert list(subwords._lines(texts)) == [
        "one",
        "two",
        "three",
        *("x" * n for n in (1000, 1000, 500)),
        "four",
        "five",
    ]
    monkeypatch.setattr(subwords, "MOST_BYTES", sum(len(text.content) for text in texts) // 2)
    assert list(subwords._lines(texts)) == ["one", "two", "three", "five"]
    assert list(subwords._lines([])) == []
