"""Declaration: the addition that a file makes, of one of seven kinds, and the faults that it can have.

Each kind has a folder whose files are the list of what ships. A declaration is what planning sees of a thing, without
torch; many have settings, which are a document of their own.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypedDict, TypeVar

from pydantic import BaseModel

from ablate.errors import InputError

PACKAGE = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `name` is that of the decorator or function that declares it, `noun` its word in sentences.

    `plural` names the kind in `defaults:` of a grammar, its list (`ablate list probes`) and its entry points
    (`ablate.probes`). `folder` is below the package. `below` is the word for the implementation, below the import of
    torch, and `way` how to mark it as such; both are empty for a kind that needs no implementation.
    """

    name: str
    noun: str
    plural: str
    folder: str
    below: str
    way: str

    @property
    def group(self) -> str:
        return f"ablate.{self.plural}"

    @property
    def a_noun(self) -> str:
        return f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"

    def files(self) -> tuple[Path, ...]:
        """Every Python file of its folder, sorted by path; not all of them contain declarations."""
        return tuple(sorted((PACKAGE / self.folder).rglob("*.py")))


COMPONENT = Kind("component", "component", "components", "components", "module", "decorate its nn.Module with")
PROBE = Kind("probe", "probe", "probes", "probes", "measurement", "decorate the function that measures with")
OPTIMIZER = Kind(
    "optimizer", "optimiser", "optimizers", "train/optimizers", "update", "decorate the function that builds it with"
)
SCHEDULE = Kind("schedule", "schedule", "schedules", "train/schedules", "", "")
OBJECTIVE = Kind(
    "objective", "objective", "objectives", "train/objectives", "loss", "decorate the class that computes it with"
)
SAMPLER = Kind(
    "sampler", "sampler", "samplers", "execute/search/samplers", "proposer", "decorate the function that makes it with"
)
CORPUS = Kind("corpus", "corpus", "corpora", "data/corpora", "reader", "decorate the function that reads it with")

KINDS = (COMPONENT, PROBE, OPTIMIZER, SCHEDULE, OBJECTIVE, SAMPLER, CORPUS)


# The declaration of a file, and its faults

T = TypeVar("T")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A component, probe or the like as planning sees it, without torch; each kind adds fields of its own.

    `summary` is the first line of its file, `source` where it is from, and `version` that of the numbers it computes:
    it rises with every change of them (see `plan/identity.py`). `module` is the name by which Python imports it.
    """

    kind: ClassVar[Kind]
    name: str
    source: str
    summary: str
    path: Path
    module: str
    version: int = 1

    def __repr__(self) -> str:
        return f"<{self.kind.noun.capitalize()} {self.name}>"

    @property
    def needs_below(self) -> bool:
        return bool(self.kind.below)


@dataclass(frozen=True, slots=True)
class DeclarationFault:
    """A mistake: `at` is a field, or a keyword of the declaration (of its values `word`); `notes` are ways out."""

    message: str
    at: str
    notes: tuple[str, ...] = ()
    label: str = ""
    word: object = None


class DeclarationError(InputError):
    """A declaration that cannot be accepted; `faults` is everything that is wrong with it."""

    def __init__(self, where: str, faults: tuple[DeclarationFault, ...]):
        self.faults = faults
        texts = (
            "\n".join([f"error: {where}: {fault.message}", *(f"  = {note}" for note in fault.notes)])
            for fault in faults
        )
        super().__init__("\n\n".join(texts))


def common_faults(kind: Kind, name: object, source: object, version: object) -> Iterator[DeclarationFault]:
    if not isinstance(name, str) or WORD.fullmatch(name) is None:
        way = "use letters, digits and _, as in rms_norm: the name is written in YAML"
        yield DeclarationFault(f"the name of {kind.a_noun} must be a word, not {name!r}", "name", (way,))
    if not isinstance(source, str) or not source.strip():
        yield DeclarationFault(
            f"{kind.a_noun} must say where it is from", "source", ('give a source, such as source="this work"',)
        )
    if type(version) is not int or version < 1:
        way = "it starts at 1, and rises with every change that changes numbers"
        message = f"the version of {kind.a_noun} must be a whole number above zero, not {version!r}"
        yield DeclarationFault(message, "version", (way,))


class DeclaredAt(TypedDict):
    path: Path
    module: str
    summary: str


def place_of(declared: object) -> DeclaredAt:
    """The file, module and summary of a class or a function, as fields of its Declaration."""
    module = inspect.getmodule(declared)
    names = module.__dict__ if isinstance(module, types.ModuleType) else {}
    document = inspect.cleandoc(names.get("__doc__") or getattr(declared, "__doc__", None) or "")
    summary = document.splitlines()[0] if document else ""
    return {"path": Path(names.get("__file__", "")), "module": declared.__module__, "summary": summary}


def implements(declared: Any) -> Callable[[T], T]:
    """Bind a class or a function to the declaration it implements; it gets the declared class as `Config`."""

    def bind(implementation: T) -> T:
        declared.implementation = staticmethod(implementation) if inspect.isfunction(implementation) else implementation
        implementation.Config = declared  # type: ignore[attr-defined]
        return implementation

    return bind


def declaration_in(value: object) -> Declaration | None:
    """The declaration that a value of a module is or carries."""
    carried = value if isinstance(value, Declaration) else vars(value).get("spec") if isinstance(value, type) else None
    return carried if isinstance(carried, Declaration) else None


# Declarations whose settings are a document: optimisers, schedules, objectives, samplers, corpora

S = TypeVar("S", bound=BaseModel)

ADDED: Final = "added"
"""Marks the fields of a dataclass or a pydantic model that its identity leaves out at their default."""


def is_added(info: Any) -> bool:
    """A field of a pydantic model that came later: `Field(json_schema_extra={"added": …})`."""
    return ADDED in (info.json_schema_extra or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured(Declaration):
    """A declaration with `settings`: the class in its file by which its settings in a space are read."""

    settings: type[BaseModel]

    def read(self, values: Any) -> Any:
        """Read plain `values`, as a Choice has them; pydantic's ValidationError if they do not fit."""
        return self.settings.model_validate(values)


def declare_settings(
    spec: type[Configured],
    name: str,
    *,
    source: str,
    version: int,
    needs: tuple[str, ...] = (),
    defaults: bool = False,
    faults: Callable[[type[BaseModel]], Iterable[DeclarationFault]] = lambda settings: (),
    **more: Any,
) -> Callable[[type[S]], type[S]]:
    """The decorator of a settings class, which declares it as a `spec`; `more` are the other fields of `spec`.

    The class must have the fields in `needs`, and none with a default unless `defaults` are allowed; `faults` yields
    further faults of the class. Raises DeclarationError with all faults.
    """

    def declare(cls: type[S]) -> type[S]:
        kind = spec.kind
        wrong = [*common_faults(kind, name, source, version), *_settings_faults(kind, cls, needs, defaults)]
        wrong += faults(cls) if not wrong else ()
        if wrong:
            raise DeclarationError(cls.__qualname__, tuple(wrong))
        declared = spec(name=name, source=source, version=version, settings=cls, **place_of(cls), **more)
        cls.spec = declared  # type: ignore[attr-defined]
        return cls

    return declare


def _settings_faults(kind: Kind, cls: type, needs: tuple[str, ...], defaults: bool) -> Iterator[DeclarationFault]:
    """The fields of a settings class must be exactly what YAML can set, but for added ones."""
    way = "derive the class from the Settings of its declare.py, which is frozen, strict and forbids other keys"
    if not (isinstance(cls, type) and issubclass(cls, BaseModel)):
        yield DeclarationFault(f"{kind.a_noun} must be declared on the class of its settings", "class", (way,))
        return
    if cls.model_config.get("extra") != "forbid" or not cls.model_config.get("frozen"):
        yield DeclarationFault(f"the settings of {kind.a_noun} must be frozen and forbid other keys", "class", (way,))
    for name, field in cls.model_fields.items():
        if not field.is_required() and not defaults and not is_added(field):
            way = "leave it out: what a space omits comes from `space:` of its grammar, where it can be read"
            yield DeclarationFault(f"field {name!r} has a default", name, (way,))
    for name in needs:
        if name not in cls.model_fields:
            yield DeclarationFault(f"{kind.a_noun} must have a field {name!r}", "class", (f"declare {name} in it",))
