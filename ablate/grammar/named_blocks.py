"""The named blocks of a grammar, and its presets of a space: in its own file, and in those that it includes.

blocks:
  pre_ln: [residual: [layer_norm, attention], residual: [layer_norm, mlp]]
  op:                                              # with a line about it, and where in the paper it stands
    about: no norms; scaled residuals and QK-norm
    source: Fig. 5
    parts: [residual: {…}, residual: {…}]
presets:
  codeparrot: {about: …, source: App. G, model: {…}, data: {…}, recipe: {…}}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from pathlib import Path

from ablate.block.expression import Block, outline
from ablate.block.reader import Reader
from ablate.source.located import Items, Located, Mapping, Scalar
from ablate.source.problems import Problems, nearest, note_unknown, quote, shorten, suggest
from ablate.source.yaml import is_file, parse_yaml, read_yaml

# Files that a grammar includes: `include: [transformer/espa.yaml]`, each with the blocks of one paper.
#
#   paper: He et al. 2023, Deep Transformers without Shortcuts, arXiv:2302.10322
#   blocks:      {…}
#   presets:     {…}        and, if it needs them, defaults and constraints
#
# Paths are relative to the grammar and stay in its folder. An included file adds to the grammar and never overrides
# it: a name given twice is a mistake. It cannot include other files.

INCLUDED_KEYS = ("paper", "defaults", "blocks", "presets", "constraints")


@dataclass(frozen=True, slots=True)
class GrammarText:
    """The entries of one file of a grammar, by key; `paper` is the paper that its blocks are from, or "".

    `name` is the path at which a grammar includes it, and `text` its content, from which the entries follow.
    """

    paper: str
    entries: Map[str, Located] = field(compare=False)
    name: str = ""
    text: str = ""


def read_included(
    located: Located | None, grammar: Path, problems: Problems, kept: Map[str, str] | None = None
) -> tuple[GrammarText, ...]:
    """Read every file that the `include:` of a grammar names.

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
        path = _included_path(item, grammar, problems, kept or {})
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
        read.append(_included_text(located, str(named.value), problems))
    return tuple(text for text in read if text is not None)


def looks_included(located: Located) -> bool:
    """Return whether a file is meant to be included by a grammar, and is not one itself."""
    return isinstance(located, Mapping) and len(located) > 0 and all(key in INCLUDED_KEYS for key in located)


def _included_path(item: Located, grammar: Path, problems: Problems, kept: Map[str, str]) -> Path | None:
    """Return the file that an item names, if there is one in the folder of the grammar, or if it is kept."""
    if not isinstance(item, Scalar) or not isinstance(item.value, str):
        problems.add("include must list files, as paths relative to this one", item.span)
        return None
    folder = grammar.parent
    path = folder / item.value
    if item.value in kept:
        return path
    if not path.resolve().is_relative_to(folder.resolve()):
        message = f"{quote(item.value)} is not in the grammar's folder"
        problems.add(message, item.span, notes=(f"the folder is {folder}",))
        return None
    if path.resolve() == grammar.resolve():
        problems.add("a grammar cannot include itself", item.span)
        return None
    if not is_file(path):
        near = suggest(path.name, (other.name for other in path.parent.glob("*.yaml"))) or ""
        problems.add(f"there is no file {quote(item.value)} to include", item.span, label=near)
        return None
    return path


def _included_text(located: Located, name: str, problems: Problems) -> GrammarText | None:
    accepted = f"an included file accepts: {', '.join(INCLUDED_KEYS)}"
    if not isinstance(located, Mapping):
        problems.add("an included file must be a mapping", located.span, notes=(accepted,))
        return None
    for key, _ in located.entries:
        if key.value == "include":
            notes = ("name the file in the grammar itself",)
            problems.add("an included file cannot include others", key.span, notes=notes)
        elif key.value not in INCLUDED_KEYS:
            message = f"unknown key {quote(key.text)} in an included file"
            problems.add_unknown(message, key.span, key.text, INCLUDED_KEYS, "an included file accepts")
    paper = located.get("paper")
    if paper is not None and (not isinstance(paper, Scalar) or not isinstance(paper.value, str)):
        problems.add("paper must be text", paper.span, notes=("authors, year, title and where to find it",))
        paper = None
    entries = {str(key.value): value for key, value in located.entries}
    said = str(paper.value) if isinstance(paper, Scalar) else ""
    return GrammarText(said, entries, name, located.span.source.text)


# Blocks and presets, read from all of these files.

ABOUT = ("about", "source")
DESCRIBED = (*ABOUT, "parts")


@dataclass(frozen=True, slots=True)
class NamedBlock:
    """A named block of a grammar; `about` describes it in a line, `source` says where in `paper` it stands.

    Each of the three texts is empty if it is not given.
    """

    name: str
    block: Block
    key: Scalar
    about: str = ""
    source: str = ""
    paper: str = ""

    def __repr__(self) -> str:
        return f"<NamedBlock {self.name}: {shorten(self.about) if self.about else outline(self.block)}>"


@dataclass(frozen=True, slots=True)
class Preset:
    """Named sections of a space: the model, data and recipe of a paper. `sections` is still located."""

    name: str
    sections: Mapping
    key: Scalar
    about: str = ""
    source: str = ""
    paper: str = ""

    def __repr__(self) -> str:
        return f"<Preset {self.name}: {', '.join(map(str, self.sections))}>"


def read_blocks(texts: Iterable[GrammarText], reader: Reader) -> dict[str, NamedBlock]:
    blocks: dict[str, NamedBlock] = {}
    for text, key, body in _each_named("blocks", texts, reader.problems):
        about, source, parts = read_described(key, body, reader.problems)
        block = None if parts is None else reader.block(parts)
        if block is not None:
            blocks[str(key.value)] = NamedBlock(str(key.value), block, key, about, source, text.paper)
    return blocks


def read_described(key: Scalar, body: Located, problems: Problems) -> tuple[str, str, Located | None]:
    """Read the description, the source and the parts of a block; a block that is written as a list has only parts.

    If there are no parts, they are None, and the mistake is noted.
    """
    if not isinstance(body, Mapping) or not any(word in body for word in DESCRIBED):
        return "", "", body
    note_unknown(body, DESCRIBED, problems, "a block with a description has no")
    if "parts" not in body and "parts" not in {nearest(word, DESCRIBED) for word in body}:
        problems.add(f"block {quote(key.text)} has no parts", key.span, notes=("write them under parts: […]",))
    about, source = (_description(body, word, problems) for word in ABOUT)
    return about, source, body.get("parts")


def read_presets(texts: Iterable[GrammarText], problems: Problems) -> dict[str, Preset]:
    """Read the presets of a grammar and its included files; the space reads the contents of their sections."""
    presets: dict[str, Preset] = {}
    for text, key, body in _each_named("presets", texts, problems):
        if not isinstance(body, Mapping):
            notes = ("such as {model: {…}, data: {…}, recipe: {…}}",)
            problems.add("a preset must be a mapping of sections of a space", body.span, notes=notes)
            continue
        sections = Mapping(tuple((word, value) for word, value in body.entries if word.value not in ABOUT), body.span)
        about, source = (_description(body, word, problems) for word in ABOUT)
        presets[str(key.value)] = Preset(str(key.value), sections, key, about, source, text.paper)
    return presets


def _each_named(
    kind: str, texts: Iterable[GrammarText], problems: Problems
) -> Iterator[tuple[GrammarText, Scalar, Located]]:
    """Yield every name of one kind, from any file; a name given twice is a mistake, and the first one counts."""
    first: dict[str, Scalar] = {}
    for text in texts:
        located = text.entries.get(kind)
        if located is None:
            continue
        if not isinstance(located, Mapping):
            problems.add(f"{kind} must be a mapping from names to {kind}", located.span)
            continue
        for key, body in located.entries:
            name = str(key.value)
            if name in first:
                also = ((first[name].span, "first given here"),)
                message = f"the name {quote(name)} is given twice in {kind}"
                problems.add(message, key.span, label="and again", also=also)
            else:
                first[name] = key
                yield text, key, body


def _description(body: Mapping, word: str, problems: Problems) -> str:
    text = body.get(word)
    if text is None:
        return ""
    if not isinstance(text, Scalar) or not isinstance(text.value, str):
        problems.add(f"{word} must be text", text.span)
        return ""
    return " ".join(text.value.split())
