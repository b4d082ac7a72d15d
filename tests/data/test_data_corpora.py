"""A corpus is one file: those that ship hold the contract, and a user's own is trained on."""

from __future__ import annotations

import gzip
import json
import sysconfig

import pyarrow
import pytest
from data_library import pretend_library, prose, settle
from documents import code
from image_sets import write_images
from pyarrow import parquet
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.components.registry import declarations
from ablate.data.streams import fingerprint, prepare
from ablate.errors import InputError
from ablate.extension.declaration import CORPUS
from ablate.space.data import CorpusSpec
from ablate.space.documents import CorpusChoice
from ablate.testing import CorpusContract

POEMS = '''"""Verses: the lines of a file, a document each."""

from pathlib import Path

from ablate.data.corpora.declare import Bytes, Settings, Skipped, Text, corpus, implements


@corpus("verses", source="this test"{more})
class Verses(Settings):
    """`{{verses: poem.txt}}`; `upper` shouts."""

    verses: str
    upper: bool = False
    at_most: Bytes | None = None


@implements(Verses)
class Lines:
    notes = ()

    def __init__(self, settings, folder):
        self.settings, self.path = settings, Path(folder, settings.verses)
        self.title, self.place = f"verses {{settings.verses}}", str(self.path)

    def stamp(self):
        return str(self.path.stat().st_mtime_ns)

    def texts(self):
        read = 0
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines()):
            content = (line.upper() if self.settings.upper else line).encode("utf-8")
            yield Text(f"{{number:09d}}", content)
            read += len(content)
            if self.settings.at_most is not None and read >= self.settings.at_most:
                return
'''


@pytest.fixture
def plugin(tmp_path):
    """A file of one's own, the verses that it reads, and a space over them."""
    path = tmp_path / "verses.py"
    path.write_text(POEMS.format(more=""), encoding="utf-8")
    (tmp_path / "poem.txt").write_text("".join(prose(n, 300).replace("\n", " ") + "\n" for n in range(60)))
    space = write_world(tmp_path, seeds=2)
    text = space.read_text(encoding="utf-8").replace('{files: ["texts/**/*.txt"]}', "{verses: poem.txt}")
    space.write_text(text.replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, op]}"), encoding="utf-8")
    return path


def contract_of(written: str, folder, plugins=()) -> CorpusContract:
    """The contract of a corpus, written as behind `data.corpus`."""
    return type("Written", (CorpusContract,), {"corpus": written, "folder": folder, "plugins": plugins})()


@pytest.fixture
def texts(tmp_path):
    """The same documents as files, JSONL, Parquet, and a folder that `datasets` streams as it does the hub."""
    rows = [{"text": prose(n, 300)} for n in range(12)]
    for n, row in enumerate(rows):
        (tmp_path / "d" / f"{n % 4}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "d" / f"{n % 4}" / f"{n}.txt").write_text(row["text"])
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(lines)
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.jsonl").write_text(lines)
    (tmp_path / "pairs").mkdir()
    pairs = [{"say": {"de": prose(n, 300)}, "en": prose(n + 100, 200)} for n in range(12)]
    (tmp_path / "pairs" / "train.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    write_images(tmp_path / "images" / "train.parquet", 12, 4)
    settle(tmp_path)
    return tmp_path


SHIPPED = {
    "files": "files: ['d/**/*.txt']",
    "hub": "hub: {folder}/set, split: train, field: text",
    "hub_pairs": "hub_pairs: {folder}/pairs, split: train, source: say.de, target: en",
    "hub_images": (
        "hub_images: {folder}/images, split: train, image: img, label: label, size: 4, classes: 10, at_most: 1 KiB"
    ),
    "code_docstrings": "code_docstrings",
    "jsonl": "jsonl: ['rows.*'], field: text",
    "parquet": "{parquet: [rows.parquet], field: text, at_most: 1 KiB}",
    "python_stdlib": "python_stdlib",
    "digits": "digits",
    "drawn_images": "drawn_images: 30",
    "drawn_speech": "drawn_speech: 30",
}


def test_each_corpus_held_to_the_contract_ships():
    assert SHIPPED.keys() <= declarations().of_kind(CorpusSpec).keys() <= {path.stem for path in CORPUS.files()}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_corpus_that_ships_holds_the_contract(name, texts, monkeypatch):
    if name in ("python_stdlib", "code_docstrings"):
        pretend_library(monkeypatch, texts / "lib")
        (texts / "lib").mkdir()
        (texts / "lib" / "os.py").write_text('def f():\n    "Return 1."\n    return 1\n')
        assert sysconfig.get_path("stdlib") == str(texts / "lib")
    written = SHIPPED[name].replace("{folder}", str(texts)).replace("'rows.*'", "rows.jsonl")
    contract_of(written, texts).check_all()


BROKEN = {
    "two documents share a name": ('f"{number:09d}"', '"one"'),
    "no document contains any text": (".splitlines()", ".splitlines()[:0]"),
    "though nothing changed": ("str(self.path.stat().st_mtime_ns)", "__import__('secrets').token_hex(4)"),
    "title must be a string": ('f"verses {settings.verses}"', "None"),
    "were read": ("read >= self.settings.at_most", "False"),
}


@pytest.mark.parametrize("told", BROKEN)
def test_the_contract_tells_what_does_not_hold(told, plugin, tmp_path):
    right = contract_of("verses: poem.txt", tmp_path, (plugin,))
    right.check_all()
    old, new = BROKEN[told]
    text = plugin.read_text(encoding="utf-8")
    assert old in text
    plugin.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(AssertionError, match=told):
        right.check_all()


def test_the_contract_tells_an_order_that_changes(plugin, tmp_path):
    text = plugin.read_text(encoding="utf-8")
    shuffled = "(lambda lines: __import__('random').sample(lines, len(lines)))(self.path.read_text().splitlines())"
    plugin.write_text(text.replace('self.path.read_text(encoding="utf-8").splitlines()', shuffled), encoding="utf-8")
    with pytest.raises(AssertionError, match="or another order"):
        contract_of("verses: poem.txt", tmp_path, (plugin,)).test_order_is_stable()


def test_the_example_of_the_manual_holds_the_contract(tmp_path):
    (tmp_path / "verses.py").write_text(code("corpus", "python")[0], encoding="utf-8")
    (tmp_path / "poems.txt").write_text("one line\nand another\n")
    contract_of("verses: poems.txt", tmp_path, (tmp_path / "verses.py",)).check_all()


@pytest.mark.full
@pytest.mark.parametrize("executor", ["inline", pytest.param("local", marks=pytest.mark.slow)])
def test_a_corpus_of_ones_own_is_trained_on_to_an_answer(executor, plugin, tmp_path):
    space = ablate.load_space(tmp_path / "tiny.yaml", plugins=[plugin])
    assert space.data.corpus == CorpusChoice("verses", {"verses": "poem.txt", "upper": False, "at_most": None})
    run = ablate.run(
        space,
        results=tmp_path / "r",
        executor=executor,
        workers=1 if executor == "local" else None,
        plugins=[plugin],
        console=Console(quiet=True),
        mirror=False,
    )
    assert len(run.verdicts) > 0 and set(run.trials["status"]) == {"finished"}
    assert "verses poem.txt" in ablate.plan_space(space, results=tmp_path / "r").corpus.title


def test_it_is_read_as_far_as_the_steps_ask(plugin, tmp_path):
    settings = ["data.corpus.at_most=4 GiB"]
    space = ablate.load_space(tmp_path / "tiny.yaml", plugins=[plugin], settings=settings)
    assert space.data.corpus.settings["at_most"] == 2**26


def test_without_its_plugin_it_is_unknown(plugin, tmp_path):
    with pytest.raises(InputError, match=r"no key names a corpus(.|\n)*those that `ablate list corpora` lists"):
        ablate.load_space(tmp_path / "tiny.yaml")
    space = ablate.load_space(tmp_path / "tiny.yaml", plugins=[plugin])
    with pytest.raises(InputError, match=r"there is no corpus 'verses'(.|\n)*--plugin FILE\.py"):
        prepare(space.data, space.folder, tmp_path / "cache")


def test_a_later_version_is_read_anew_though_its_stamp_is_the_same(plugin, tmp_path):
    def fingerprinted() -> str:
        space = ablate.load_space(tmp_path / "tiny.yaml", plugins=[plugin])
        return fingerprint(space.data, space.folder, tmp_path / "cache", space.grammar.catalogue).fingerprint

    first = fingerprinted()
    other = POEMS.replace("line.upper() if self.settings.upper else line", "line[::-1]")
    plugin.write_text(other.format(more=""), encoding="utf-8")
    assert fingerprinted() == first  # its stamp is that of the file, which is as it was
    plugin.write_text(other.format(more=", version=2"), encoding="utf-8")
    assert fingerprinted() != first


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("verses: str", "poem: str", "the first setting of corpus 'verses' must have its name, not 'poem'"),
        ("verses: str", "verses: str = 'x'", "setting 'verses' names the corpus, so it cannot have a default"),
        ("(Settings)", "(Document)", "the settings of a corpus derive from Settings"),
        ('source="this test"', 'source=""', "a corpus must say where it is from"),
        ("@implements(Verses)", "", "corpus 'verses' has no reader"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_told_at_its_place(old, new, told, plugin):
    text = plugin.read_text(encoding="utf-8").replace(old, new)
    plugin.write_text("from ablate.space.documents import Document\n" + text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        ablate.catalogue([plugin])
    assert told in str(refused.value) and f"--> {plugin}:" in str(refused.value) and "^" in str(refused.value)
