"""Files that a grammar includes: `include: [transformer/espa.yaml]`, each with the blocks of one paper.

    paper: He et al. 2023, Deep Transformers without Shortcuts, arXiv:2302.10322
    blocks:      {…}
    presets:     {…}        and, if it needs them, defaults and constraints

Paths are relative to the grammar and stay in its folder. An included file adds to the grammar and never overrides it: a
name given twice is a mistake. It cannot include other files.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from pathlib import Path

from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, quote, suggest
from ablate.source.yaml import is_file, parse_yaml, read_yaml

KEYS = ("paper", "defaults", "blocks", "presets", "constraints")
"""The keys of an included file."""


@dataclass(frozen=True, slots=True)
class GrammarText:
    """The entries of one file of a grammar, by key; `paper` is the paper that its blocks are from, or "".

    `name` is the path at which a grammar includes it, and `text` what was read there, from which the entries follow.
    """

    paper: str
    entries: Map[str, Located] = field(compare=False)
    name: str = ""
    text: str = ""


def read_included(
    located: Located | None, grammar: Path, problems: Problems, kept: Map[str, str] | None = None
) -> tuple[GrammarText, ...]:
    """Read every file that the `include:` of a grammar names; mistakes go to `problems`.

    Those that are `kept`, by the name at which they are included, are not read from the disk. Raises InputError, with
    the place in the file, for one that is not YAML.
    """
    if located is None:
        return ()
    if not isinstance(located, Items):
        problems.add("include must be a list of files", located.span, notes=("such as include: [papers/espa.yaml]",))
        return ()
    files: dict[Path, Scalar] = {}
    for item in located.items:
        path = _path(item, grammar, problems, kept or {})
        if path is not None and path in files:
            also = ((files[path].span, "first here"),)
            problems.add(f"{quote(files[path].text)} is included twice", item.span, label="and again", also=also)
        elif path is not None:
            assert isinstance(item, Scalar)
            files[path] = item
    read: list[GrammarText | None] = []
    for path, named in files.items():
        text = (kept or {}).get(str(named.value))
        located = read_yaml(path) if text is None else parse_yaml(text, str(path))
        read.append(_text(located, str(named.value), problems))
    return tuple(text for text in read if text is not None)


def looks_included(located: Located) -> bool:
    """Return whether a file is meant to be included by a grammar, and is not one itself."""
    return isinstance(located, Mapping) and len(located) > 0 and all(key in KEYS for key in located)


def _path(item: Located, grammar: Path, problems: Problems, kept: Map[str, str]) -> Path | None:
    """Return the file that an item names, if there is one in the folder of the grammar, or if it is kept."""
    if not isinstance(item, Scalar) or not isinstance(item.value, str):
        problems.add("include must list files, as paths relative to this one", item.span)
        return None
    folder = grammar.parent
    path = folder / item.value
    if item.value in kept:
        return path
    if not path.resolve().is_relative_to(folder.resolve()):
        problems.add(
            f"{quote(item.value)} is not in the grammar's folder", item.span, notes=(f"the folder is {folder}",)
        )
        return None
    if path.resolve() == grammar.resolve():
        problems.add("a grammar cannot include itself", item.span)
        return None
    if not is_file(path):
        near = suggest(path.name, (other.name for other in _beside(path))) or ""
        problems.add(f"there is no file {quote(item.value)} to include", item.span, label=near)
        return None
    return path


def _beside(path: Path) -> Iterator[Path]:
    if path.parent.is_dir():
        yield from path.parent.glob("*.yaml")


def _text(located: Located, name: str, problems: Problems) -> GrammarText | None:
    accepted = f"an included file accepts: {', '.join(KEYS)}"
    if not isinstance(located, Mapping):
        problems.add("an included file must be a mapping", located.span, notes=(accepted,))
        return None
    for key, _ in located.entries:
        if key.value == "include":
            problems.add(
                "an included file cannot include others", key.span, notes=("name the file in the grammar itself",)
            )
        elif key.value not in KEYS:
            message = f"unknown key {quote(key.text)} in an included file"
            problems.add_unknown(message, key.span, key.text, KEYS, "an included file accepts")
    paper = located.get("paper")
    if paper is not None and (not isinstance(paper, Scalar) or not isinstance(paper.value, str)):
        problems.add("paper must be text", paper.span, notes=("authors, year, title and where to find it",))
        paper = None
    entries = {str(key.value): value for key, value in located.entries}
    said = str(paper.value) if isinstance(paper, Scalar) else ""
    return GrammarText(said, entries, name, located.span.source.text)
