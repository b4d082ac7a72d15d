"""Options: arguments and options that several verbs share, each with its help, and spaces and grammars by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperCommand, TyperGroup

from ablate.cli.console import note
from ablate.execute.executor import ExecutorName, GivenOptions

if TYPE_CHECKING:
    from ablate.api import Space
    from ablate.grammar.grammar import Grammar
    from ablate.session.earlier_runs import KeptSpace


class WholeSummary:
    """A summary in full in the list of verbs, over as many lines as needed; Typer would cut it at the width."""

    help: str | None

    def get_short_help_str(self, limit: int = 45) -> str:
        return " ".join(inspect.cleandoc(self.help or "").partition("\n\n")[0].split())


class Verbs(WholeSummary, TyperGroup): ...


class Verb(WholeSummary, TyperCommand): ...


# Spaces and grammars by name: which file is meant, and what a shell completes.


def space_file(named: Path) -> Path:
    """The file of a space given by name or path; a note tells if it ships with `ablate`."""
    from ablate.grammar.named_files import find_file

    path = find_file(named, "space")
    if path != named and path.is_absolute():
        note(f"{named} is a space that ships with ablate: {path}")
    return path


def load_space(
    named: Path, profile: str | None = None, settings: list[str] | None = None, plugin: list[Path] | None = None
) -> Space:
    from ablate import api

    return api.load_space(space_file(named), profile=profile, settings=settings or (), plugins=plugin or ())


def load_grammar(named: Path, plugin: list[Path] | None) -> Grammar:
    from ablate import api

    return api.load_grammar(named, plugins=plugin or ())


def run_by_name(named: Path, results: Path) -> KeptSpace | None:
    """A space as a results folder keeps it, given by the name of a run of it; None if a file has that name."""
    from ablate.grammar.named_files import is_name, own_files, shipped_files
    from ablate.session.earlier_runs import as_run
    from ablate.store.snapshot import Snapshot

    name = str(named)
    if not is_name(name) or named.is_file() or name in {*own_files("space"), *shipped_files("space")}:
        return None
    request = Snapshot(results).requests.get(name)
    return None if request is None else as_run(results, request)


def complete_space(incomplete: str) -> list[str]:
    """Spaces with that beginning; if there are none, the shell completes files."""
    return _names(incomplete, "space")


def complete_grammar(incomplete: str) -> list[str]:
    return _names(incomplete, "grammar")


def complete_example(incomplete: str) -> list[str]:
    return _names(incomplete, "space", own=False)


def _names(beginning: str, kind: Literal["space", "grammar"], *, own: bool = True) -> list[str]:
    from ablate.grammar.named_files import own_files, shipped_files

    names = {*shipped_files(kind), *(own_files(kind) if own else ())}
    return sorted(name for name in names if name.startswith(beginning))


SpaceFile = Annotated[
    Path,
    typer.Argument(
        metavar="SPACE", help="A space: its file or its name.", show_default=False, autocompletion=complete_space
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A profile of the space, such as smoke, laid over it; `ablate list spaces` names them."
    ),
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value: recipe.steps=50.")]


def _usable_folder(folder: Path) -> Path:
    from ablate.store.durable import check_folder

    check_folder(folder)
    return folder


ResultsFolder = Annotated[Path, typer.Option("--results", callback=_usable_folder, help="The results folder.")]
Plugin = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="A file with your own component, optimiser or the like.")
]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
GrammarFile = Annotated[
    Path,
    typer.Option("--grammar", help="The grammar: its file or its name.", autocompletion=complete_grammar),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Trials at a time (default: as many as fit).")]
Mlflow = Annotated[
    str | None,
    typer.Option("--mlflow", metavar="URI", help="A tracking server (default: a store in the results folder)."),
]
NoMlflow = Annotated[bool, typer.Option("--no-mlflow", help="Do not mirror the runs to MLflow.")]

RESULTS = Path("results")
GRAMMAR = Path("transformer")


# Options that say where and how trials run: declared once, for every verb that trains.

NO_OPTIONS = GivenOptions()


def given_options(
    executor: Annotated[Literal["local", "inline", "ray"] | None, typer.Option(help="Where trials run.")] = None,
    workers: Workers = None,
    address: Annotated[str | None, typer.Option(help="With ray: the cluster to join (auto, host:port).")] = None,
    cpus: Annotated[float | None, typer.Option(help="With ray: CPUs per trial (default: its threads).")] = None,
    gpus: Annotated[
        float | None, typer.Option(help="With ray: GPUs per trial, such as 0.5 (default: 1 if there are any).")
    ] = None,
    pack: Annotated[str | None, typer.Option(metavar="N|auto", help="Trials per GPU (default: by memory).")] = None,
    ranks: Annotated[int | None, typer.Option(min=1, help="Processes per trial, with a GPU each.")] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time limit of a trial, without interruptions: 90s, 30m, 2h.")
    ] = None,
    stop_within: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time for running trials to save on Ctrl-C or SIGTERM (default: 20s)."),
    ] = None,
) -> GivenOptions:
    """The executor options that were given on the command line; InputError for a text that is not valid."""
    from ablate import api  # loads pydantic, which `ablate --help` does not need

    options = GivenOptions(workers=workers, address=address, cpus=cpus, gpus=gpus, ranks=ranks)
    options["limit"] = None if timeout is None else api.read_seconds(timeout)
    options["stop_within"] = None if stop_within is None else api.read_seconds(stop_within)
    options["pack"] = None if pack is None else api.read_pack(pack)
    if executor is not None:
        options["executor"] = executor
    return cast("GivenOptions", {name: value for name, value in options.items() if value is not None})


def with_executor_flags(
    *, executor: ExecutorName | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `options` of a verb by the options of `given_options`, whose values it receives there.

    `executor` is the default that its help shows.
    """
    flags = dict(inspect.signature(given_options, eval_str=True).parameters)
    flags["executor"] = flags["executor"].replace(default=executor)

    def with_flags(verb: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(verb, eval_str=True)
        shown = [
            parameter
            for name, own_parameter in own.parameters.items()
            for parameter in (flags.values() if name == "options" else [own_parameter])
        ]

        @functools.wraps(verb)
        def called(**words: Any) -> None:
            given = given_options(**{name: words.pop(name) for name in flags})
            verb(**words, options=given)

        called.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]  # what Typer reads
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return called

    return with_flags
