"""Images of the hub: a folder of the layout in which the hub keeps CIFAR-10 is read by `datasets`, off the network."""

import io
import os
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
from data_library import data, read_corpus
from image_sets import drawn_pixels, write_images, write_rows
from PIL import Image

import ablate
from ablate.data.corpora.hub_images import HubImages, HubOfImages, pixels_of
from ablate.data.records import RecordBatches
from ablate.data.sources import SPLITS, CorpusError, Skipped
from ablate.data.streams import prepare


def chosen(folder, **more):
    """The settings of CIFAR-10, for a set in a folder."""
    settings = {"split": "train", "image": "img", "label": "label", "size": 8, "classes": 10}
    return {"hub_images": str(folder), **settings, **more}


def test_a_set_of_the_layout_of_cifar_is_read_as_it_is(tmp_path, cache):
    pixels, classes = write_images(tmp_path / "set" / "train.parquet", 60, 8)
    streams = prepare(data(corpus=chosen(tmp_path / "set")), tmp_path, cache)
    assert streams.vocab_size == 10 and streams.layout.shape == (3, 8, 8)
    found = []
    for split in SPLITS:
        records = streams.records(split)
        every = np.arange(len(records))
        found += list(zip(records.values(every), records.targets(every, -1), strict=True))
    told = sorted((image.tobytes(), int(label)) for image, label in found)
    assert told == sorted(
        (np.moveaxis(each, -1, 0).tobytes(), label) for each, label in zip(pixels, classes, strict=True)
    )
    inputs, targets = RecordBatches(streams.records("train"), streams.standard, batch=5, seed=0).at(0)
    assert inputs.shape == (5, 3, 8, 8) and targets.shape == (5,)
    assert sum(streams.report.split(split).files for split in SPLITS) == 60


def test_no_network_is_needed_once_it_is_cached(tmp_path, cache, monkeypatch):
    write_images(tmp_path / "set" / "train.parquet", 40, 8)
    first = prepare(data(corpus=chosen(tmp_path / "set")), tmp_path, cache)
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: pytest.fail("asked the hub"))
    assert prepare(data(corpus=chosen(tmp_path / "set")), tmp_path, cache).fingerprint == first.fingerprint


def cubic(x):
    """Keys' kernel with a = -1/2."""
    x = np.abs(x)
    return np.where(x < 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x < 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0))


def scaled(row_major, first, length, size):
    """Rows from `first` on, `length` of them, as `size` rows: each a mean of those near it, by the widened kernel."""
    scale = length / size
    near = np.arange(len(row_major))
    rows = []
    for place in range(size):
        centre = first + (place + 0.5) * scale
        weights = cubic((near + 0.5 - centre) / max(scale, 1))
        inside = (near + 0.5 > centre - 2 * scale) & (near + 0.5 < centre + 2 * scale)
        weights = np.where(inside, weights, 0)
        rows.append((weights[:, None, None] * row_major).sum(axis=0) / weights.sum())
    return np.stack(rows)


@pytest.mark.parametrize(("height", "width"), [(24, 24), (30, 20), (17, 41)])
def test_an_image_of_another_size_is_scaled_and_its_middle_kept(height, width):
    random = np.random.default_rng(3)
    image = random.integers(60, 200, (height, width, 3)).astype(np.uint8)
    side = min(height, width)
    across = scaled(np.moveaxis(image.astype(np.float64), 1, 0), (width - side) / 2, side, 8).swapaxes(0, 1)
    expected = scaled(across, (height - side) / 2, side, 8)
    found = pixels_of(Image.fromarray(image), 8, 3).astype(np.float64)
    assert found.shape == (3, 8, 8)
    assert np.abs(np.moveaxis(found, 0, -1) - expected).max() <= 1.5  # Pillow rounds after each of its two passes


def test_the_middle_of_an_image_that_needs_no_scaling_is_exact():
    image = drawn_pixels(1, 12)[0][0][2:10]  # 8 rows, 12 columns
    assert np.array_equal(pixels_of(Image.fromarray(image), 8, 3), np.moveaxis(image[:, 2:10], -1, 0))


def test_grey_and_coloured_images_have_the_channels_that_are_asked_for():
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8)
    assert np.array_equal(pixels_of(Image.fromarray(grey), 8, 3), np.stack([grey] * 3))
    assert np.array_equal(pixels_of(Image.fromarray(grey), 8, 1), grey[None])
    colour = drawn_pixels(1, 8)[0][0]
    luma = colour.astype(np.float64) @ [0.299, 0.587, 0.114]
    assert np.abs(pixels_of(Image.fromarray(colour), 8, 1)[0] - luma).max() <= 1


def on_the_hub(monkeypatch, rows):
    """Let `datasets` stream `rows`, of which it knows nothing, whatever is asked of the hub."""
    streamed = datasets.IterableDataset.from_generator(lambda: iter(rows))
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: streamed)


def encoded(image, kind="png"):
    file = io.BytesIO()
    image.save(file, kind)
    return {"bytes": file.getvalue(), "path": None}


def test_what_is_no_image_is_left_out_and_said(monkeypatch):
    image = Image.fromarray(drawn_pixels(1, 8)[0][0])
    deep = Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16))
    cut_off = {"bytes": encoded(image)["bytes"][:60], "path": None}
    values = [encoded(image), image, None, deep, cut_off, "an image"]
    on_the_hub(monkeypatch, [{"img": value, "label": 3} for value in values])
    first, second, *others = HubOfImages(HubImages(**chosen("someone/images"))).texts()
    assert first.content == second.content
    assert [each.reason for each in others] == [
        "contains no image",
        "has more than 8 bits (I;16)",
        "contains no image",
        "contains no image",
    ]
    assert all(isinstance(each, Skipped) for each in others)


def damaged(folder, kind):
    """Sets of 9 images of which one is cut off, in a table or in a folder of files; the pixels of all of them."""
    pixels, classes = drawn_pixels(9, 8)
    files = [encoded(Image.fromarray(each))["bytes"] for each in pixels]
    files[4] = files[4][:100]
    if kind == "table":
        write_rows(folder / "train.parquet", [{"bytes": file, "path": None} for file in files], classes)
    for number, (file, label) in enumerate(zip(files, classes, strict=True)):
        (folder / "train" / str(label)).mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            (folder / "train" / str(label) / f"{number}.png").write_bytes(file)
    return pixels


@pytest.mark.parametrize("kind", ["table", "folder"])
def test_an_image_that_is_damaged_is_left_out_of_a_set_that_decodes_by_itself(kind, tmp_path):
    pixels = damaged(tmp_path / "set", kind)
    image = "img" if kind == "table" else "image"
    texts = list(HubOfImages(HubImages(**chosen(tmp_path / "set", image=image))).texts())
    assert [each.reason for each in texts if isinstance(each, Skipped)] == ["contains no image"]
    found = {each.content[:192] for each in texts if not isinstance(each, Skipped)}
    whole = {np.moveaxis(each, -1, 0).tobytes() for number, each in enumerate(pixels) if number != 4}
    assert len(texts) == 9 and found == whole


def test_an_image_is_turned_and_coloured_as_its_set_says(tmp_path):
    """As `datasets` does where it decodes by itself: upright by what the camera noted, in the colours of the set."""
    image = Image.fromarray(drawn_pixels(1, 8)[0][0])
    noted = image.getexif()
    noted[0x0112] = 6
    file = io.BytesIO()
    image.save(file, "png", exif=noted)
    features = datasets.Features({"img": datasets.Image(mode="L"), "label": datasets.Value("int64")})
    rows = {"img": [{"bytes": file.getvalue(), "path": None}], "label": [3]}
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / "train.parquet")
    (only,) = HubOfImages(HubImages(**chosen(tmp_path / "set"))).texts()
    turned = np.rot90(np.asarray(image.convert("L")), k=-1)
    assert only.content[:192] == np.stack([turned] * 3).tobytes()


def test_a_file_that_is_not_there_is_no_damaged_image(tmp_path, monkeypatch):
    """A set that cannot be reached must not be taken for one without images."""
    features = datasets.Features({"img": datasets.Image(), "label": datasets.Value("int64")})
    rows = [{"img": {"bytes": None, "path": str(tmp_path / "gone.png")}, "label": 3}]
    streamed = datasets.IterableDataset.from_generator(lambda: iter(rows), features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: streamed)
    with pytest.raises(CorpusError, match=r"cannot read split 'train' of 'someone/images': (.|\n)*gone\.png"):
        list(HubOfImages(HubImages(**chosen("someone/images"))).texts())


@pytest.mark.parametrize(("left_out", "told"), [(1, "1 example is left out"), (2, "2 examples are left out")])
def test_the_report_counts_images_that_are_left_out_as_examples(left_out, told, tmp_path, cache, monkeypatch):
    image = Image.fromarray(drawn_pixels(1, 8)[0][0])
    on_the_hub(monkeypatch, [{"img": value, "label": 3} for value in [image] * 9 + [None] * left_out])
    described = prepare(data(corpus=chosen("someone/images")), tmp_path, cache).report.describe()
    assert told in described and "text" not in described


def test_a_field_without_an_image_is_refused_where_it_is_named(monkeypatch):
    on_the_hub(monkeypatch, [{"img": "a cat", "label": 3}] * 7)
    with pytest.raises(
        CorpusError, match=r"contains no images: 7 that could not be read(.|\n)*name a field that contains images$"
    ) as refused:
        read_corpus(data(corpus=chosen("someone/images")), Path())
    assert refused.value.faults[0].at == ("data", "corpus", "image") and "text" not in str(refused.value)


@pytest.mark.parametrize(
    ("corpus", "told"),
    [
        (
            {"drawn_images": 2},
            r"has 2 images \(\w+, \w+\), but 3 are needed(.|\n)*name a corpus of more images, or hold",
        ),
        ({"drawn_speech": 1}, r"has 1 example \(\w+\), but 3 are needed(.|\n)*an example goes to one split as a whole"),
        (
            chosen("someone/images", at_most=9),
            r"has 1 image \(\w+\), but 3(.|\n)*more images, raise at_most, or hold out fewer",
        ),
    ],
)
def test_too_few_examples_are_told_as_what_they_are(corpus, told, monkeypatch):
    on_the_hub(monkeypatch, [{"img": Image.fromarray(drawn_pixels(1, 8)[0][0]), "label": 3}])
    with pytest.raises(CorpusError, match=told) as refused:
        read_corpus(data(corpus=corpus), Path())
    assert "text" not in str(refused.value)


def test_it_is_read_up_to_a_limit_of_pixels(monkeypatch):
    image = Image.fromarray(drawn_pixels(1, 8)[0][0])
    on_the_hub(monkeypatch, [{"img": image, "label": 3}] * 9)
    for at_most, images in ((1, 1), (192, 1), (193, 2), (2**20, 9)):
        assert len(list(HubOfImages(HubImages(**chosen("someone/images", at_most=at_most))).texts())) == images


@pytest.mark.parametrize(("label", "at"), [(10, "classes"), (-1, "label"), ("cat", "label"), (None, "label")])
def test_a_label_that_is_no_class_is_refused_where_it_is_named(label, at, monkeypatch):
    image = Image.fromarray(drawn_pixels(1, 8)[0][0])
    on_the_hub(monkeypatch, [{"img": image, "label": 0}, {"img": image, "label": label}])
    with pytest.raises(CorpusError, match=r"row 1 of someone/images has the label .*, not one of 0 to 9") as refused:
        list(HubOfImages(HubImages(**chosen("someone/images"))).texts())
    assert refused.value.faults[0].at == ("data", "corpus", at)


@pytest.mark.parametrize("setting", ["image", "label"])
def test_a_field_that_is_not_there_is_refused_where_it_is_named(setting, tmp_path):
    write_images(tmp_path / "set" / "train.parquet", 3, 8)
    with pytest.raises(CorpusError, match=r"has no field 'pixels'\n  = its fields: img, label") as refused:
        read_corpus(data(corpus=chosen(tmp_path / "set", **{setting: "pixels"})), tmp_path)
    assert refused.value.faults[0].at == ("data", "corpus", setting)


def test_a_set_whose_labels_are_kept_back_is_refused(tmp_path):
    image = Image.fromarray(drawn_pixels(1, 8)[0][0])
    write_rows(tmp_path / "set" / "test.parquet", [image] * 4, [-1] * 4)
    with pytest.raises(CorpusError, match=r"label -1(.|\n)*a split whose labels are kept back has -1"):
        read_corpus(data(corpus=chosen(tmp_path / "set", split="test")), tmp_path)


def test_without_a_network_it_names_what_is_on_every_machine():
    program = (
        "from pathlib import Path\n"
        "from ablate.data.corpus import source_of\n"
        "from ablate.errors import RefusedError\n"
        "from ablate.space.data import Data\n"
        "cifar = {'hub_images': 'someone/no-such-set', 'split': 'train', 'image': 'img', 'label': 'label'}\n"
        "cifar |= {'size': 32, 'classes': 10}\n"
        "pairs = dict(hub_pairs='someone/no-such-pairs', split='train', source='a', target='b')\n"
        "for hub in (cifar, pairs):\n"
        "    try:\n"
        "        list(source_of(Data(corpus=hub, tokenizer='bytes', tuning=0.1, verdict=0.1), Path()).texts())\n"
        "    except RefusedError as refusal:\n"
        "        print(refusal)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path(ablate.__path__[0]).parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    images, pairs = done.stdout.split("cannot read split")[1:]
    assert "'someone/no-such-set'" in images and "digits, or {drawn_images: 20000}" in images, done.stderr
    assert "'someone/no-such-pairs'" in pairs and "code_docstrings" in pairs
