"""A small standard library of our own making, so that tests go through the public functions and stay quick."""

import os
import random
import sysconfig
import time
from pathlib import Path

import pytest

from ablate.data.corpus import Corpus, corpus_of, divide, source_of
from ablate.space.data import Data

WORDS = ("def", "return", "import", "self", "value", "for", "while", "if", "raise", "class", "print", "yield", "None")


def prose(seed: int, size: int) -> str:
    """`size` characters of lines of words, a function of `seed`."""
    draw = random.Random(seed)
    text = "\n".join(" ".join(draw.choices(WORDS, k=8)) for _ in range(size // 20 + 1))
    return text[: size - 1] + "\n"


def settle(folder: Path) -> None:
    """Make every file an hour old, as files of a corpus are when nobody is editing them."""
    then = time.time() - 3600
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def data(**fields: object) -> Data:
    """A `Data` document: bytes of the standard library unless said otherwise."""
    return Data.model_validate(
        {"corpus": "python_stdlib", "tokenizer": "bytes", "tuning": 0.1, "verdict": 0.1, **fields}
    )


def read_corpus(chosen: Data, folder: Path) -> Corpus:
    """All texts that a `Data` document names, each in the split of its folder."""
    return divide(source_of(chosen, folder), chosen, corpus_of(chosen).layout(chosen.corpus.settings))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty modules and four packages that stand where the standard library stands, an hour old."""
    root = tmp_path / "lib"
    for number in range(40):
        module = root / f"module_{number:02d}.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text(prose(number, 500))
    for number in range(4):
        for name in ("__init__", "one", "two"):
            module = root / f"package_{number}" / f"{name}.py"
            module.parent.mkdir(exist_ok=True)
            module.write_text(prose(100 + number, 300))
    (root / "os.py").write_text("# where the library is\n")
    settle(root)
    pretend_library(monkeypatch, root)
    return root


def pretend_library(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Let `root` be the folder of this interpreter's standard library."""
    real = sysconfig.get_path
    monkeypatch.setattr(
        sysconfig,
        "get_path",
        lambda name, *more, **named: str(root) if name == "stdlib" else real(name, *more, **named),
    )


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder that does not exist yet."""
    return tmp_path / "cache" / "corpora"
