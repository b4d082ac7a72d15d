"""Loading: a space by its path, a block by its name or as YAML, and a new space from a template."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ablate.block.arithmetic import Expression
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Gain, Node, Size, print_value, walk
from ablate.block.expression import Sequence as Parts
from ablate.errors import InputError, RefusedError
from ablate.grammar.grammar import Grammar, read_grammar
from ablate.grammar.named_blocks import ABOUT
from ablate.grammar.named_files import own_files, shipped_files
from ablate.source.document import note_unknown_key
from ablate.source.located import Mapping, Scalar
from ablate.source.problems import Problems, nearest, note_unknown, quote, suggest, together, unknown
from ablate.source.yaml import is_file, parse_yaml, read_yaml
from ablate.space.changes import (
    check_changes,
    check_classifier,
    check_ladder,
    check_searched_values,
    check_vary,
    with_changes,
)
from ablate.space.data import CorpusSpec, DataReader
from ablate.space.design import DesignReader, Search, check_beside
from ablate.space.documents import ELSEWHERE, HINTS, SectionReader, is_inside
from ablate.space.fair import FairReader, SeedsReader
from ablate.space.fits import check_fits, example_length, layout_of, streamed
from ablate.space.judge import JudgeReader
from ablate.space.model import ModelReader
from ablate.space.overlay import Origins, lay_on_grammar, lay_preset, lay_profile, lay_settings
from ablate.space.recipe import RecipeReader
from ablate.space.space import KeptTexts, Space, read_blocks, read_warned
from ablate.space.tuning import TuneReader
from ablate.space.variants import apply_overrides, choices_of, read_overrides

# Reading a space

WRONG_IN_NAME = re.compile(r"^[.-]+|[^A-Za-z0-9_.-]+")
LONGEST_NAME = 64
MAX_THREADS = 1_024


class QuestionReader(SectionReader):
    def name(self) -> str | None:
        """Read one short path segment, since the page of the space is a file of that name."""
        name, located = self.text("space"), self.located.get("space")
        if name is None or not isinstance(located, Scalar):
            return None
        wrong = WRONG_IN_NAME.search(name)
        if wrong is not None:
            first = wrong[0][0] in ".-"
            label, place = f"{quote(wrong[0])} is not allowed{' at the start' if first else ''}", wrong.span()
        elif len(name) > LONGEST_NAME:
            label, place = f"{len(name):,} characters", (LONGEST_NAME, len(name))
        elif name.endswith((".yaml", ".yml")):
            label, place = "this is the name of a file", (name.rindex("."), len(name))
        else:
            return name
        words = re.findall(r"[A-Za-z0-9_-]+", name.removesuffix(".yaml").removesuffix(".yml"))
        meant = "_".join(words).lstrip("-")
        such = f", such as {meant}" if 0 < len(meant) <= LONGEST_NAME else ""
        message = "the name of a space must be usable as a file name: its page is written under it"
        note = f"use at most {LONGEST_NAME} of a-z, A-Z, 0-9, _, - and ., and do not start with - or .{such}"
        self.problems.add(message, located.within(*place), label=label, notes=(note,))
        return None

    def text(self, name: str) -> str | None:
        located = self.located.get(name)
        if located is None:
            return None
        if not isinstance(located, Scalar) or not isinstance(located.value, str) or not located.value.strip():
            self.problems.add(f"{name} must be text, and not empty", located.span)
            return None
        return located.value

    def threads(self) -> int | None:
        threads = self.whole("threads")
        if threads is not None and threads > MAX_THREADS:
            self.problems.add(f"at most {MAX_THREADS:,} threads, got {threads:,}", self.located["threads"].span)
            return None
        return threads


REQUIRED = ("space", "question", "grammar", "model", "data", "recipe", "design", "seeds", "measure", "judge", "threads")
OPTIONAL = ("preset", "block", "blocks", "variants", "constraints", "fair", "noise", "profiles")
PRESET = ("model", "data", "recipe", "measure", "judge", "block", "seeds", "threads", "fair", "noise")
"""The sections that a preset may have; the others are the question itself."""


def load_space(
    path: Path,
    catalogue: Catalogue,
    *,
    profile: str | None = None,
    settings: Sequence[str] = (),
    kept: KeptTexts | None = None,
) -> Space:
    """Read a space; `settings` are `path=value` texts. Raises InputError with every mistake found, at its place.

    With the texts that were `kept` of it no file is read, and `path` only names it.
    """
    problems = Problems()
    written = read_yaml(path) if kept is None else parse_yaml(kept.space, str(path))
    if not isinstance(written, Mapping):
        notes = (f"with the keys: {', '.join((*REQUIRED, *OPTIONAL))}",)
        problems.add("a space must be a mapping", written.span, notes=notes)
        problems.raise_if_any()
    assert isinstance(written, Mapping)
    text = written.span.source.text
    corpora = catalogue.of_kind(CorpusSpec)
    written = lay_settings(lay_profile(written, profile, corpora, problems), settings, corpora)
    grammar = _grammar(written, path, catalogue, problems, kept)
    _check_keys(written, problems)
    _check_profiles(written, problems)
    if grammar is None:  # without it nothing more can be checked
        problems.raise_if_any()
    assert grammar is not None
    if grammar.space is not None:
        _check_keys(grammar.space, problems)
    check_presets(grammar, problems)
    located = lay_on_grammar(lay_preset(grammar, written, corpora, problems), written, corpora)
    _check_missing(located, problems)
    space = _space(located, path, profile, tuple(settings), grammar, problems, kept)
    if space is not None and not len(problems):
        check_classifier(space, space.origins, problems)
        check_changes(space, problems)
        check_vary(space, problems)
        check_ladder(space, problems)
        check_searched_values(space, problems)
    problems.raise_if_any()
    assert space is not None
    return _searched_from_variant(replace(space, text=text))


def _searched_from_variant(space: Space) -> Space:
    """Return a space whose search starts from a variant with the changes of that variant around all its proposals."""
    search = space.design.search
    if search is None or not space.changes_of(search.from_):
        return space
    problems = Problems()
    changed = with_changes(space, space.variants[search.from_].changes, problems)
    problems.raise_if_any()
    assert changed is not None
    return replace(changed, variants={})


def check_presets(grammar: Grammar, problems: Problems) -> None:
    for preset in grammar.presets.values():
        after = f" in preset {preset.name}"
        note_unknown(preset.sections, (*ABOUT, *PRESET), problems, "unknown key", after, lead="a preset accepts")


def _space(
    located: Mapping,
    path: Path,
    profile: str | None,
    settings: tuple[str, ...],
    grammar: Grammar,
    problems: Problems,
    kept: KeptTexts | None,
) -> Space | None:
    origins = Origins(located, path, None if kept is None else kept.tokenizers)
    resolved = (located, grammar, problems, origins)
    opening, judged, seeding = QuestionReader(*resolved), JudgeReader(*resolved), SeedsReader(*resolved)
    name, question = opening.name(), opening.text("question")
    model, around = ModelReader(*resolved).read()
    data, recipe = DataReader(*resolved).read(), RecipeReader(*resolved).read()
    measure = judged.measure()
    judge = judged.judge(measure)
    (seeds, auto), threads = seeding.read(), opening.threads()
    fair, noise = FairReader(*resolved).read(), seeding.noise()
    design = DesignReader(*resolved).read(measure, recipe, seeds)
    check_fits(model, recipe, data, measure, judge, design, grammar.catalogue, origins, problems)
    if design is not None and design.search is not None:
        check_beside(origins, noise, auto, problems)
        grammar = _starting(design.search, grammar, origins, problems)
    warned = read_warned(located.get("constraints"), design, grammar, problems)
    blocks = read_blocks(located, design, judge, grammar, warned, problems)
    others = {} if blocks is None else choices_of(blocks.variants.values())
    tune = TuneReader(*resolved, recipe, None if blocks is None else blocks.named, others).tune()
    if (
        name is None
        or question is None
        or model is None
        or around is None
        or data is None
        or recipe is None
        or measure is None
        or judge is None
        or design is None
        or seeds is None
        or fair is None
        or tune is None
        or threads is None
        or blocks is None
    ):
        return None
    layout = layout_of(data, grammar.catalogue)
    return Space(
        name=name,
        question=question,
        path=path,
        profile=profile,
        settings=settings,
        grammar=grammar,
        model=model,
        around=around,
        blocks=blocks.named,
        overrides=blocks.overrides,
        replaced=blocks.replaced,
        data=streamed(
            data,
            recipe,
            length=example_length(model, recipe, grammar.catalogue),
            windows=measure.evaluation.windows,
            layout=layout,
        ),
        recipe=recipe,
        design=design,
        seeds=seeds,
        auto=auto,
        fair=fair.model_copy(update={"tune": tune}),
        noise=noise,
        measure=measure,
        judge=judge,
        threads=threads,
        located=located,
        warned=warned,
        variants=blocks.variants,
        kept=kept,
    )


def _starting(search: Search, grammar: Grammar, origins: Origins, problems: Problems) -> Grammar:
    if search.start is None:
        return grammar
    if search.start in grammar.starts:
        return grammar.starting(search.start)
    written = origins.written("design", "search", "start")
    assert written is not None
    message = f"grammar {grammar.name} has no start {quote(search.start)}"
    problems.add_unknown(message, written.span, search.start, tuple(grammar.starts), "its starts are")
    return grammar


def _check_keys(located: Mapping, problems: Problems) -> None:
    known = (*REQUIRED, *OPTIONAL)
    unknown = [key for key, _ in located.entries if key.value not in known]
    for key in unknown:
        free = [word for word in known if word not in located]
        note_unknown_key(problems, key, "", known, free, "a space accepts", HINTS)


def _check_profiles(located: Mapping, problems: Problems) -> None:
    """Check that the names of profiles are texts, since a profile is chosen by a text."""
    profiles = located.get("profiles")
    for key, _ in profiles.entries if isinstance(profiles, Mapping) else ():
        if not isinstance(key.value, str):
            problems.add("the name of a profile must be text", key.span, notes=(f'write it in quotes: "{key.text}"',))


def _check_missing(located: Mapping, problems: Problems) -> None:
    missing = [word for word in REQUIRED if word not in located]
    unknown = [str(key) for key in located if key not in (*REQUIRED, *OPTIONAL)]
    meant = {HINTS.meant(word, "", missing) or nearest(word, missing) for word in unknown}
    first = located.key("space").span if "space" in located else located.entries[0][0].span
    for word in missing:
        if word not in meant:
            problems.add(f"missing key {word!r} in the space", first)


def _grammar(
    located: Mapping, path: Path, catalogue: Catalogue, problems: Problems, kept: KeptTexts | None
) -> Grammar | None:
    before = len(problems)
    file = grammar_file(located, path, problems) if kept is None else kept.grammar
    if file is None:
        return None
    texts = None if kept is None else kept.grammars
    try:
        read = read_yaml(file) if texts is None else parse_yaml(texts[""], str(file))
        grammar = read_grammar(read, file, catalogue, problems, texts)
    except InputError as unreadable:
        raise together([*problems.errors(), unreadable]) from None
    return grammar if len(problems) == before else None


def grammar_file(located: Mapping, path: Path, problems: Problems) -> Path | None:
    """Return the grammar beside the space (`grammars/NAME.yaml` next to its folder), else the shipped one of that name.

    A path is relative to the folder of the space. Neither may leave its folder, by `..` or by a link; an absolute path
    may name any file.
    """
    named = located.get("grammar")
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        place = named.span if named is not None else located.span
        problems.add("a space needs a grammar", place, notes=("such as grammar: transformer",))
        return None
    name = named.value
    tried = _tried(name, path)
    file = next((candidate for candidate in tried if is_file(candidate)), None)
    if file is not None and not Path(name).is_absolute() and not is_inside(file, tried[file]):
        problems.add(f"{quote(name)} leads out of {tried[file]}", named.span, notes=(ELSEWHERE,))
        return None
    if file is None:
        file = shipped_files("grammar").get(name)
    if file is None:
        shipped = tuple(shipped_files("grammar"))
        beside = (other.stem for folder in tried.values() for other in folder.glob("*.yaml"))
        notes = (*(f"looked for {candidate}" for candidate in tried), f"shipped with ablate: {', '.join(shipped)}")
        label = suggest(name, (*shipped, *beside)) or ""
        problems.add(f"there is no grammar {quote(name)}", named.span, label=label, notes=notes)
    return file


def _tried(name: str, space: Path) -> dict[Path, Path]:
    """Return the paths at which a grammar may be, in the order tried, each with the folder that it must not leave."""
    if name.endswith((".yaml", ".yml")):
        return {space.parent / name: space.parent}
    folders = (up / "grammars" for up in (space.parent.parent, space.parent, Path()))
    return {folder / f"{name}.yaml": folder for folder in folders}


# Reading one block, by its name in a grammar or as YAML, with overrides

NAME_OF_BLOCK = re.compile(r"[A-Za-z_]\w*")
"""A name, not YAML: a block of one part is written in brackets, `[attention]`."""
BARE_KEY = re.compile(r"[A-Za-z_][\w.]*")


def load_block(text: str | Block, grammar: Grammar, overrides: Map[str, object]) -> Block:
    """Read the block that a name, YAML or a block means under a grammar, as a space that names it would have it.

    `overrides` maps addresses to values: YAML, numbers, or parts of other blocks. Raises InputError with every mistake,
    including an override that changes nothing, and with the reason of each constraint that refuses the block.
    """
    problems = Problems()
    label = f"block {quote(text)}" if isinstance(text, str) and NAME_OF_BLOCK.fullmatch(text.strip()) else "this block"
    block = _read_block(text, grammar, problems)
    lines = [
        f"{address if BARE_KEY.fullmatch(address) else json.dumps(address, ensure_ascii=False)}: "
        + _value_as_yaml(address, value)
        for address, value in overrides.items()
    ]
    written = read_overrides(parse_yaml("\n".join(lines), "overrides"), problems) if lines else ()
    problems.raise_if_any()
    assert block is not None
    changed = apply_overrides({label: block}, written, grammar.reader_for(problems), alone=True)[label]
    for broken in grammar.broken(changed):
        notes = (f"because {broken.because}", broken.let_through)
        problems.add(f"{label} is refused by {broken.full_name}", notes=notes)
    problems.raise_if_any()
    return changed


def check_known(block: Block, catalogue: Catalogue) -> None:
    """Raise InputError if a block has components that are not in the catalogue."""
    if missing := sorted({node.name for node in walk(block)} - {spec.name for spec in catalogue}):
        raise InputError(f"no component is named {', '.join(map(quote, missing))}\n  = pass its file in plugins")


def _read_block(text: str | Block, grammar: Grammar, problems: Problems) -> Block | None:
    if not isinstance(text, str):
        check_known(text, grammar.catalogue)
        return text
    if not NAME_OF_BLOCK.fullmatch(name := text.strip()):
        return grammar.reader_for(problems).block(parse_yaml(text, "block"))
    if name in grammar.blocks:
        return grammar.blocks[name].block
    notes = [f"the grammar {grammar.name} has {len(grammar.blocks)} blocks: `ablate list blocks` shows them"]
    if name in grammar.catalogue:
        notes.append(f"a block of that one component is [{name}]")
    elif (meant := suggest(name, grammar.blocks)) is not None:
        notes.insert(0, meant)
    problems.add(f"there is no block {quote(name)}", notes=tuple(notes))
    return None


def _value_as_yaml(address: str, value: object) -> str:
    match value:
        case str():
            return "\n" + textwrap.indent(value, "  ") if "\n" in value else value
        case Node() | Parts() | Gain() | Size() | Expression():
            return print_value(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the override {address} has no value: {error}\n  = give YAML, a number or a part") from None


# The spaces that can be found by name, with their questions


@dataclass(frozen=True, slots=True)
class KnownSpace:
    """A space by its name: its file, its question and profiles if it can be read, and whether it is shipped."""

    name: str
    path: Path
    question: str
    shipped: bool
    profiles: tuple[str, ...] = ()


def known_spaces() -> tuple[KnownSpace, ...]:
    """Return the user's spaces below the working directory, then the shipped ones whose names are not among them.

    A file in the working directory itself that is not a space is left out; one in `spaces/` that cannot be read is
    included, with a remark.
    """
    own, shipped = own_files("space"), shipped_files("space")
    spaces = [_known_space(name, path, shipped=False) for name, path in own.items()]
    spaces += [_known_space(name, path, shipped=True) for name, path in shipped.items() if name not in own]
    return tuple(space for space in spaces if space is not None)


def _known_space(name: str, path: Path, *, shipped: bool) -> KnownSpace | None:
    try:
        written = read_yaml(path)
    except InputError:
        written = None
    if isinstance(written, Mapping) and "space" in written and "rules" not in written:
        question = written.get("question")
        text = str(question.value) if isinstance(question, Scalar) else "has no question"
        profiles = written.get("profiles")
        names = tuple(str(key) for key in profiles) if isinstance(profiles, Mapping) else ()
    elif path.parent == Path():
        return None
    else:
        text = f"cannot be read as a space: `ablate check {path}` says why"
        names = ()
    return KnownSpace(name, path, text, shipped, names)


# A space to start from: the commented template, or a copy of a shipped space

TEMPLATE: Final = Path(__file__).with_name("template.yaml")
MINE: Final = "mine"
FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")


def write_space(name: str | None = None, *, example: str | None = None) -> Path:
    """Write `spaces/NAME.yaml` below the working directory; with `example`, a copy of the shipped space of that name.

    The name defaults to that of the example, or to `mine`. Raises InputError for an invalid name or an unknown example,
    and RefusedError if the user already has a space of that name, since none is overwritten, or if the file cannot be
    written.
    """
    name = name or example or MINE
    if FILE_NAME.fullmatch(name) is None:
        raise InputError(
            f"{quote(name)} cannot be the name of a space\n"
            "  = a name is a word of at most 60 letters, digits, - and _; its file is spaces/NAME.yaml"
        )
    text = TEMPLATE.read_text(encoding="utf-8") if example is None else _example(example)
    there = own_files("space").get(name)
    if there is not None:
        raise RefusedError(f"there is already a space {name}: {there}\n  = give another name: ablate init NAME")
    path = Path("spaces") / f"{name}.yaml"
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_renamed(text, name, of=example or MINE))
    except OSError as error:
        raise RefusedError(f"cannot write {path}: {error.strerror}") from None
    return path


def _example(name: str) -> str:
    shipped = shipped_files("space")
    if name not in shipped:
        command = "ablate list spaces"
        raise unknown(f"no space {quote(name)} ships with ablate", name, shipped, "there are", command=command)
    return shipped[name].read_text(encoding="utf-8")


def _renamed(text: str, name: str, *, of: str) -> str:
    if name == of:
        return text
    read = parse_yaml(name)
    word = name if isinstance(read, Scalar) and read.value == name else json.dumps(name)  # `1e3` is a number in YAML
    renamed = re.sub(r"^space: .*$", f"space: {word}", text, count=1, flags=re.MULTILINE)
    return re.sub(rf"(ablate \w+) {of}\b", rf"\g<1> {name}", renamed)
