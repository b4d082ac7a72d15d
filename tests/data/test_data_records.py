"""Records: written and read back, drawn as windows are, standardised by the training split alone, and divided."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
import torch
from data_library import data, read_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from test_data_batches import philox_words

from ablate.data.batch import NO_TARGET, window_starts
from ablate.data.corpora import drawn_images, drawn_speech
from ablate.data.corpus import check_corpus, corpus_of
from ablate.data.corpus_statistics import measure_repetition
from ablate.data.record_stream import RecordCodec, Records, record_of, report_on, words_of
from ablate.data.records import RecordBatches, evaluation_records
from ablate.data.sources import SPLITS, Text
from ablate.data.standardisation import Standard
from ablate.data.streams import fingerprint, prepare
from ablate.errors import InputError, RefusedError
from ablate.space.data import Layout

ODD = Layout(shape=(1, 3, 3), dtype="uint8", targets=0, classes=7)
SPOKEN = Layout(shape=(5, 2), dtype="float32", targets=3, classes=9)


def stream_of(layout, examples):
    """The stream of examples, each with its targets."""
    return RecordCodec(layout).encode(Text(f"{n}", record_of(layout, *each)) for n, each in enumerate(examples))


def images(count, seed=0):
    random = np.random.default_rng(seed)
    return [(random.integers(0, 256, (1, 3, 3)).astype(np.uint8), int(random.integers(7))) for _ in range(count)]


def utterances(count):
    random = np.random.default_rng(1)
    return [
        (
            random.normal(3, 2, (random.integers(1, 6), 2)).astype(np.float32),
            random.integers(0, 9, random.integers(1, 4)).tolist(),
        )
        for _ in range(count)
    ]


@given(st.lists(st.tuples(st.binary(min_size=9, max_size=9), st.integers(0, 6)), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_images_come_back_with_their_classes(written):
    examples = [(np.frombuffer(pixels, np.uint8).reshape(1, 3, 3), label) for pixels, label in written]
    records = Records(stream_of(ODD, examples), ODD)
    assert len(records) == len(written) and words_of(ODD) == 6  # nine bytes and one to fill up, and a class
    assert [values.tobytes() for values in records.values(range(len(written)))] == [pixels for pixels, _ in written]
    assert records.targets(range(len(written)), NO_TARGET).tolist() == [label for _, label in written]


def test_frames_come_back_with_their_lengths_and_tokens():
    examples = utterances(7)
    records = Records(stream_of(SPOKEN, examples), SPOKEN)
    chosen = [6, 0, 3]
    for values, length, targets, n in zip(
        records.values(chosen), records.lengths(chosen), records.targets(chosen, -1), chosen, strict=True
    ):
        frames, tokens = examples[n]
        assert length == len(frames) and values.dtype == np.float32
        assert np.array_equal(values[:length], frames) and not values[length:].any()
        assert targets.tolist() == tokens + [-1] * (3 - len(tokens))


@pytest.mark.parametrize(
    ("layout", "values", "targets"),
    [
        (ODD, np.zeros((3, 3), np.uint8), 0),
        (ODD, np.zeros((1, 3, 3)), 0),
        (ODD, np.zeros((1, 3, 3), np.uint8), 7),
        (ODD, np.zeros((1, 3, 3), np.uint8), [0, 1]),
        (SPOKEN, np.zeros((6, 2), np.float32), [0]),
        (SPOKEN, np.zeros((0, 2), np.float32), [0]),
        (SPOKEN, np.zeros((5, 3), np.float32), [0]),
        (SPOKEN, np.zeros((5, 2), np.float32), []),
        (SPOKEN, np.zeros((5, 2), np.float32), [0, 0, 0, 0]),
        (SPOKEN, np.zeros((5, 2), np.float32), [-1]),
    ],
)
def test_what_does_not_fit_its_layout_is_refused(layout, values, targets):
    with pytest.raises(InputError, match=r"an example has(.|\n)*  = "):
        record_of(layout, values, targets)


@pytest.mark.parametrize(("seed", "step"), [(0, 0), (3, 17)])
def test_a_batch_is_what_philox_chooses(seed, step):
    examples = images(11)
    batches = RecordBatches(Records(stream_of(ODD, examples), ODD), Standard((100.0,), (50.0,)), batch=6, seed=seed)
    chosen = [word % 11 for word in philox_words((seed, step), 6)]
    inputs, targets = batches.at(step)
    assert targets.tolist() == [examples[n][1] for n in chosen] and targets.dtype == torch.int64
    expected = np.stack([(examples[n][0].astype(np.float64) - 100) / 50 for n in chosen])
    assert inputs.dtype == torch.float32 and np.array_equal(inputs.numpy(), expected.astype(np.float32))


def test_frames_of_a_batch_have_lengths_and_end_in_zeros():
    examples = utterances(9)
    records = Records(stream_of(SPOKEN, examples), SPOKEN)
    (frames, lengths), targets = RecordBatches(records, Standard((3.0, 1.0), (2.0, 4.0)), batch=5, seed=2).at(4)
    chosen = [word % 9 for word in philox_words((2, 4), 5)]
    assert lengths.tolist() == [len(examples[n][0]) for n in chosen]
    for row, tokens, n in zip(frames.numpy(), targets.tolist(), chosen, strict=True):
        own, said = examples[n]
        assert np.array_equal(row[: len(own)], ((own.astype(np.float64) - [3, 1]) / [2, 4]).astype(np.float32))
        assert not row[len(own) :].any()
        assert tokens == said + [NO_TARGET] * (3 - len(said))


def test_an_evaluation_is_stratified_and_its_seeds_own():
    examples, as_it_is = images(40), Standard(mean=(0.0,), std=(1.0,))
    records = Records(stream_of(ODD, examples), ODD)
    starts = window_starts(40, 8, seed=5, split="verdict")
    drawn = evaluation_records(records, as_it_is, 8, seed=5, split="verdict")
    assert drawn.targets.tolist() == [examples[n][1] for n in starts] and drawn.bytes is None
    assert np.array_equal(drawn.inputs.numpy(), np.stack([examples[n][0] for n in starts]).astype(np.float32))
    other = evaluation_records(records, as_it_is, 8, seed=6, split="verdict")
    assert not torch.equal(drawn.inputs, other.inputs)
    with pytest.raises(RefusedError, match="40 examples does not hold 41"):
        evaluation_records(records, as_it_is, 41, seed=0, split="verdict")


def test_statistics_are_those_of_all_pixels_and_of_the_frames_that_are_there():
    examples = images(1500)
    report = report_on(ODD, stream_of(ODD, examples))
    pixels = np.stack([image for image, _ in examples]).astype(np.float64)
    assert report.mean == pytest.approx((pixels.mean(),), rel=1e-5) and report.std == pytest.approx((pixels.std(),))
    spoken = utterances(1500)
    report = report_on(SPOKEN, stream_of(SPOKEN, spoken))
    frames = np.concatenate([frames for frames, _ in spoken]).astype(np.float64)
    assert report.mean == pytest.approx(frames.mean(axis=0), rel=1e-5)
    assert report.std == pytest.approx(frames.std(axis=0), rel=1e-5)
    black = report_on(ODD, stream_of(ODD, [(np.zeros((1, 3, 3), np.uint8), 0)]))
    assert (black.mean, black.std) == ((0.0,), (1.0,))


@pytest.mark.parametrize("corpus", ["digits", {"drawn_images": 400}, {"drawn_speech": 300}])
def test_no_example_is_in_two_splits_and_each_is_in_one(corpus, tmp_path, cache):
    chosen = data(corpus=corpus)
    read, streams = read_corpus(chosen, tmp_path), prepare(chosen, tmp_path, cache)
    names = [{text.name for text in read.texts[split]} for split in SPLITS]
    assert len(set.union(*names)) == sum(map(len, names))
    told = [len(streams.records(split)) for split in SPLITS]
    assert told == list(map(len, names)) and sum(told) == {"digits": 1797}.get(str(corpus), sum(told))
    assert min(told[1:]) >= 0.08 * sum(told)
    for split in SPLITS:
        joined = b"".join(text.content for text in read.texts[split])
        assert streams.split(split).tobytes() == joined


def test_a_corpus_of_records_tells_what_it_holds(tmp_path, cache):
    report = fingerprint(data(corpus="digits"), tmp_path, cache)
    assert report.vocab_size == 10
    text = report.describe()
    assert "10 classes" in text and "1,4" in text and "examples" in text and "tokens" not in text
    assert "standardised by the training split: mean" in text and "texts" not in text
    assert fingerprint(data(corpus="digits"), tmp_path, cache) == report
    check_corpus(report, seq_len=10_000, batch=1400, windows=150)
    with pytest.raises(RefusedError, match=r"verdict has 179 examples, but an evaluation needs 180"):
        check_corpus(report, seq_len=1, batch=8, windows=180)
    with pytest.raises(RefusedError, match=r"train has 1,4\d\d examples, but a batch needs 2,000"):
        check_corpus(report, seq_len=1, batch=2000, windows=8)


def test_statistics_leave_out_what_is_held_out(tmp_path, cache):
    streams = prepare(data(corpus="digits"), tmp_path, cache)
    train = streams.records("train").values(np.arange(len(streams.records("train"))))
    assert streams.standard.mean == pytest.approx((train.mean(),), rel=1e-5)
    assert streams.standard.std == pytest.approx((train.std(),), rel=1e-5)


def test_repetition_of_what_is_no_text_is_refused(tmp_path, cache):
    with pytest.raises(RefusedError, match="corpus digits is no text"):
        measure_repetition(data(corpus="digits"), tmp_path, cache, 16)


def test_digits_are_those_of_the_set(tmp_path, cache):
    streams = prepare(data(corpus="digits"), tmp_path, cache)
    every = [streams.records(split) for split in SPLITS]
    values = np.concatenate([each.values(np.arange(len(each))) for each in every])
    labels = np.concatenate([each.targets(np.arange(len(each)), NO_TARGET) for each in every])
    known, classes = load_digits(return_X_y=True)
    found = [(tuple(image.ravel()), label) for image, label in zip(values, labels, strict=True)]
    wanted = [(tuple(image), label) for image, label in zip(known.astype(np.uint8), classes, strict=True)]
    assert sorted(found) == sorted(wanted)


def digest_of(draw, count):
    running = hashlib.sha256()
    for number in range(count):
        values, targets = draw(number)
        running.update(values.tobytes() + repr(targets).encode())
    return running.hexdigest()[:16]


def test_what_is_drawn_has_the_same_bytes_everywhere():
    """On any machine and with any release: a change of these is another corpus, whose version is to be raised."""
    assert digest_of(drawn_images.draw, 50) == "33dbb30f0346c0a4"
    assert digest_of(drawn_speech.draw, 50) == "1c64f9b1465eeddf"


def test_no_two_drawn_images_are_near_each_other_and_classes_are_balanced():
    drawn = [drawn_images.draw(number) for number in range(600)]
    flat = np.stack([image.ravel() for image, _ in drawn]).astype(np.float64)
    squares = (flat**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * flat @ flat.T, 0) / flat.shape[1])
    # Of two with the same noiseless image, 0.06·255·√2 = 21.6 would be all that is between them.
    assert distances[~np.eye(600, dtype=bool)].min() > 23
    counts = np.bincount([label for _, label in drawn], minlength=10)
    assert counts.min() >= 35 and counts.max() <= 85  # 60 each by chance, with a standard deviation of 7.3


def test_a_linear_classifier_learns_little_of_drawn_images():
    drawn = [drawn_images.draw(number) for number in range(1500)]
    x = np.stack([image[:, ::2, ::2].ravel() for image, _ in drawn]) / 128 - 1
    y = np.array([label for _, label in drawn])
    linear = LogisticRegression(C=1e-3, max_iter=200).fit(x[:1000], y[:1000])
    assert linear.score(x[1000:], y[1000:]) < 0.25
    for label in range(10):  # and no class is told by its colours or its mean image
        assert np.abs(x[y == label].mean() - x.mean()) < 0.1


def misfit(frames, sounds):
    """The least squared difference of frames and a transcript's formants, however long each sound, whoever speaks."""
    least = np.inf
    for shift in np.linspace(-1, 1, 9):
        templates = [np.zeros(20)]
        for sound in sounds:
            first, second = drawn_speech.FORMANTS[0][(sound - 1) % 4], drawn_speech.FORMANTS[1][(sound - 1) // 4]
            away = [(np.arange(20) - formant - shift) / drawn_speech.WIDTH for formant in (first, second)]
            templates.append(1 / (1 + away[0] ** 2) + 0.7 / (1 + away[1] ** 2))
        templates.append(np.zeros(20))
        costs = ((frames[:, None, :] - np.array(templates)[None]) ** 2).sum(axis=2)
        best = np.full(len(templates), np.inf)
        best[0] = costs[0, 0]
        for cost in costs[1:]:
            best = np.minimum(best, np.concatenate(([np.inf], best[:-1]))) + cost
        least = min(least, best[-1])
    return least


def test_frames_say_what_their_transcript_says():
    """The frames fit their own transcript better than one with a sound replaced, or with one left out."""
    random, right = np.random.default_rng(0), 0
    for number in range(20):
        frames, tokens = drawn_speech.draw(number)
        sounds = tokens[:-1]
        assert tokens[-1] == drawn_speech.END and all(1 <= sound < 25 for sound in sounds)
        assert all(a != b for a, b in pairwise(sounds))
        assert drawn_speech.SHORTEST * len(sounds) + 2 <= len(frames) <= drawn_speech.LAYOUT.shape[0]
        place = int(random.integers(len(sounds)))
        other = (sounds[place] + int(random.integers(1, 24)) - 1) % 24 + 1
        wrong = [[*sounds[:place], other, *sounds[place + 1 :]], sounds[:place] + sounds[place + 1 :]]
        right += misfit(frames, sounds) < min(misfit(frames, each) for each in wrong)
    assert right >= 19


def test_layouts_are_told_by_the_settings():
    named = [data(corpus=corpus) for corpus in ("python_stdlib", {"drawn_images": 5}, {"drawn_speech": 5})]
    text, images, frames = (corpus_of(each).layout(each.corpus.settings) for each in named)
    assert text is None and images == drawn_images.LAYOUT and frames.kind == "frames"
