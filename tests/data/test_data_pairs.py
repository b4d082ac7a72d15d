"""Pairs: found in a stream by separators, drawn as windows are, cut off and filled up, and counted."""

import ast
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from data_library import data, pretend_library, read_corpus, settle
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_data_batches import philox_words

from ablate.data.batch import window_starts
from ablate.data.corpora.hub_pairs import HubOfPairs, HubPairs
from ablate.data.pair_stream import cut_notes, length_note
from ablate.data.pairs import PairBatches, Pairs, evaluation_pairs
from ablate.data.sources import SPLITS, Skipped, Text
from ablate.data.streams import fingerprint, prepare
from ablate.errors import RefusedError

END = 9
sides = st.lists(st.integers(0, 7), max_size=6)


def stream_of(pairs):
    """The stream of pairs of lists of tokens below 8."""
    return np.array([token for pair in pairs for side in pair for token in (*side, END)], dtype=np.uint16)


def random_pairs(count, longest=6):
    random = np.random.default_rng(0)
    return [
        tuple(random.integers(0, 8, random.integers(0, longest + 1)).tolist() for _ in range(2)) for _ in range(count)
    ]


def cut(side, length):
    """A side with its separator, at its length."""
    kept = [*side, END][:length]
    return kept + [END] * (length - len(kept)), len(kept)


@given(written=st.lists(st.tuples(sides, sides), min_size=1, max_size=8))
@settings(max_examples=examples_of(60), deadline=None)
def test_pairs_are_what_stands_between_separators(written):
    pairs = Pairs(stream_of(written), END)
    read = [tuple(side.tolist() for side in pairs[n]) for n in range(len(pairs))]
    assert read == [([*source, END], [*target, END]) for source, target in written]
    assert pairs.lengths.tolist() == [[len(source) + 1, len(target) + 1] for source, target in written]
    for lengths in ((3, 3), (1, 7), (7, 1)):
        longer = sum(len(a) + 1 > lengths[0] or len(b) + 1 > lengths[1] for a, b in written)
        assert pairs.cut_by(*lengths) == longer
        assert len(cut_notes(pairs, *lengths)) == (longer > 0)


@pytest.mark.parametrize("stream", [[], [1, 2], [1, END], [1, END, 2, END, 3], [END, END, END]])
def test_a_stream_that_is_not_of_pairs_is_refused(stream):
    with pytest.raises(RefusedError, match="is not made of pairs"):
        Pairs(np.array(stream, dtype=np.uint16), END)


def test_there_is_no_pair_before_the_first_or_behind_the_last():
    pairs = Pairs(stream_of([([1], [2])]), END)
    for place in (-1, 1):
        with pytest.raises(IndexError):
            pairs[place]


@pytest.mark.parametrize(("seed", "step"), [(0, 0), (3, 299), (2**40, 80000)])
def test_a_batch_is_drawn_by_the_philox_words_of_seed_and_step(seed, step):
    written = random_pairs(50)
    batch = PairBatches(Pairs(stream_of(written), END), 4, 3, batch=6, seed=seed).at(step)
    chosen = [written[word % 50] for word in philox_words((seed, step), 6)]
    for tokens, lengths, side, length in (
        (*batch.inputs, 0, 4),
        (*batch.targets, 1, 3),
    ):
        expected = [cut(pair[side], length) for pair in chosen]
        assert tokens.tolist() == [row for row, _ in expected] and lengths.tolist() == [kept for _, kept in expected]
        assert tokens.dtype == lengths.dtype == torch.int64 and tokens.is_contiguous()


def test_every_pair_is_drawn_about_as_often():
    pairs = Pairs(stream_of([([n], []) for n in range(7)]), END)
    drawn = torch.cat([PairBatches(pairs, 1, 1, batch=64, seed=0).at(step).inputs[0][:, 0] for step in range(100)])
    counts = np.bincount(drawn.numpy(), minlength=7)
    assert (abs(counts - 6400 / 7) < 5 * np.sqrt(6400 / 7)).all()


def test_pairs_of_an_evaluation_are_stratified_and_count_their_bytes():
    written = random_pairs(40)
    pairs, sizes = Pairs(stream_of(written), END), np.arange(10, dtype=np.int64)
    seen = evaluation_pairs(pairs, 4, 3, 8, seed=5, split="verdict", token_bytes=sizes)
    chosen = [written[place] for place in window_starts(40, 8, seed=5, split="verdict")]
    for (tokens, lengths), side, length in ((seen.inputs, 0, 4), (seen.targets, 1, 3)):
        assert list(zip(tokens.tolist(), lengths.tolist(), strict=True)) == [cut(pair[side], length) for pair in chosen]
    assert seen.bytes == sum(sum(sizes[[*target, END][:3]]) for _, target in chosen)
    assert evaluation_pairs(pairs, 4, 3, 8, seed=5, split="verdict").bytes is None
    with pytest.raises(RefusedError, match=r"40 pairs does not hold 41"):
        evaluation_pairs(pairs, 4, 3, 41, seed=5, split="verdict")


def test_the_lengths_of_pairs_are_described():
    pairs = Pairs(stream_of([([0] * n, [0] * (2 * n)) for n in range(100)]), END)
    note = length_note(pairs)
    assert "half and 95% of the sources have at most 50 and 95, of the targets at most 99 and 189 tokens" in note


MODULE = '''\
class Box:
    """Of things.

    Not a function.
    """

    def open(self):
        """Open the box,
        and look.

        Twice.
        """
        # careful
        return "\u00e9"

    def empty(self):
        """Do nothing."""

    if True:
        async def close(self): "Close it."; return 2

@decorated
def outer(x):
    """Return x."""  # as it is
    def inner():
        """Never a pair."""
        return x
    return inner()

def bare(x):
    return x

def blank(x):
    """

    """
    return x
'''
PAIRS = [
    ('def open(self):\n    # careful\n    return "\u00e9"\n', "Open the box, and look."),
    ("async def close(self): return 2\n", "Close it."),
    (
        'def outer(x):\n    # as it is\n    def inner():\n        """Never a pair."""\n'
        "        return x\n    return inner()\n",
        "Return x.",
    ),
]


@pytest.fixture
def documented(tmp_path, monkeypatch):
    """A library of twelve modules with three pairs each, and one that is not Python."""
    root = tmp_path / "lib"
    root.mkdir()
    (root / "os.py").write_text("def broken(:\n")
    for n in range(12):
        (root / f"module_{n:02d}.py").write_text(MODULE, encoding="utf-8")
    settle(root)
    pretend_library(monkeypatch, root)
    return root


def test_functions_and_their_docstrings_are_pairs(documented, cache):
    corpus = read_corpus(data(corpus="code_docstrings", tuning=0.2, verdict=0.2), Path())
    for split in SPLITS:
        texts = [text.content.decode() for text in corpus.texts[split]]
        assert list(zip(texts[::2], texts[1::2], strict=True)) == PAIRS * (len(texts) // 6) and texts
    assert corpus.skipped == (Skipped("os.py", "is not Python: invalid syntax (os.py, line 1)"),)
    streams = prepare(data(corpus="code_docstrings", tuning=0.2, verdict=0.2), Path(), cache)
    pairs = Pairs(streams.train, streams.tokenizer.separator)
    assert len(pairs) == len(corpus.texts["train"]) / 2
    assert [streams.tokenizer.decode(side) for side in pairs[1]] == [f"{side}\x00" for side in PAIRS[1]]
    counted = f"{len(pairs)} pairs"
    assert (
        streams.report.pairs
        and counted in streams.report.describe()
        and "of the targets at most" in streams.report.describe()
    )
    assert fingerprint(data(corpus="code_docstrings", tuning=0.2, verdict=0.2), Path(), cache) == streams.report


def test_a_corpus_of_texts_has_no_pairs(library, cache):
    report = fingerprint(data(), library, cache)
    assert not report.pairs and "pairs" not in report.describe()


@pytest.mark.full
def test_the_real_library_is_full_of_pairs():
    corpus = read_corpus(data(corpus="code_docstrings"), Path())
    texts = [text for split in SPLITS for text in corpus.texts[split]]
    assert len(texts) > 2000
    for source, target in zip(texts[::2], texts[1::2], strict=True):
        (function,) = ast.parse(source.content).body
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        assert target.content and b"\n" not in target.content
        assert source.name.rpartition("/")[0] == target.name.rpartition("/")[0]


HUB = {"hub_pairs": "someone/talks", "split": "train", "source": "translation.en", "target": "translation.de"}


def on_the_hub(monkeypatch, rows):
    """Let `datasets` stream `rows`, whatever is asked of the hub."""
    streamed = datasets.IterableDataset.from_generator(lambda: iter(rows))
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config, *, split, streaming: streamed)


def test_rows_of_the_hub_are_pairs_up_to_a_limit(monkeypatch):
    rows = [{"translation": {"en": "a" * n, "de": "b" * n}} for n in (3, 1, 0, 2)]
    on_the_hub(monkeypatch, rows)
    read = list(HubOfPairs(HubPairs(**HUB)).texts())
    assert read == [
        *(Text("000000000/source", b"aaa"), Text("000000000/target", b"bbb")),
        *(Text("000000001/source", b"a"), Text("000000001/target", b"b")),
        Skipped("000000002", "contains no text in one of its fields"),
        *(Text("000000003/source", b"aa"), Text("000000003/target", b"bb")),
    ]
    assert len(list(HubOfPairs(HubPairs(**HUB, at_most=6)).texts())) == 2
    assert len(list(HubOfPairs(HubPairs(**HUB, at_most=7)).texts())) == 4


@pytest.mark.parametrize(("field", "missing"), [("translation.fr", "fr"), ("text", "text"), ("translation.en.x", "x")])
def test_a_field_that_is_not_there_is_named(monkeypatch, field, missing):
    on_the_hub(monkeypatch, [{"translation": {"en": "a", "de": "b"}}])
    with pytest.raises(RefusedError, match=f"has no field '{missing}'") as refused:
        read_corpus(data(corpus={**HUB, "target": field}), Path())
    assert refused.value.faults[0].at == ("data", "corpus", "target")


def test_fields_without_text_are_refused_where_the_first_is_named(monkeypatch):
    on_the_hub(monkeypatch, [{"translation": {"en": "a", "de": ""}}] * 4)
    with pytest.raises(
        RefusedError, match=r"contains no text: 4 that(.|\n)*name a field that contains text$"
    ) as refused:
        read_corpus(data(corpus=HUB), Path())
    assert refused.value.faults[0].at == ("data", "corpus", "source")


def test_without_a_network_the_pairs_that_are_on_every_machine_are_named(monkeypatch):
    def unreachable(*names, **more):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(
        RefusedError, match=r"'train' of 'someone/talks': no route(.|\n)*corpus: code_docstrings"
    ) as refused:
        read_corpus(data(corpus=HUB), Path())
    assert refused.value.faults[0].at == ("data", "corpus", "hub_pairs")


def test_a_text_that_holds_the_separator_is_refused(monkeypatch, cache):
    rows = [{"translation": {"en": f"a\x00{n}", "de": f"b{n}"}} for n in range(30)]
    on_the_hub(monkeypatch, rows)
    with pytest.raises(RefusedError, match="holds token 0, which ends each text of a pair"):
        prepare(data(corpus=HUB, tuning=0.2, verdict=0.2), Path(), cache)
    merged = prepare(data(corpus=HUB, tuning=0.2, verdict=0.2, tokenizer={"bpe": 300}), Path(), cache)
    assert merged.report.pairs and len(Pairs(merged.train, 0)) > 10


PLUGIN = '''
"""Texts that call themselves pairs."""
from ablate.data.corpora.declare import Settings, Text, corpus, implements


@corpus("loose", source="this test")
class Loose(Settings):
    """No settings."""

    @property
    def pairs(self):
        return True


@implements(Loose)
class Texts:
    title, place, notes = "loose", "here", ()

    def __init__(self, settings, folder):
        pass

    def stamp(self):
        return None

    def texts(self):
        for n in range(30):
            yield Text(f"{n}/source", b"a")
            yield Text(f"{n + (n == 20)}/target", b"b")
'''


def test_texts_that_are_no_pairs_are_refused(tmp_path, cache):
    from ablate import api

    (tmp_path / "loose.py").write_text(PLUGIN)
    catalogue = api.catalogue([tmp_path / "loose.py"])
    with pytest.raises(RefusedError, match=r"loose: (20/source|21/\w+|\d+/\w+) has no text beside it"):
        prepare(data(corpus="loose", tuning=0.1, verdict=0.1), tmp_path, cache, catalogue)
