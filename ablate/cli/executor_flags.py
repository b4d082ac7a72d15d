"""The options of the command line that say where and how trials run: declared once, for every verb that trains."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import typer

from ablate.cli.options import Workers
from ablate.execute.executor_options import ExecutorName, GivenOptions

NO_OPTIONS = GivenOptions()
"""No option given."""


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
    """Return the executor options that were given on the command line; InputError for a text that is not valid."""
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
