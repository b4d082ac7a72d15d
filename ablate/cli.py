"""The command line: verbs of a few lines each. What a verb does stands in `api.py`; what it shows, in `report/`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ablate.errors import AblateError

if TYPE_CHECKING:
    from rich.console import Console

    from ablate.api import Planned

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Which edit of a transformer block mattered, by how much, is it noise, and what does it cost?",
)
listing = typer.Typer(no_args_is_help=True, help="List what is known: blocks or components.")
app.add_typer(listing, name="list")

File = Annotated[Path, typer.Argument(help="A space, or a grammar.", show_default=False)]
SpaceFile = Annotated[Path, typer.Argument(metavar="SPACE", help="spaces/op_vs_preln.yaml", show_default=False)]
Profile = Annotated[str | None, typer.Option(help="A profile of the space, laid over it.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value: recipe.steps=50.")]
ResultsFolder = Annotated[Path, typer.Option("--results", help="The folder of results.")]
Plugin = Annotated[list[Path] | None, typer.Option(help="A file with a component of your own.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
GrammarFile = Annotated[Path, typer.Option("--grammar", help="The grammar whose blocks are meant.")]

RESULTS = Path("results")
GRAMMAR = Path("grammars/transformer.yaml")
INTERRUPTED = 130


@app.command()
def check(file: File, profile: Profile = None, settings: Set = None, plugin: Plugin = None, json: Json = False) -> None:
    """Say every mistake in a space or a grammar, each at its place; nothing is read or trained."""
    from ablate import api
    from ablate.report import checked
    from ablate.source.yaml import read_yaml

    if checked.is_grammar(read_yaml(file)):
        _print(checked.grammar(api.load_grammar(file, plugins=plugin or ()), as_json=json))
    else:
        space = api.load_space(file, profile=profile, settings=settings or (), plugins=plugin or ())
        plan = api.check(space)
        if profile is None:
            api.check_profiles(space, settings=settings or (), plugins=plugin or ())
        _print(checked.space(space, plan, as_json=json))


@app.command()
def plan(
    space: SpaceFile,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    plugin: Plugin = None,
    full: Annotated[bool, typer.Option("--full", help="Print the resolved whole: nothing is left out.")] = False,
    json: Json = False,
) -> None:
    """Show what a run would train, and what the results folder knows already."""
    from ablate import api
    from ablate.report import checked
    from ablate.report.json_form import plan_to_json

    loaded = api.load_space(space, profile=profile, settings=settings or (), plugins=plugin or ())
    planned = api.plan_space(loaded, results=results)
    if json:
        typer.echo(plan_to_json(planned.plan, planned.known))
        return
    console = _console()
    _show_plan(console, planned, None)
    if full:
        console.print(checked.resolved(loaded), markup=False, highlight=False, soft_wrap=True)


@app.command()
def run(
    space: SpaceFile,
    profile: Profile = None,
    settings: Set = None,
    results: ResultsFolder = RESULTS,
    executor: Annotated[Literal["local", "inline"], typer.Option(help="Where trials run.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (default: cores / threads; 1 on a GPU).")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Train again what is known already.")] = False,
    plugin: Plugin = None,
    mlflow: Annotated[bool, typer.Option("--mlflow/--no-mlflow", help="Mirror the runs to MLflow.")] = True,
    json: Json = False,
) -> None:
    """Train what the plan asks for and is not known yet, and print the verdicts."""
    from ablate import api
    from ablate.report import ended as endings
    from ablate.report.json_form import to_json
    from ablate.report.tables import ResultScreen

    console = _console(stderr=json)
    loaded = api.load_space(space, profile=profile, settings=settings or (), plugins=plugin or ())

    def show_run(done: api.Run) -> None:
        if done.ended.interrupted:
            console.print(endings.stopped(done.ended, again=_again()), markup=False, highlight=False, soft_wrap=True)
        elif json:
            typer.echo(to_json(done.summary, done.definitions))
        else:
            console.print(ResultScreen(done.summary, done.definitions))

    done = api.run(
        loaded,
        results=results,
        executor=executor,
        workers=workers,
        fresh=fresh,
        plugins=plugin or (),
        console=console,
        show_plan=lambda planned: _show_plan(console, planned, workers),
        show_run=show_run,
        mirror=mlflow,
    )
    if done.ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if done.failed:
        console.print(endings.failures(done.plan, done.failed, results), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1)


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="SQL; `-` reads it from standard input.", show_default=False)],
    results: ResultsFolder = RESULTS,
    form: Annotated[Literal["table", "csv", "json"], typer.Option("--format", help="How rows are printed.")] = "table",
    json: Json = False,
    write: Annotated[bool, typer.Option("--write", help="Let the statement change the database.")] = False,
) -> None:
    """Ask the results, also while a run is writing them. `SELECT * FROM leaderboard` is a beginning."""
    from ablate.report import rows
    from ablate.store.query import query

    text = sys.stdin.read() if statement == "-" else statement
    answer = query(results, text, writable=write, say=_note)
    if json or form == "json":
        typer.echo(rows.as_json(answer.columns, answer.rows))
    elif form == "csv":
        typer.echo(rows.as_csv(answer.columns, answer.rows), nl=False)
    else:
        _print(rows.as_table(answer.columns, answer.rows))


@app.command()
def show(block: str, grammar: GrammarFile = GRAMMAR, plugin: Plugin = None) -> None:
    """Print a block in full: every field of every part."""
    from ablate import api
    from ablate.report import checked

    typer.echo(checked.block(api.load_grammar(grammar, plugins=plugin or ()), block))


@app.command()
def diff(
    before: str,
    after: str,
    grammar: GrammarFile = GRAMMAR,
    split: Annotated[bool, typer.Option("--split", help="Keep apart what happens in several places.")] = False,
    plugin: Plugin = None,
) -> None:
    """Name the edits between two blocks, in the order in which a path would apply them."""
    from ablate import api
    from ablate.report import checked

    _print(checked.difference(api.load_grammar(grammar, plugins=plugin or ()), before, after, split=split))


@listing.command("blocks")
def list_blocks(grammar: GrammarFile = GRAMMAR, plugin: Plugin = None) -> None:
    """The named blocks of a grammar, as one writes them."""
    from ablate import api
    from ablate.report import checked

    _print(checked.blocks(api.load_grammar(grammar, plugins=plugin or ())))


@listing.command("components")
def list_components(plugin: Plugin = None) -> None:
    """Every component: its slot, what it does, and the paper it is from."""
    from ablate import api
    from ablate.report import checked

    _print(checked.components(api.catalogue(plugin or ())))


def main() -> None:
    """Run the command line. A mistake of the user's is a message and exit code 2; a bug of ours keeps its traceback."""
    try:
        app()
    except AblateError as error:
        text = str(error)
        typer.echo(text if text.startswith("error") else f"error: {text}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo(f"stopped at once; what was written stays. To go on:\n  {_again()}", err=True)
        sys.exit(INTERRUPTED)


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)


def _print(renderable: Any) -> None:
    _console().print(renderable)


def _note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)


def _show_plan(console: Console, planned: Planned, workers: int | None) -> None:
    from ablate.report.tables import plan_table

    console.print(planned.corpus.describe(), style="dim", markup=False, highlight=False)
    console.print(plan_table(planned.plan, planned.known, seconds=planned.seconds(workers)))


def _again() -> str:
    """The command that goes on from here: as it was typed, but for `--fresh`, which would start over."""
    import shlex
    import shutil

    program, found = Path(sys.argv[0]), shutil.which("ablate")
    on_path = found is not None and program.exists() and Path(found).samefile(program)
    name = "ablate" if on_path or program.name != "ablate" else str(program)
    return shlex.join([name, *(word for word in sys.argv[1:] if word != "--fresh")])
