"""How an executor declares itself, and the choice of a run's executor among those that are declared.

Such a file declares a class with the options that the executor takes, and below it a function that builds the
`Executor` of a run; `ablate docs executor` has an example and the contract.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.execute.executor import RESOURCES, Executor, ExecutorOptions
from ablate.extension.declaration import (
    EXECUTOR,
    Declaration,
    DeclarationError,
    DeclarationFault,
    Kind,
    common_faults,
    implements,
    place_of,
)
from ablate.extension.loader import implementation
from ablate.plan.plan import Trial
from ablate.source.problems import listed, quote, unknown
from ablate.train.events import Outcome

__all__ = ["ExecutorOptions", "Setup", "executor", "implements"]

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSpec(Declaration):
    """An executor; `takes` are the options for resources that it takes, and `check` refuses values of them."""

    kind: ClassVar[Kind] = EXECUTOR
    takes: tuple[str, ...]
    check: Callable[[ExecutorOptions], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The run that an executor is built for.

    Its trials compute with `threads` threads in each process. `say` receives notices for the user. `catalogue` is that
    of the components, with those of the `plugins`; `known` are trials of earlier runs, with their outcomes.
    """

    options: ExecutorOptions
    threads: int
    say: Callable[[str], None]
    plugins: tuple[Path, ...] = ()
    known: Iterable[tuple[Trial, Outcome]] = ()

    @property
    def catalogue(self) -> Catalogue:
        return declarations(self.plugins)


def executor(name: str, *, source: str = "", takes: tuple[str, ...] = (), version: int = 1) -> Callable[[C], C]:
    """Declare an executor; the first line of its file is what `ablate list executors` shows.

    `takes` are those of `workers`, `address`, `cpus`, `gpus` and `pack` that it takes: others are refused. `ranks` and
    the limits of time are parts of each task, and hold for every executor. The class may have a static method
    `check(options)`, which raises InputError for values that the executor cannot take.

    Raises DeclarationError with everything that is wrong with the declaration.
    """

    def declared(cls: C) -> C:
        faults = [*common_faults(EXECUTOR, name, source, version), *_faults(cls, takes)]
        if faults:
            raise DeclarationError(cls.__qualname__, tuple(faults))
        check = getattr(cls, "check", _accept)
        spec = ExecutorSpec(name=name, source=source, version=version, takes=takes, check=check, **place_of(cls))
        cls.spec = spec  # type: ignore[attr-defined]
        return cls

    return declared


def _accept(options: ExecutorOptions) -> None: ...


def _faults(cls: type, takes: tuple[str, ...]) -> Iterator[DeclarationFault]:
    for name in takes:
        if name not in RESOURCES:
            ways = listed(name, RESOURCES, "there are")
            yield DeclarationFault(f"no executor can take an option {name!r}", "takes", ways, word=name)
    if not isinstance(inspect.getattr_static(cls, "check", staticmethod(_accept)), staticmethod):
        way = "decorate it with @staticmethod: def check(options: ExecutorOptions) -> None"
        yield DeclarationFault("check of an executor must be a static method", "class", (way,))


# The choice of a run's executor


def executors(plugins: tuple[Path, ...] = ()) -> Mapping[str, ExecutorSpec]:
    """The executors by name, with those of plugins."""
    return declarations(plugins).of_kind(ExecutorSpec)


def check_executor(options: ExecutorOptions, plugins: tuple[Path, ...] = ()) -> ExecutorSpec:
    """The executor that options name; InputError if there is none, or if it does not take them."""
    known = executors(plugins)
    spec = known.get(options.executor)
    if spec is None:
        raise unknown(f"unknown executor {quote(options.executor)}", options.executor, known, "there are")
    if refused := [name for name in RESOURCES if name not in spec.takes and name in options.document()]:
        takers = [other.name for other in known.values() if set(refused) <= set(other.takes)]
        given = ", ".join(f"--{name}" for name in refused)
        use = f" is for placing trials on {' or '.join(map(str.capitalize, takers))}, and" if takers else ""
        ways = "".join(f"add --executor {name}, or " for name in takers)
        raise InputError(f"{given}{use} has no effect with --executor {spec.name}\n  = {ways}leave it out")
    spec.check(options)
    return spec


def build_executor(
    options: ExecutorOptions,
    threads: int,
    say: Callable[[str], None],
    *,
    plugins: tuple[Path, ...] = (),
    known: Iterable[tuple[Trial, Outcome]] = (),
) -> Executor:
    """Build the executor that the options of a run name; see `Setup`. InputError if this machine cannot run it."""
    build: Any = implementation(check_executor(options, plugins))
    built: Executor = build(Setup(options=options, threads=threads, say=say, plugins=plugins, known=known))
    return built
