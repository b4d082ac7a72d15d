"""Reading a space: file, profile and --set laid over the grammar's defaults, then every key checked at its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from ablate.block.catalogue import Catalogue, Part
from ablate.block.expression import Block, Node
from ablate.block.read import Invalid, Reader
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar, load_grammar
from ablate.source.document import validate
from ablate.source.located import Items, Located, Mapping, Scalar, Span
from ablate.source.problems import Problems, suggest
from ablate.source.yaml import overlay, read_yaml, set_path
from ablate.space.design import Design
from ablate.space.documents import Data, Judge, Measure, Model, Recipe
from ablate.space.metrics import JUDGED, PROBES
from ablate.space.override import apply_overrides, read_overrides
from ablate.space.space import Around, Space

T = TypeVar("T", bound=BaseModel)

KEYS = (
    "space",
    "question",
    "grammar",
    "model",
    "block",
    "blocks",
    "data",
    "recipe",
    "design",
    "seeds",
    "measure",
    "judge",
    "threads",
    "profiles",
)
REQUIRED = ("space", "question", "grammar", "model", "data", "recipe", "design", "seeds", "measure", "judge", "threads")
COMPONENTS = {
    "entry_norm": Part("norm", optional=True),
    "final_norm": Part("norm", optional=True),
    "init": Part("init"),
}
MAX_SEEDS = 10_000


def load_space(path: Path, catalogue: Catalogue, *, profile: str | None = None, settings: Sequence[str] = ()) -> Space:
    """Read a space. `settings` are `path=value` texts. Raises InputError with every mistake found, each at its place."""
    problems = Problems()
    written = read_yaml(path)
    if not isinstance(written, Mapping):
        problems.add("a space is a mapping", written.span, notes=(f"with the keys: {', '.join(KEYS)}",))
        problems.raise_if_any()
    assert isinstance(written, Mapping)
    written = _with_profile(written, profile, problems)
    for setting in settings:
        written = set_path(written, setting)
    _check_keys(written, problems)
    grammar = _grammar(written, path, catalogue, problems)
    if grammar is None:
        problems.raise_if_any()
    assert grammar is not None
    located = overlay(grammar.space, written) if grammar.space is not None else written
    assert isinstance(located, Mapping)
    space = _Sections(located, path, profile, grammar, problems).space()
    problems.raise_if_any()
    assert space is not None
    return space


def _with_profile(written: Mapping, profile: str | None, problems: Problems) -> Mapping:
    if profile is None:
        return written
    profiles = written.get("profiles")
    names = tuple(str(name) for name in profiles) if isinstance(profiles, Mapping) else ()
    chosen = profiles.get(profile) if isinstance(profiles, Mapping) else None
    if not isinstance(chosen, Mapping):
        known = f"its profiles are: {', '.join(names)}" if names else "it has no profiles"
        problems.add(f"this space has no profile {profile!r}", notes=(known,))
        return written
    return overlay(written, chosen)  # type: ignore[return-value]


def _check_keys(located: Mapping, problems: Problems) -> None:
    for key, _ in located.entries:
        if key.value not in KEYS:
            label = suggest(key.text, KEYS) or ""
            notes = (f"a space accepts: {', '.join(KEYS)}",)
            problems.add(f"unknown key {key.text!r} in a space", key.span, label=label, notes=notes)


def _grammar(located: Mapping, path: Path, catalogue: Catalogue, problems: Problems) -> Grammar | None:
    """The grammar beside the space (`grammars/NAME.yaml` next to its folder), or a path relative to the space."""
    named = located.get("grammar")
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        place = named.span if named is not None else located.span
        problems.add("a space needs a grammar", place, notes=("grammar: transformer",))
        return None
    name = named.value
    tried = (
        [path.parent / name]
        if name.endswith((".yaml", ".yml"))
        else [folder / "grammars" / f"{name}.yaml" for folder in (path.parent.parent, path.parent, Path())]
    )
    found = next((candidate for candidate in tried if candidate.is_file()), None)
    if found is None:
        looked = tuple(f"looked for {candidate}" for candidate in dict.fromkeys(tried))
        problems.add(f"there is no grammar {name!r}", named.span, notes=looked)
        return None
    try:
        return load_grammar(found, catalogue)
    except InputError:
        problems.raise_if_any()
        raise


class _Sections:
    """Reads the sections of one resolved space; each method notes its mistakes and gives None where there are any."""

    def __init__(self, located: Mapping, path: Path, profile: str | None, grammar: Grammar, problems: Problems):
        self.located, self.path, self.profile, self.grammar, self.problems = located, path, profile, grammar, problems

    def space(self) -> Space | None:
        for key in REQUIRED:
            if key not in self.located:
                self.problems.add(f"missing key {key!r} in the space", self._start())
        model, around = self._model()
        data = self._section("data", Data)
        recipe = self._section("recipe", Recipe)
        measure = self._measure()
        judge = self._judge(measure)
        design = self._design()
        seeds = self._seeds()
        threads = self._whole("threads")
        blocks = self._blocks(design, judge)
        name, question = self._text("space"), self._text("question")
        if None in (model, around, data, recipe, measure, judge, design, seeds, threads, blocks, name, question):
            return None
        return Space(
            name=name,  # type: ignore[arg-type]
            question=question,  # type: ignore[arg-type]
            path=self.path,
            profile=self.profile,
            grammar=self.grammar,
            model=model,  # type: ignore[arg-type]
            around=around,  # type: ignore[arg-type]
            blocks=blocks,  # type: ignore[arg-type]
            data=data,  # type: ignore[arg-type]
            recipe=recipe,  # type: ignore[arg-type]
            design=design,  # type: ignore[arg-type]
            seeds=seeds,  # type: ignore[arg-type]
            measure=measure,  # type: ignore[arg-type]
            judge=judge,  # type: ignore[arg-type]
            threads=threads,  # type: ignore[arg-type]
            located=self.located,
            keys={str(key.value): key for key, _ in self.located.entries},
        )

    def _start(self) -> Span:
        first = self.located.key("space") if "space" in self.located else self.located.entries[0][0]
        return first.span

    def _section(self, name: str, document: type[T], located: Located | None = None) -> T | None:
        found = self.located.get(name) if located is None else located
        return None if found is None else validate(document, found, self.problems, where=name)

    def _model(self) -> tuple[Model | None, Around | None]:
        located = self.located.get("model")
        if not isinstance(located, Mapping):
            return self._section("model", Model), None
        plain = Mapping(tuple((k, v) for k, v in located.entries if k.value not in COMPONENTS), located.span)
        model = self._section("model", Model, plain)
        if model is not None and model.width % model.heads:
            key = located.key("heads").span
            lower = max(h for h in range(1, model.heads + 1) if model.width % h == 0)
            notes = (f"heads must divide the width: {lower} does",)
            self.problems.add(f"{model.heads} heads do not divide the width {model.width}", key, notes=notes)
        parts: dict[str, Node | None] = {}
        for name, kind in COMPONENTS.items():
            value = located.get(name)
            if value is None:
                self.problems.add(f"missing key {name!r} in model", located.span)
                continue
            try:
                parts[name] = self.grammar.reader_for(self.problems).value(value, kind)  # type: ignore[assignment]
            except Invalid:
                continue
        if len(parts) < len(COMPONENTS) or parts["init"] is None:
            return model, None
        return model, Around(parts["entry_norm"], parts["final_norm"], parts["init"])

    def _measure(self) -> Measure | None:
        measure = self._section("measure", Measure)
        located = self.located.get("measure")
        probes = located.get("probes") if isinstance(located, Mapping) else None
        for item in probes.items if isinstance(probes, Items) else ():
            if isinstance(item, Scalar) and item.value not in PROBES:
                label = suggest(item.text, PROBES) or ""
                notes = (f"probes: {', '.join(PROBES)}",)
                self.problems.add(f"unknown probe {item.text!r}", item.span, label=label, notes=notes)
        return measure

    def _judge(self, measure: Measure | None) -> Judge | None:
        located = self.located.get("judge")
        if not isinstance(located, Mapping):
            return self._section("judge", Judge)
        each, metrics = located.get("each"), located.get("metrics")
        entries = tuple((k, v) for k, v in located.entries if k.value != "each")
        if isinstance(metrics, Mapping):
            full = tuple((k, overlay(each, v) if each is not None else v) for k, v in metrics.entries)
            filled = Mapping(full, metrics.span)
            entries = tuple((k, filled if k.value == "metrics" else v) for k, v in entries)
            for key, _ in metrics.entries:
                self._check_metric(key, measure)
        return self._section("judge", Judge, Mapping(entries, located.span))

    def _check_metric(self, key: Scalar, measure: Measure | None) -> None:
        if key.value not in JUDGED:
            label = suggest(key.text, tuple(JUDGED)) or ""
            notes = (f"metrics that can be judged: {', '.join(JUDGED)}",)
            self.problems.add(f"unknown metric {key.text!r}", key.span, label=label, notes=notes)
            return
        probe = JUDGED[str(key.value)]
        if measure is not None and probe is not None and probe not in measure.probes:
            notes = (f"add {probe} to measure.probes",)
            self.problems.add(f"{key.text} is judged but the probe {probe} does not run", key.span, notes=notes)

    def _design(self) -> Design | None:
        design = self._section("design", Design)
        located = self.located.get("design")
        if design is None or not isinstance(located, Mapping):
            return design
        if len(located.entries) != 1:
            kinds = ", ".join(Design.model_fields)
            self.problems.add("a design has exactly one kind", located.span, notes=(f"one of: {kinds}",))
            return None
        return design

    def _seeds(self) -> tuple[int, ...] | None:
        located = self.located.get("seeds")
        if isinstance(located, Items):
            values = [item.value if isinstance(item, Scalar) else None for item in located.items]
            whole = all(type(v) is int and v >= 0 for v in values)
            if whole and values and len(set(values)) == len(values):
                return tuple(int(v) for v in values)  # type: ignore[arg-type]
            self.problems.add("seeds must be different whole numbers of at least 0", located.span)
            return None
        number = self._whole("seeds")
        if number is not None and number > MAX_SEEDS:
            self.problems.add(f"at most {MAX_SEEDS} seeds", located.span if located is not None else None)
            return None
        return None if number is None else tuple(range(number))

    def _whole(self, name: str) -> int | None:
        located = self.located.get(name)
        if located is None:
            return None
        if not isinstance(located, Scalar) or type(located.value) is not int or located.value < 1:
            extra = ", or a list of them" if name == "seeds" else ""
            self.problems.add(f"{name} must be a whole number of at least 1{extra}", located.span)
            return None
        return located.value

    def _text(self, name: str) -> str | None:
        located = self.located.get(name)
        if located is None:
            return None
        if not isinstance(located, Scalar) or not isinstance(located.value, str) or not located.value.strip():
            self.problems.add(f"{name} must be a text", located.span)
            return None
        return located.value

    def _blocks(self, design: Design | None, judge: Judge | None) -> dict[str, Block] | None:
        overrides = read_overrides(self.located.get("block"), self.problems)
        if design is None:
            return None
        reader = self.grammar.reader_for(self.problems)
        own = self._own_blocks(reader)
        known = {**{name: named.block for name, named in self.grammar.blocks.items()}, **own}
        wanted = dict.fromkeys((*design.blocks, *((judge.against,) if judge is not None else ())))
        missing = [name for name in wanted if name not in known]
        for name in missing:
            label = suggest(name, tuple(known)) or ""
            notes = (f"blocks: {', '.join(known)}",)
            self.problems.add(f"unknown block {name!r}", self._place(name), label=label, notes=notes)
        if missing:
            return None
        chosen = {name: known[name] for name in wanted}
        changed = apply_overrides(chosen, overrides, reader, self.grammar.catalogue, self.problems)
        for name, block in changed.items():
            for reason in self.grammar.refusals(block):
                self.problems.add(f"block {name!r} is not allowed: {reason}", self._place(name))
        return changed

    def _own_blocks(self, reader: Reader) -> dict[str, Block]:
        located = self.located.get("blocks")
        if located is None:
            return {}
        if not isinstance(located, Mapping):
            self.problems.add("blocks must be a mapping from names to blocks", located.span)
            return {}
        found = {}
        for key, body in located.entries:
            if key.value in self.grammar.blocks:
                self.problems.add(
                    f"block {key.text!r} is already in the grammar", key.span, notes=("give it another name",)
                )
            block = reader.block(body)
            if block is not None:
                found[str(key.value)] = block
        return found

    def _place(self, name: str) -> Span | None:
        """Where the design or the judge names a block."""
        for section in ("design", "judge"):
            located = self.located.get(section)
            if located is not None and (span := _find(located, name)) is not None:
                return span
        return None


def _find(located: Located, value: str) -> Span | None:
    match located:
        case Scalar() if located.value == value:
            return located.span
        case Mapping():
            return next((s for _, child in located.entries if (s := _find(child, value)) is not None), None)
        case Items():
            return next((s for child in located.items if (s := _find(child, value)) is not None), None)
    return None
