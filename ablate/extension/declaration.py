"""What a file declares, and what can be wrong with a declaration."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ablate.errors import InputError
from ablate.extension.kinds import Kind

T = TypeVar("T")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A component, probe or the like as planning sees it, without torch; each kind adds fields of its own.

    `summary` is the first line of its file, `source` where it is from, and `version` that of the numbers it computes:
    it rises with every change of its code that changes them (see `plan/identity.py`). `module` is the name under which
    Python imports its file.
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
        """Whether something below the first import of torch must implement it."""
        return bool(self.kind.below)


@dataclass(frozen=True, slots=True)
class DeclarationFault:
    """A mistake in a declaration: `at` is the field, or the keyword of the declaration (of its values `word`)."""

    message: str
    at: str
    notes: tuple[str, ...] = ()
    label: str = ""
    word: object = None


class DeclarationError(InputError):
    """A declaration that cannot be accepted; `faults` is everything that is wrong with it."""

    def __init__(self, where: str, faults: tuple[DeclarationFault, ...]):
        self.faults = faults
        shown = (
            "\n".join([f"error: {where}: {fault.message}", *(f"  = {note}" for note in fault.notes)])
            for fault in faults
        )
        super().__init__("\n\n".join(shown))


def common_faults(kind: Kind, name: object, source: object, version: object) -> Iterator[DeclarationFault]:
    """Yield what is wrong with the fields that every declaration has."""
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


def place_of(declared: Any) -> dict[str, Any]:
    """Return where a class or a function is declared, as fields of its Declaration: its file, module and summary."""
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
    """Return the declaration that a value of a module is or carries; None for any other value."""
    carried = value if isinstance(value, Declaration) else vars(value).get("spec") if isinstance(value, type) else None
    return carried if isinstance(carried, Declaration) else None
