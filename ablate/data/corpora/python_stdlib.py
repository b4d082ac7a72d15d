"""The Python source of the standard library of the running interpreter.

Real code that is on every machine that can run ablate, without a download. It differs between builds (1,790 files on
one CPython 3.11, 668 on Debian's), so results on it are compared by fingerprint, never by name.
"""

from __future__ import annotations

import os
import platform
import sysconfig
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from ablate.data.corpora.declare import CorpusError, CorpusFault, Settings, Skipped, Text, corpus, implements
from ablate.data.sources import FoundFile, look_at, stamp_of

NOT_THE_LIBRARY = frozenset({"site-packages", "dist-packages", "__pycache__"})
"""Folders inside the library's folder that hold installed packages, or no source."""


@corpus("python_stdlib", source="Python Software Foundation, docs.python.org/3/library", version=1)
class PythonStdlib(Settings):
    """No settings: `corpus: python_stdlib`."""


@implements(PythonStdlib)
def read(settings: PythonStdlib, folder: Path) -> StandardLibrary:
    """The library that `import` would use. Raises CorpusError if it is not a folder of source files."""
    return standard_library("python_stdlib")


def standard_library(name: str) -> StandardLibrary:
    """The library that `import` would use, for the corpus of that name. Raises CorpusError as `read` does."""
    root = Path(sysconfig.get_path("stdlib"))
    if not (root / "os.py").is_file():
        message = f"{name}: this Python keeps no source files of its standard library in {root}"
        notes = (
            "run ablate with a Python that does (python.org, Debian, pyenv, conda and uv builds do)",
            "or name text files of your own: corpus: {files: ['texts/**/*.txt']}",
        )
        raise CorpusError([CorpusFault(message, notes=notes)])
    return StandardLibrary(root)


@dataclass(frozen=True)
class StandardLibrary:
    root: Path
    name: ClassVar[str] = "python_stdlib"

    @property
    def title(self) -> str:
        return f"{self.name} ({platform.python_implementation()} {platform.python_version()})"

    @property
    def place(self) -> str:
        return str(self.root)

    @cached_property
    def files(self) -> tuple[FoundFile, ...]:
        return tuple(sorted(_walk(self.root)))

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def stamp(self) -> str | None:
        return stamp_of(self.files)

    def texts(self) -> Iterator[Text | Skipped]:
        """Yield every file, decoded as Python itself would (PEP 263)."""
        return (_decoded(file) for file in self.files)


def _walk(root: Path) -> Iterator[FoundFile]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in NOT_THE_LIBRARY]
        for name in names:
            if name.endswith(".py"):
                path = Path(folder, name)
                yield look_at(path.relative_to(root).as_posix(), path)


def _decoded(file: FoundFile) -> Text | Skipped:
    try:
        with tokenize.open(file.path) as opened:
            # Encoding can fail where decoding did not: some codecs let lone surrogates through.
            return Text(file.name, opened.read().encode("utf-8"))
    except SyntaxError as error:  # how `tokenize` reports an unknown or contradictory coding line
        return Skipped(file.name, str(error.msg).replace(str(file.path), file.path.name))
    except (OSError, LookupError, ValueError) as error:
        return Skipped(file.name, str(error).replace(str(file.path), file.path.name))
