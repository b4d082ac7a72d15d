"""What a grammar gives names: blocks, and presets of a space.

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
from dataclasses import dataclass

from ablate.block.expression import Block
from ablate.block.printer import outline
from ablate.block.read import Reader
from ablate.grammar.include import GrammarText
from ablate.source.located import Located, Mapping, Scalar
from ablate.source.problems import Problems, nearest, quote, shorten

ABOUT = ("about", "source")
"""Texts that may stand beside a block or in a preset."""
DESCRIBED = (*ABOUT, "parts")
"""The keys of a block that is written with a description."""


@dataclass(frozen=True, slots=True)
class NamedBlock:
    """A block that a grammar gives a name; `about` says in a line what it is, `source` where in `paper` it stands.

    The three texts are empty where nothing is said.
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
    """Sections of a space under a name: a paper's model, data and recipe. `sections` is still located."""

    name: str
    sections: Mapping
    key: Scalar
    about: str = ""
    source: str = ""
    paper: str = ""

    def __repr__(self) -> str:
        return f"<Preset {self.name}: {', '.join(map(str, self.sections))}>"


def read_blocks(texts: Iterable[GrammarText], reader: Reader) -> dict[str, NamedBlock]:
    """The named blocks of a grammar and of what it includes, by name; mistakes go to the reader's problems."""
    found: dict[str, NamedBlock] = {}
    for text, key, body in _named("blocks", texts, reader.problems):
        about, source, parts = read_described(key, body, reader.problems)
        block = None if parts is None else reader.block(parts)
        if block is not None:
            found[str(key.value)] = NamedBlock(str(key.value), block, key, about, source, text.paper)
    return found


def read_described(key: Scalar, body: Located, problems: Problems) -> tuple[str, str, Located | None]:
    """What is said about a block, its source, and its parts; a block that is written as a list says nothing of itself.

    The parts are None, with the mistake noted, where there are none.
    """
    if not isinstance(body, Mapping) or not any(word in body for word in DESCRIBED):
        return "", "", body
    for word, _ in body.entries:
        if word.value not in DESCRIBED:
            message = f"a block with a description has no {quote(word.text)}"
            problems.add_unknown(message, word.span, word.text, DESCRIBED, "it has")
    if "parts" not in body and "parts" not in {nearest(word, DESCRIBED) for word in body}:
        problems.add(f"block {quote(key.text)} has no parts", key.span, notes=("write them under parts: […]",))
    about, source = (_text(body, word, problems) for word in ABOUT)
    return about, source, body.get("parts")


def read_presets(texts: Iterable[GrammarText], problems: Problems) -> dict[str, Preset]:
    """The presets of a grammar and of what it includes, by name; what stands in a section is read by the space."""
    found: dict[str, Preset] = {}
    for text, key, body in _named("presets", texts, problems):
        if not isinstance(body, Mapping):
            notes = ("such as {model: {…}, data: {…}, recipe: {…}}",)
            problems.add("a preset is a mapping: sections of a space", body.span, notes=notes)
            continue
        sections = Mapping(tuple((word, value) for word, value in body.entries if word.value not in ABOUT), body.span)
        about, source = (_text(body, word, problems) for word in ABOUT)
        found[str(key.value)] = Preset(str(key.value), sections, key, about, source, text.paper)
    return found


def _named(
    kind: str, texts: Iterable[GrammarText], problems: Problems
) -> Iterator[tuple[GrammarText, Scalar, Located]]:
    """Every name of one kind, in whichever file; a name that is given twice is a mistake, and the first one counts."""
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


def _text(body: Mapping, word: str, problems: Problems) -> str:
    found = body.get(word)
    if found is None:
        return ""
    if not isinstance(found, Scalar) or not isinstance(found.value, str):
        problems.add(f"{word} must be a text", found.span)
        return ""
    return " ".join(found.value.split())
