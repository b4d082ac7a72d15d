"""Reads `fair.tune`: the fields to tune, by address, and the values to try there, each read as the space reads it.

    lr                                a single word: a field of the space's optimiser
    recipe.schedule.warmup            a field of the recipe, by its path
    attention.scale, *_norm.eps       a field of the block, by the address that `block:` has for it

A field of the block may exist in some blocks only; one that no block has is a mistake.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field

from ablate.block.address import START, Selector, is_start, is_there, parse_address, parts_by_name
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node
from ablate.block.reader import Invalid
from ablate.grammar.grammar import Grammar
from ablate.source.document import shown, validate
from ablate.source.located import Items, Located, Mapping, Scalar, Span, to_python
from ablate.source.problems import Problems, nearest, quote
from ablate.source.yaml import overlay
from ablate.space.documents import HINTS, Choice, Count, Document
from ablate.space.fair import Plain, Tune, TunedField, plain, text_of
from ablate.space.overlay import Origins
from ablate.space.recipe import OptimizerSpec, Recipe, RecipeReader, ScheduleSpec
from ablate.space.variants import Override, document_with, entries_of, is_inside, with_value

MOST_TRIALS = 256  # the most trials to tune one block: more would delay the question itself for too long
SEEDS, RECIPE, OPTIMIZER = "seeds", "recipe", "optimizer"

FOR_ALL = "set it for all blocks, and compare other values in separate spaces: --set {name}=…"
NOT_TUNED = {
    "recipe.steps": (
        "how long each block is trained is what fair.budget holds equal",
        "set recipe.steps for all blocks; fair: {under: {…}} compares several budgets on one page",
    ),
    "recipe.batch": (
        "at another batch size a seed draws other batches, so blocks could not be compared seed by seed",
        FOR_ALL,
    ),
    "recipe.batch_ramp": ("at other batch sizes blocks could not be compared seed by seed", FOR_ALL),
    "recipe.dtype": ("all blocks are compared at one precision", FOR_ALL),
    "model": (
        "the model around the blocks, and its sizes, are the same for all of them",
        "compare sizes in separate spaces (--set model.width=256), or match them: "
        "fair: {match: {parameters: 1%, by: width}}",
    ),
    "data": ("all blocks are trained on the same text", FOR_ALL),
    "block": ("a field of the block is named by its part", "leave out block.: attention.scale, mlp.activation"),
}
"""The reason why an address cannot be tuned, and the way out."""
NO_SETTING = (
    *("design", "judge", "measure", "noise", "fair", "threads", "grammar", "constraints", "blocks", "variants"),
    "profiles",
)
"""Sections of a space that do not affect the training of a block."""


class _Seeds(Document):
    seeds: Annotated[Count, Field(le=1_000)]


@dataclass(frozen=True, slots=True)
class _Entry:
    words: tuple[Scalar, ...]
    key: Scalar
    value: Located

    @property
    def name(self) -> str:
        return ".".join(word.text for word in self.words)


class TuneReader(RecipeReader):
    """Reads the section, for a recipe and blocks by name; if either is None, it has mistakes, and is not checked here.

    `others` are the documents of optimisers and schedules that variants choose, by address and name.
    """

    def __init__(
        self,
        located: Mapping,
        grammar: Grammar,
        problems: Problems,
        origins: Origins,
        recipe: Recipe | None,
        blocks: Map[str, Block] | None,
        others: Map[tuple[str, str], Mapping],
    ):
        super().__init__(located, grammar, problems, origins)
        self._recipe, self._blocks, self._others = recipe, blocks, others

    def tune(self) -> Literal["none"] | Tune | None:
        """Read the section; None if it, the recipe or the blocks have a mistake."""
        fair = self.located.get("fair")
        located = fair.get("tune") if isinstance(fair, Mapping) else None
        if located is None or (isinstance(located, Scalar) and located.value == "none"):
            return "none"
        if isinstance(fair, Mapping) and isinstance(located, Mapping):
            return self._grid(fair.key("tune"), located)
        message = f"fair.tune: expected none, or lists of values by address, got {shown(located)}"
        self.problems.add(message, located.span, notes=HINTS.way("fair.tune"))
        return None

    def _grid(self, key: Scalar, located: Mapping) -> Tune | None:
        before = len(self.problems)
        counted = Mapping(tuple(entry for entry in located.entries if entry[0].value == SEEDS), key.span)
        seeds = validate(_Seeds, counted, self.problems, "fair.tune", HINTS)
        entries = [_Entry(*entry) for entry in entries_of(located, self.problems)]
        entries = [entry for entry in entries if entry.name != SEEDS]
        fields = [field for entry in entries if (field := self._field(entry)) is not None]
        self._check_twice(fields)
        if seeds is not None and len(fields) == len(entries):
            self._check_size(fields, seeds.seeds, key)
        if len(self.problems) == before and self._recipe is not None:
            of = [(field, self._other(field.path)) for field in fields if field.path]
            for other in dict.fromkeys([None, *(own for _, own in of)]):
                left = "" if other is None else f"{other[0]}."  # a variant replaces it by its own choice
                together = [
                    field
                    for field, own in of
                    if own == other or (own is None and not (left and ".".join(field.path).startswith(left)))
                ]
                self._check_together(together, key, other)
        if seeds is None or len(self.problems) > before or self._recipe is None or self._blocks is None:
            return None
        return Tune(seeds=seeds.seeds, fields=tuple(fields))

    def _field(self, entry: _Entry) -> TunedField | None:
        section = entry.words[0].text
        refused = next((name for name in NOT_TUNED if f"{entry.name}.".startswith(f"{name}.")), None)
        if refused is not None or (section in NO_SETTING and len(entry.words) > 1):
            reason, way = NOT_TUNED.get(refused or "", ("it does not affect how a block is trained", "leave it out"))
            notes = (way.format(name=entry.name) if "{name}" in way else way,)
            self.problems.add(f"{entry.name} cannot be tuned: {reason}", entry.key.span, notes=notes)
            return None
        given = self._values(entry)
        if given is None:
            return None
        if len(entry.words) == 1:
            path = self._of_the_optimizer(entry.words[0])
            return None if path is None else self._of_the_recipe(entry, path, given)
        if section == RECIPE:
            return self._of_the_recipe(entry, entry.words, given)
        return self._of_the_block(entry, given)

    def _values(self, entry: _Entry) -> tuple[Located, ...] | None:
        value = entry.value
        if isinstance(value, Items) and value.items:
            return value.items
        text = value.text if isinstance(value, Scalar) else ""
        label = f"write a list: [{text}]" if text else ""
        notes = (f"list the values to choose from: {entry.name}: [{text + ', ' if text else ''}…]",)
        message = f"fair.tune.{entry.name}: expected a list of values, got {shown(value)}"
        self.problems.add(message, value.span, label=label, notes=notes)
        return None

    def _of_the_optimizer(self, word: Scalar) -> tuple[Scalar, ...] | None:
        if self._recipe is None:
            return None
        dumped = self._recipe.model_dump()
        ((name, _),) = dumped[OPTIMIZER].items()
        settings = self.grammar.catalogue.of_kind(OptimizerSpec)[name].settings.model_fields
        if word.text in settings:
            return tuple(Scalar(step, step, word.span) for step in (RECIPE, OPTIMIZER, name, word.text))
        elsewhere = [path for path in _leaves(RECIPE, dumped) if path.endswith(f".{word.text}")]
        known = (*settings, SEEDS)
        meant = HINTS.meant(word.text, f"{RECIPE}.{OPTIMIZER}.{name}", settings) or nearest(word.text, known)
        instead = HINTS.instead(word.text)
        label = "" if f"{RECIPE}.{OPTIMIZER}" in instead else instead  # a field of another optimiser
        near = [*elsewhere, *([meant] if meant else [])]
        label = f"did you mean {quote(near[0])}?" if near else label
        notes = (
            f"its fields are: {', '.join(settings)}",
            "name other fields by their path in the recipe (recipe.clip) or the block (mlp.activation)",
        )
        message = f"unknown key {quote(word.text)} in fair.tune: {name} has no such field"
        self.problems.add(message, word.span, label=label, notes=notes)
        return None

    def _of_the_recipe(self, entry: _Entry, path: Sequence[Scalar], given: tuple[Located, ...]) -> TunedField | None:
        """Read a field of the recipe, each value as the recipe itself is read.

        A mapping (`{sgd: {lr: 0.1}}`) is kept as it is written, since the value read from it has every setting.
        """
        if self._recipe is None:
            return None
        steps, before = tuple(step.text for step in path), len(self.problems)
        if self._is_of_another(entry, path):
            return None
        other = self._other(steps)
        values: list[Plain] = []
        read: list[Plain] = []
        for value in given:
            problems = Problems()
            document = document_with(path, value)
            recipe = self.read_with(document if other is None else overlay(self._others[other], document), problems)
            here = [
                problem
                for problem in problems
                if problem.is_at((*(word.span for word in entry.words), entry.value.span))
            ]
            for problem in here:
                self.problems.append(problem)
            written = plain(to_python(value))
            read.append(written if recipe is None else plain(_at(recipe.model_dump(), steps[1:], written)))
            values.append(written if isinstance(value, Mapping) else read[-1])
        if len(self.problems) > before:
            return None
        field = TunedField(name=entry.name, path=steps, key=entry.key, written=given, values=tuple(values))
        return self._different(field, read)

    def _led_into(self, steps: Sequence[str]) -> tuple[type[OptimizerSpec | ScheduleSpec], str, Choice] | None:
        """Return the optimiser or schedule into whose settings a path leads: its declaration, address and choice."""
        if self._recipe is None:
            return None
        chosen: tuple[tuple[type[OptimizerSpec | ScheduleSpec], str, Choice], ...] = (
            (OptimizerSpec, "recipe.optimizer", self._recipe.optimizer),
            (ScheduleSpec, "recipe.schedule.decay", self._recipe.schedule.decay),
        )
        return next((each for each in chosen if is_inside(".".join(steps[:-1]), each[1])), None)

    def _other(self, steps: Sequence[str]) -> tuple[str, str] | None:
        """Return the optimiser or schedule that a path leads into, if only a variant chooses it."""
        led = self._led_into(steps)
        if led is None:
            return None
        key = led[1], steps[led[1].count(".") + 1]
        return key if key[1] != led[2].name and key in self._others else None

    def _is_of_another(self, entry: _Entry, path: Sequence[Scalar]) -> bool:
        led = self._led_into([step.text for step in path])
        if led is None:
            return False
        spec, where, own = led
        named, known = path[where.count(".") + 1], self.grammar.catalogue.of_kind(spec)
        if named.text == own.name or named.text not in known or (where, named.text) in self._others:
            return False
        message = f"{entry.name} cannot be tuned: the space has {spec.kind.noun} {own.name}, not {named.text}"
        here = f"here it is {where}.{own.name}.{path[-1].text}"
        several = f"to choose among several: {where}: [{own.name}, {{{named.text}: {{…}}}}]"
        notes = (here, several) if path[-1].text in own.settings else (several,)
        self.problems.add(message, named.span, notes=notes)
        return True

    def _of_the_block(self, entry: _Entry, given: tuple[Located, ...]) -> TunedField | None:
        if self._blocks is None:
            return None
        try:
            address = parse_address(entry.name)
        except ValueError as error:
            self.problems.add(str(error), entry.key.span)
            return None
        if not address.fields:
            notes = (f"such as {address.text}.FIELD: […]",)
            self.problems.add(f"{address.text} is a part: name one of its fields", entry.key.span, notes=notes)
            return None
        catalogue, before = self.grammar.catalogue, len(self.problems)
        there = [block for block in self._blocks.values() if is_there(block, address, catalogue)]
        if not there:
            note_absent(address, entry.words, entry.key, self._blocks.values(), catalogue, self.problems)
            return None
        reader = self.grammar.reader_for(self.problems)
        for block in there:
            seen: dict[Block, Located] = {}
            for value in given:
                try:
                    changed = with_value(block, Override(address, entry.key, value), reader)
                except Invalid:
                    continue
                if changed in seen and plain(to_python(value)) != plain(to_python(seen[changed])):
                    self._note_repeated(entry.name, value)
                seen.setdefault(changed, value)
        if len(self.problems) > before:
            return None
        values = tuple(plain(to_python(value)) for value in given)
        field = TunedField(name=address.text, path=(), key=entry.key, written=given, values=values)
        return self._different(field, values)

    def _different(self, field: TunedField, read: Sequence[Plain]) -> TunedField | None:
        repeated = False
        for index, value in enumerate(read):
            if any((value, type(value)) == (other, type(other)) for other in read[:index]):
                self._note_repeated(field.name, field.written[index], field.values[index])
                repeated = True
        return None if repeated else field

    def _note_repeated(self, name: str, value: Located, read: Plain | None = None) -> None:
        text = text_of(plain(to_python(value)) if read is None else read)
        self.problems.add(f"{text} is listed twice in fair.tune.{name}", value.span, notes=("list each value once",))

    def _check_twice(self, fields: Sequence[TunedField]) -> None:
        """Note a field that is given twice, also under two names."""
        first: dict[tuple[str, ...], TunedField] = {}
        for field in fields:
            same = first.setdefault(field.path or (field.name,), field)
            if same is not field:
                alike = "given twice" if field.name == same.name else f"the same field as {same.name}"
                message, also = f"{field.name} is {alike} in fair.tune", ((same.key.span, "first given here"),)
                self.problems.add(message, field.key.span, label="and again", also=also)

    def _check_size(self, fields: Sequence[TunedField], seeds: int, key: Scalar) -> None:
        settings = math.prod(len(field.values) for field in fields)
        if settings * seeds > MOST_TRIALS:
            grid = " × ".join(f"{len(field.values)} of {field.name}" for field in fields)
            message = f"fair.tune needs {settings * seeds:,} trials per block ({grid} × {seeds:,} seeds)"
            notes = (f"at most {MOST_TRIALS} are allowed: list fewer values, or use fewer seeds",)
            self.problems.add(message, key.span, notes=notes)
        if settings == 1:
            what = "only one setting: there is nothing to choose" if fields else "no setting to choose"
            notes = ("list several values of each field to tune: tune: {lr: [1e-3, 3e-3, 1e-2], seeds: 2}",)
            self.problems.add(f"fair.tune lists {what}", key.span, notes=notes)

    def _check_together(self, fields: Sequence[TunedField], key: Scalar, other: tuple[str, str] | None) -> None:
        """Check that each combination is a valid recipe: its peak rate is above its floor, for example."""
        noted: set[str] = set()
        for written in product(*(field.written for field in fields)) if fields else ():
            chosen = list(zip(fields, written, strict=True))
            over = Mapping((), key.span) if other is None else self._others[other]
            for field, value in chosen:
                over = overlay(over, document_with([Scalar(step, step, field.key.span) for step in field.path], value))
            problems = Problems()
            self.read_with(over, problems)
            for problem in problems:
                if problem.message not in noted:
                    values = ", ".join(f"{field.name} {text_of(to_python(value))}" for field, value in chosen)
                    message = f"fair.tune lists {values}: {problem.message}"
                    self.problems.add(message, chosen[-1][1].span, notes=problem.notes)
                noted.add(problem.message)


def note_absent(
    address: Selector,
    words: Sequence[Scalar],
    key: Scalar,
    blocks: Iterable[Block],
    catalogue: Catalogue,
    problems: Problems,
    verb: str = "tune",
) -> None:
    """Note how far an address leads that no block has, and the names nearest to it; `verb`: tune or vary."""

    def place(text: str) -> Span:
        return next((word.span for word in words if word.text == text), key.span)

    parts = [part for block in blocks for part in parts_by_name(block, catalogue)]
    matched = [node for name, node in parts if fnmatchcase(name, address.part)]
    subject = f"no block of this design has {address.text}"
    if not matched:
        names = sorted({name for name, _ in parts})
        message = f"{subject}: none has a part {quote(address.part)}"
        problems.add_unknown(message, place(address.part), address.part, names, "their parts are")
        return
    ends = [_end_of(node, address.fields) for node in matched]
    where, word, known = max(ends, key=lambda end: (end[0].count("."), len(end[2])))
    if known:
        message = f"{subject}: {where} has no field {quote(word)}"
        problems.add_unknown(message, place(word), word, known, "its fields are")
    else:
        whole = f"block.{where}" if verb == "vary" else where
        notes = (f"{verb} {where} itself: {whole}: […]",)
        problems.add(f"{subject}: {where} has no fields", place(word), notes=notes)


def _at(dumped: Any, path: Sequence[str], default: object) -> object:
    for step in path:
        if not isinstance(dumped, dict) or step not in dumped:
            return default
        dumped = dumped[step]
    return dumped


def _leaves(prefix: str, dumped: Any) -> Iterator[str]:
    if not isinstance(dumped, dict):
        yield prefix
        return
    for key, value in dumped.items():
        yield from _leaves(f"{prefix}.{key}", value)


def _end_of(node: Node, fields: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """Follow fields from a part as far as they lead; return where that is, the word that fails, and the known ones."""
    where = node.name
    for place, field in enumerate(fields):
        known = dict(node.fields)
        if field not in known:
            return where, field, tuple(known)
        where, inner = f"{where}.{field}", known[field]
        if not isinstance(inner, Node):
            rest = fields[place + 1 :]
            return (where, rest[0], (START,)) if rest and is_start(inner, START) else (where, field, ())
        node = inner
    return where, "", ()
