import gzip
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
from data_library import data, pretend_library, prose, read_corpus

import ablate
from ablate.data.corpora.files import Files, LocalFiles
from ablate.data.corpora.hub import Hub, HubDataset
from ablate.data.sources import SPLITS, Skipped, Text
from ablate.errors import InputError, RefusedError


def everything(corpus):
    return {text.name: text.content for split in SPLITS for text in corpus.texts[split]}


@pytest.mark.fast
def test_the_library_is_read_as_python_reads_it(library):
    (library / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1"))
    (library / "marked.py").write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r")
    texts = everything(read_corpus(data(), library))
    assert texts["latin.py"].decode("utf-8").endswith("name = 'é'\n")
    assert texts["marked.py"] == b"x = 1\ny = 2\n"


@pytest.mark.fast
def test_what_does_not_decode_is_named_with_its_reason(library):
    (library / "bad_name.py").write_bytes(b"# coding: no-such-thing\n")
    (library / "bad_bytes.py").write_bytes(b"x = '\xff'\n")
    (library / "surrogate.py").write_bytes(b"# coding: raw_unicode_escape\nx = '\\ud800'\n")
    (library / "dangling.py").symlink_to(library / "nowhere")
    corpus = read_corpus(data(), library)
    skipped = {each.name: each.reason for each in corpus.skipped}
    assert skipped.keys() == {"bad_name.py", "bad_bytes.py", "surrogate.py", "dangling.py"}
    assert "no-such-thing" in skipped["bad_name.py"]
    assert all(skipped.values())
    assert not skipped.keys() & everything(corpus).keys()


@pytest.mark.fast
def test_only_the_library_itself_is_read(library):
    for foreign in ("site-packages", "dist-packages", "__pycache__", "package_0/__pycache__"):
        (library / foreign).mkdir()
        (library / foreign / "foreign.py").write_text("x = 1\n")
    (library / "notes.txt").write_text("no source\n")
    expected = {f"module_{number:02d}.py" for number in range(40)} | {"os.py"}
    expected |= {f"package_{number}/{name}.py" for number in range(4) for name in ("__init__", "one", "two")}
    assert everything(read_corpus(data(), library)).keys() == expected


@pytest.mark.fast
def test_a_folder_is_in_one_split_and_every_file_in_exactly_one(library):
    corpus = read_corpus(data(), library)
    names = [text.name for split in SPLITS for text in corpus.texts[split]]
    assert len(names) == len(set(names)) == 53
    for number in range(4):
        homes = [
            split for split in SPLITS for text in corpus.texts[split] if text.name.startswith(f"package_{number}/")
        ]
        assert len(homes) == 3
        assert len(set(homes)) == 1
    for split in SPLITS:
        assert [text.name for text in corpus.texts[split]] == sorted(text.name for text in corpus.texts[split])


@pytest.mark.fast
def test_an_interpreter_without_source_files_is_refused(tmp_path, monkeypatch):
    pretend_library(monkeypatch, tmp_path / "python311.zip")
    with pytest.raises(RefusedError, match=r"keeps no source files.*python311\.zip(.|\n)*corpus: \{files"):
        read_corpus(data(), tmp_path)


@pytest.mark.fast
def test_shares_that_leave_nothing_to_train_on_are_wrong_input(library):
    with pytest.raises(InputError, match="tuning 50% and verdict 50%"):
        read_corpus(data(tuning=0.5, verdict=0.5), library)


@pytest.fixture
def books(tmp_path):
    for number in range(30):
        path = tmp_path / "books" / f"shelf_{number % 10}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(prose(number, 200), encoding="utf-8")
    return tmp_path


def test_local_files_are_read_whole(books):
    odd = books / "books" / "shelf_3"
    (odd / "od[d]*{1}.txt").write_text("é\r\nß", encoding="utf-8")
    (odd / "packed.txt.gz").write_bytes(gzip.compress(b"unpacked"))
    texts = everything(read_corpus(data(corpus={"files": ["books/**/*.txt", "books/**/*.gz"]}), books))
    assert len(texts) == 32
    assert texts["shelf_3/od[d]*{1}.txt"].decode("utf-8") == "é\nß"
    assert texts["shelf_3/packed.txt.gz"] == b"unpacked"
    assert all(texts[f"shelf_{n % 10}/{n}.txt"] == prose(n, 200).encode() for n in range(30))


def test_local_files_that_are_not_text_are_named_and_the_others_kept(books):
    for number in (0, 13, 29):
        (books / "books" / f"shelf_{number % 10}" / f"{number}.txt").write_bytes(b"\xff\x00\xfe")
    corpus = read_corpus(data(corpus={"files": ["books/*/*.txt"]}), books)
    assert [each.name for each in corpus.skipped] == ["shelf_0/0.txt", "shelf_3/13.txt", "shelf_9/29.txt"]
    assert all("utf-8" in each.reason for each in corpus.skipped)
    texts = everything(corpus)
    assert texts == {f"shelf_{n % 10}/{n}.txt": prose(n, 200).encode() for n in range(30) if n not in (0, 13, 29)}


@pytest.mark.fast
def test_a_file_named_twice_is_there_once(books):
    (books / "books" / "shelf_0" / "again.txt").symlink_to(books / "books" / "shelf_1" / "1.txt")
    patterns = ("books/**/*.txt", "books/shelf_1/*.txt", str(books / "books" / "shelf_2" / "*.txt"), "./books/*/5.txt")
    names = [file.name for file in LocalFiles(Files(files=patterns), books).files]
    reversed_names = [file.name for file in LocalFiles(Files(files=patterns[::-1]), books).files]
    assert len(names) == 30
    assert names == reversed_names == sorted(set(names))


@pytest.mark.fast
def test_names_start_below_the_folder_that_holds_all(books):
    above = LocalFiles(Files.model_construct(files=("../books/**/*.txt",)), books / "books").files
    beside = LocalFiles(Files(files=("books/**/*.txt",)), books).files
    assert [file.name for file in above] == [file.name for file in beside]


@pytest.mark.fast
def test_patterns_that_match_nothing_are_all_named(books):
    with pytest.raises(RefusedError) as refusal:
        read_corpus(data(corpus={"files": ["books/**/*.txt", "bokks/*.txt", "books"]}), books)
    first, second = str(refusal.value).split("\n\n")
    assert "'bokks/*.txt'" in first
    assert f"there is no {books / 'bokks'}" in first
    assert "it is a folder" in second and "name its files, for instance books/**/*.txt" in second
    with pytest.raises(RefusedError, match=r"there is no .*nowhere"):
        read_corpus(data(corpus={"files": ["*.txt"]}), books / "nowhere")


def test_a_corpus_without_text_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "image.txt").write_bytes(b"\x89PNG\xff")
    with pytest.raises(RefusedError, match=r"contains no text: 1 empty and 1 that could not be read(.|\n)*image\.txt"):
        read_corpus(data(corpus={"files": ["*.txt"]}), tmp_path)


def test_one_file_cannot_be_three_splits(tmp_path):
    (tmp_path / "input.txt").write_text(prose(0, 5000))
    with pytest.raises(RefusedError, match=r"has 1 folder of text \(input\.txt\), but 3 are needed(.|\n)*split"):
        read_corpus(data(corpus={"files": ["input.txt"]}), tmp_path)
    corpus = read_corpus(data(corpus={"files": ["input.txt"]}, tuning=0, verdict=0), tmp_path)
    assert everything(corpus).keys() == {"input.txt"}


def on_the_hub(monkeypatch, rows):
    """Let `datasets` stream `rows`, whatever is asked of the hub."""
    calls = []

    def load_dataset(name, config, *, split, streaming):
        calls.append((name, split, streaming))
        return datasets.IterableDataset.from_generator(lambda: iter(rows))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


@pytest.mark.fast
def test_a_hub_data_set_is_streamed_in_its_order_up_to_a_limit(monkeypatch):
    calls = on_the_hub(monkeypatch, [{"content": "ab" * n} for n in (3, 1, 2, 5)] + [{"content": None}])
    settings = Hub(hub="someone/code", split="train", field="content")
    texts = list(HubDataset(settings).texts())
    assert texts[:4] == [Text(f"{n:09d}", b"ab" * size) for n, size in enumerate((3, 1, 2, 5))]
    assert texts[4] == Skipped("000000004", "contains no text")
    assert calls == [("someone/code", "train", True)]
    assert len(list(HubDataset(settings.model_copy(update={"at_most": 8})).texts())) == 2
    assert len(list(HubDataset(settings.model_copy(update={"at_most": 9})).texts())) == 3


@pytest.mark.fast
def test_a_hub_data_set_without_the_field_is_refused(monkeypatch):
    on_the_hub(monkeypatch, [{"content": "x", "size": 1}])
    with pytest.raises(RefusedError, match=r"no field 'text'\n  = its fields: content, size"):
        read_corpus(data(corpus={"hub": "someone/code", "split": "train", "field": "text"}), Path())


def test_without_a_network_a_hub_data_set_is_refused():
    program = (
        "from pathlib import Path\n"
        "from ablate.data.corpus import source_of\n"
        "from ablate.errors import RefusedError\n"
        "from ablate.space.data import Data\n"
        "hub = {'hub': 'someone/no-such-set', 'split': 'train', 'field': 'content'}\n"
        "try:\n"
        "    list(source_of(Data(corpus=hub, tokenizer='bytes', tuning=0.1, verdict=0.1), Path()).texts())\n"
        "except RefusedError as refusal:\n"
        "    print(refusal)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(Path(ablate.__path__[0]).parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert "cannot read split 'train' of 'someone/no-such-set'" in done.stdout, done.stderr
    assert "needs a network" in done.stdout and "without a network: corpus: python_stdlib" in done.stdout
