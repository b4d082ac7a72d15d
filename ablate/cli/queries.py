"""Verbs that only read: nothing is trained, and nothing but `sql --write` changes anything."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ablate.cli.console import console, note
from ablate.cli.console import show as shown
from ablate.cli.options import (
    GRAMMAR,
    RESULTS,
    GrammarFile,
    Json,
    Plugin,
    Profile,
    ResultsFolder,
    Set,
    SpaceFile,
    Verb,
    Verbs,
    complete_space,
    load_grammar,
    load_space,
    run_by_name,
)
from ablate.errors import InputError
from ablate.output.escape import write_data, write_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ablate.api import Planned
    from ablate.store.query import QueryResult

File = Annotated[
    Path,
    typer.Argument(
        help="A space or a grammar: its file or its name.", show_default=False, autocompletion=complete_space
    ),
]

BLOCK = "A block by its name: `ablate list blocks` lists them."
Block = Annotated[str, typer.Argument(help=BLOCK, show_default=False)]


def _size(what: str, most: int = 10_000_000) -> Any:
    return typer.Option(min=1, max=most, help=f"Show costs at this {what}.", show_default=False)


listing = typer.Typer(cls=Verbs, no_args_is_help=True, help="List spaces, blocks, presets, components and the like.")


def check(file: File, profile: Profile = None, settings: Set = None, plugin: Plugin = None, json: Json = False) -> None:
    """Report every mistake in a space or a grammar, each at its place; no text is read, nothing is trained."""
    from ablate import api
    from ablate.grammar.named_files import find_file
    from ablate.report.screens import check
    from ablate.source.yaml import read_yaml

    path = find_file(file, "space", "grammar")
    if check.is_grammar(read_yaml(path)):
        answer(check.grammar(load_grammar(path, plugin), as_json=json))
    else:
        space = load_space(file, profile, settings, plugin)
        plan = api.check(space)
        if profile is None:
            api.check_profiles(space, settings=settings or (), plugins=plugin or ())
        answer(check.space(space, plan, as_json=json))


def plan(
    space: SpaceFile,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    plugin: Plugin = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print the whole resolved space, and the attention kernels.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what a run would train, and what the results folder has already.

    A space without a file is planned as it was run, from what the results folder keeps of it.
    """
    from ablate.report.json_form import plan_to_json
    from ablate.report.screens import check
    from ablate.session.planning import plan_space

    kept = None if profile or settings or plugin else run_by_name(space, results)
    if kept is None:
        loaded = load_space(space, profile, settings, plugin)
    else:
        loaded = kept.space
        note(f"{kept.changed}: this plan is of the run" if kept.changed else f"{space} is planned as it was run")
    planned = plan_space(loaded, results=results, texts=None if kept is None else kept.texts)
    kernels, alike = None, None
    if full:  # only this needs torch
        from ablate.execute.executor import cache_of
        from ablate.execute.machine import described_orders, kernel_orders
        from ablate.execute.start import starting_alike

        alike = starting_alike(planned.plan, loaded.grammar.catalogue, cache_of(results))
        kernels = kernel_orders(planned.plan, loaded.grammar.catalogue)
    if json:
        write_text(
            plan_to_json(
                planned.plan,
                planned.known,
                kernels=kernels,
                alike=alike,
                floors=planned.floors,
                claims=planned.claim_powers,
                stamps=planned.stamps,
                failed=planned.failed,
                epochs=planned.epochs,
                mixed=planned.mixed,
            )
        )
        return
    screen = console()
    show_plan(screen, planned, None, results=results)
    if kernels is not None and alike is not None:
        for line in (described_orders(planned.plan, kernels), *alike):
            screen.print(line, soft_wrap=True)
        screen.print(check.resolved(loaded), soft_wrap=True)


def machine(json: Json = False) -> None:
    """Print this machine: devices, versions, attention backends and operators that work, and why others do not."""
    from ablate.execute.machine import examine
    from ablate.report.screens.doctor import machine_as_json, machine_screen

    examined = examine()
    answer(machine_as_json(examined) if json else machine_screen(examined))


def sql(
    statement: Annotated[
        str | None,
        typer.Argument(help="SQL, or @NAME from the cookbook; `-` reads standard input.", show_default=False),
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option("--given", metavar="NAME=VALUE", help="A value for a query's $NAME.")
    ] = None,
    results: ResultsFolder = RESULTS,
    form: Annotated[
        Literal["table", "csv", "spreadsheet", "json"],
        typer.Option(
            "--format", help="csv is exact in a pipe; spreadsheet is csv with ' before what would be a formula."
        ),
    ] = "table",
    json: Json = False,
    write: Annotated[bool, typer.Option("--write", help="Let the statement change the database.")] = False,
    cookbook: Annotated[bool, typer.Option("--cookbook", help="List ready-made queries and what they answer.")] = False,
) -> None:
    """Query the results, also during a run. `ablate sql --cookbook` lists ready-made queries."""
    from ablate import api
    from ablate.report.screens import query

    if cookbook and (statement or given or write):
        raise InputError("--cookbook lists the queries and takes nothing else\n  = ablate sql @NAME runs one")
    listed = cookbook or statement is None
    form = "json" if json else form
    answers: tuple[QueryResult, ...] = ()
    if statement is None:
        answers = (api.list_queries(),)
    else:
        text = sys.stdin.read() if statement == "-" else statement
        several = form in ("table", "json")
        answers = api.ask(text, given=given or (), results=results, writable=write, several=several, say=note)
    if form == "json":
        found = [query.as_json(answer.columns, answer.rows) for answer in answers]
        write_text(found[0] if len(found) == 1 else f"[{', '.join(found)}]")
        return
    for place, answer in enumerate(answers):
        if form == "table":
            if place:
                write_text("")
            shown(query.Answered(answer.columns, answer.rows, folded=listed, no_rows=answer.no_rows))
        else:
            write_data(query.as_csv(answer.columns, answer.rows, spreadsheet=form == "spreadsheet"))


def show(
    block: Block,
    grammar: GrammarFile = GRAMMAR,
    space: Annotated[
        Path | None,
        typer.Option(
            "--space",
            help="Show the block as this space has it, at its sizes.",
            show_default=False,
            autocompletion=complete_space,
        ),
    ] = None,
    layers: Annotated[int | None, _size("number of blocks", 1_000)] = None,
    width: Annotated[int | None, _size("width of the model")] = None,
    heads: Annotated[int | None, _size("number of heads")] = None,
    context: Annotated[int | None, _size("number of tokens in a sequence")] = None,
    vocabulary: Annotated[int | None, _size("size of the vocabulary")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the diagram to this file.")] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Show a block: every field of every part, its equations, a diagram, and what each part costs."""
    from ablate.report.screens import block as shows

    sizes = {"n_layers": layers, "d_model": width, "n_heads": heads, "seq_len": context, "vocab_size": vocabulary}
    shown_block = shows.find(
        block,
        load_grammar(grammar, plugin) if space is None else None,
        None if space is None else load_space(space, plugin=plugin),
        {name: size for name, size in sizes.items() if size is not None},
    )
    if svg is not None:
        write_svg(svg, shown_block.svg())
    if json:
        write_text(shows.as_json(shown_block))
    else:
        console().print(shows.screen(shown_block), crop=False)


def write_svg(path: Path, svg: str) -> None:
    """Write a diagram; InputError if that cannot be done."""
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}\n  = choose another file for --svg") from None
    note(f"wrote {path}")


def diff(
    before: Block,
    after: Block,
    grammar: GrammarFile = GRAMMAR,
    split: Annotated[bool, typer.Option("--split", help="Keep edits in several places apart.")] = False,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Name the edits between two blocks, in the order in which a path would apply them."""
    from ablate.report.screens import check

    answer(check.difference(load_grammar(grammar, plugin), before, after, split=split, as_json=json))


@listing.command("spaces", cls=Verb)
def list_spaces(json: Json = False) -> None:
    """List the spaces that can be given by name, your own here and those that ship: question and profiles of each."""
    from ablate.report.screens import catalogue
    from ablate.space.load import known_spaces

    answer(catalogue.spaces(known_spaces(), as_json=json))


@listing.command("blocks", cls=Verb)
def list_blocks(grammar: GrammarFile = GRAMMAR, plugin: Plugin = None, json: Json = False) -> None:
    """List the named blocks of a grammar, by the papers they are from."""
    from ablate.report.screens import catalogue

    answer(catalogue.blocks(load_grammar(grammar, plugin), as_json=json))


@listing.command("presets", cls=Verb)
def list_presets(grammar: GrammarFile = GRAMMAR, plugin: Plugin = None, json: Json = False) -> None:
    """List the settings that a space takes by `preset: NAME`, by the papers they are from."""
    from ablate.report.screens import catalogue

    answer(catalogue.presets(load_grammar(grammar, plugin), as_json=json))


def _list_verb(things: str) -> Callable[..., None]:
    def list_things(plugin: Plugin = None, json: Json = False) -> None:
        from ablate import api
        from ablate.report.screens import catalogue

        of = api.catalogue(plugin or ())
        own = {"components": catalogue.components, "probes": catalogue.probes, "metrics": catalogue.metrics}
        if things in own:
            answer(own[things](of, as_json=json))
        else:
            answer(catalogue.things(things, of.others.get(things, {}).values(), as_json=json))

    return list_things


for things, about in {
    "components": "List every component by its slot: what it does, and the paper it is from.",
    "probes": "List the probes that a space may name: the metrics of each, and what they mean.",
    "optimizers": "List the optimisers that recipe.optimizer may name.",
    "schedules": "List the learning-rate schedules that recipe.schedule.decay may name.",
    "objectives": "List the objectives that recipe.objective may name.",
    "samplers": "List the samplers by which a search may propose blocks.",
    "corpora": "List the corpora that data.corpus may name.",
    "metrics": "List the metrics that can be judged and searched for, and the probe that each needs.",
}.items():
    listing.command(things, cls=Verb, help=about)(_list_verb(things))


def answer(output: RenderableType) -> None:
    """Print a text (JSON) as it is, and anything else on the console."""
    if isinstance(output, str):
        write_text(output)
    else:
        shown(output)


def show_plan(
    screen: Console,
    planned: Planned,
    workers: int | None,
    before: Planned | None = None,
    *,
    results: Path = RESULTS,
) -> None:
    """Print the corpus and the table of a plan; after one shown `before`, only the table and new notes."""
    from ablate.report.forecasts import definitions, warnings
    from ablate.report.screens.plan import plan_screen
    from ablate.report.screens.status import retry
    from ablate.report.terminal_renderer import Screen

    plan = planned.plan
    if before is None:
        screen.print(planned.corpus.describe(), style="dim")
        for line in planned.read:
            screen.print(f"  {line}", style="dim")
        for line in planned.space.grammar_from_elsewhere:
            screen.print(f"  note: {line}", style="dim")
    else:
        plan = replace(plan, notes=tuple(note for note in plan.notes if note not in before.plan.notes))
    means = planned.noise.means if planned.noise else None
    document = plan_screen(
        plan,
        planned.known,
        seconds=planned.seconds(workers),
        rules=planned.space.judge if before is None else None,
        floors=planned.floors,
        means=means,
        account=planned.account,
        titled=before is None,
        failed=planned.failed,
        retry=retry(plan.space, results),
        mixed=() if before is not None and before.mixed == planned.mixed else planned.mixed,
        stamps=planned.stamps,
        told=() if before is None else {*warnings(before.plan), *definitions(before.plan)},
    )
    screen.print(Screen(document))
