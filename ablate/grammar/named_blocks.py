"""The named blocks of a grammar, and its presets of a space.

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
"""The descriptive keys of a block or a preset."""
DESCRIBED = (*ABOUT, "parts")
"""The keys of a block with a description."""


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
    """Read the named blocks of a grammar and its included files, by name; mistakes go to the reader's problems."""
    blocks: dict[str, NamedBlock] = {}
    for text, key, body in _named("blocks", texts, reader.problems):
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
    for word, _ in body.entries:
        if word.value not in DESCRIBED:
            message = f"a block with a description has no {quote(word.text)}"
            problems.add_unknown(message, word.span, word.text, DESCRIBED, "it has")
    if "parts" not in body and "parts" not in {nearest(word, DESCRIBED) for word in body}:
        problems.add(f"block {quote(key.text)} has no parts", key.span, notes=("write them under parts: […]",))
    about, source = (_text(body, word, problems) for word in ABOUT)
    return about, source, body.get("parts")


def read_presets(texts: Iterable[GrammarText], problems: Problems) -> dict[str, Preset]:
    """Read the presets of a grammar and its included files, by name; the space reads the contents of their sections."""
    presets: dict[str, Preset] = {}
    for text, key, body in _named("presets", texts, problems):
        if not isinstance(body, Mapping):
            notes = ("such as {model: {…}, data: {…}, recipe: {…}}",)
            problems.add("a preset must be a mapping of sections of a space", body.span, notes=notes)
            continue
        sections = Mapping(tuple((word, value) for word, value in body.entries if word.value not in ABOUT), body.span)
        about, source = (_text(body, word, problems) for word in ABOUT)
        presets[str(key.value)] = Preset(str(key.value), sections, key, about, source, text.paper)
    return presets


def _named(
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


def _text(body: Mapping, word: str, problems: Problems) -> str:
    text = body.get(word)
    if text is None:
        return ""
    if not isinstance(text, Scalar) or not isinstance(text.value, str):
        problems.add(f"{word} must be text", text.span)
        return ""
    return " ".join(text.value.split())
