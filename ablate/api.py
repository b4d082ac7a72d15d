"""The Python interface of `ablate`: the verbs of the command line as functions.

    >>> import ablate
    >>> space = ablate.load_space("op_vs_preln", profile="smoke")               # doctest: +SKIP
    >>> plan = ablate.plan_space(space)                                         # doctest: +SKIP
    >>> run = ablate.run(space)                                                 # doctest: +SKIP
    >>> run.summary.effects[0].verdict                                          # doctest: +SKIP
    'equivalent'

Heavy libraries (torch, DuckDB, MLflow) are imported by the functions that need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ablate import session
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block, Node
from ablate.block.reader import read_component
from ablate.block.sizes import Sizes
from ablate.components.registry import declarations
from ablate.errors import FailedError, InputError, warn
from ablate.execute.executor import MOST_PACKED, ExecutorOptions, GivenOptions
from ablate.grammar.grammar import Grammar
from ablate.grammar.grammar import load_grammar as read_grammar_file
from ablate.grammar.named_files import find_file
from ablate.session import RESULTS, PathLike, Planned, Resumable, Run, check, resumable, retriable
from ablate.source.located import Mapping as Written
from ablate.source.problems import Problems, quote, shorten, together, unknown
from ablate.space.load import check_known, check_presets
from ablate.space.load import load_block as read_block
from ablate.space.load import load_space as read_space_file
from ablate.space.space import Space

if TYPE_CHECKING:
    import pandas
    import torch
    from rich.console import Console
    from torch import nn

    from ablate.session.forecasting import Forecasts
    from ablate.session.table_judging import JudgedTable
    from ablate.store.query import QueryResult

__all__ = [
    "ExecutorOptions",
    "Planned",
    "Resumable",
    "Run",
    "Space",
    "ask",
    "catalogue",
    "check",
    "check_profiles",
    "compile_block",
    "forecast",
    "judge",
    "list_queries",
    "load_block",
    "load_grammar",
    "load_space",
    "plan_space",
    "query",
    "read_init",
    "read_pack",
    "read_seconds",
    "resumable",
    "retriable",
    "run",
]


GRAMMAR = "transformer"
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def catalogue(plugins: Sequence[PathLike] = ()) -> Catalogue:
    """Return every known component, including those in the user's own files."""
    return declarations(tuple(Path(plugin).resolve() for plugin in plugins))


def load_grammar(path: PathLike, *, plugins: Sequence[PathLike] = ()) -> Grammar:
    """Read a grammar; InputError shows every mistake at its place.

    `path` is a file, or a name: of `grammars/NAME.yaml`, else of a grammar that ships, such as `transformer`.
    """
    grammar, problems = read_grammar_file(find_file(path, "grammar"), catalogue(plugins)), Problems()
    check_presets(grammar, problems)
    problems.raise_if_any()
    return grammar


def load_space(
    path: PathLike, *, profile: str | None = None, settings: Sequence[str] = (), plugins: Sequence[PathLike] = ()
) -> Space:
    """Read a space; `settings` are `path=value` texts laid over it. InputError shows every mistake at its place.

    `path` is a file, or a name: of `spaces/NAME.yaml`, of `NAME.yaml`, else of a space that ships, such as
    `op_vs_preln`.
    """
    return read_space_file(find_file(path, "space"), catalogue(plugins), profile=profile, settings=settings)


def load_block(
    block: str | Block,
    *,
    grammar: PathLike | Grammar = GRAMMAR,
    overrides: Mapping[str, object] | None = None,
    plugins: Sequence[PathLike] = (),
) -> Block:
    """Read a block of a grammar by its name, or as YAML, with `overrides` as a space has them below `block:`.

    `str(block)` is complete YAML, from which this reads the same block. InputError shows every mistake, and gives the
    reason if a constraint of the grammar refuses the block.

    >>> load_block("sas", overrides={"attention.position": "rope", "mlp.hidden": "2x"})
    <Block [residual: [rms_norm, attention], residual: [rms_norm, mlp]]>
    >>> print(load_block("[residual: [layer_norm]]"))
    - residual: {skip: 1, gain: 1, branch: [layer_norm: {eps: 1e-05, scale: true, bias: true}]}
    """
    of = grammar if isinstance(grammar, Grammar) else load_grammar(grammar, plugins=plugins)
    return read_block(block, of, overrides or {})


def check_profiles(space: Space, *, settings: Sequence[str] = (), plugins: Sequence[PathLike] = ()) -> None:
    """Check each profile of a space as if it were chosen; InputError shows the mistakes of all of them.

    Whether the corpus of a profile is on this machine is checked only when the profile is chosen.
    """
    profiles = space.located.get("profiles") if isinstance(space.located, Written) else None
    errors: list[InputError] = []
    for name in profiles if isinstance(profiles, Written) else ():
        try:
            check(load_space(space.path, profile=str(name), settings=settings, plugins=plugins), files=False)
        except InputError as error:
            mistakes = (replace(mistake, profile=str(name)) for mistake in error.mistakes)
            errors.append(InputError(f"with --profile {name}:\n\n{error}", mistakes))
    if errors:
        joined = together(errors)
        raise InputError(f"error: {joined}", joined.mistakes)


def plan_space(space: Space, *, results: PathLike = RESULTS) -> Planned:
    """Plan a space over its corpus, with what the results folder knows of it. Nothing is trained."""
    return session.plan_space(space, results=results)


def forecast(
    of: Space | str | Block,
    sizes: Sizes | None = None,
    *,
    grammar: PathLike | Grammar | None = None,
    overrides: Mapping[str, object] | None = None,
    plugins: Sequence[PathLike] = (),
    results: PathLike = RESULTS,
    samples: int = 0,
) -> Forecasts:
    """Forecast a block at `sizes`, or the model of each variant of a space, before a single step; nothing is trained.

    A block is a name, YAML, or what `load_block` returns; `grammar` and `overrides` are as there. One that is not
    given by its name is called "block" in the answer. It is forecast within a plain decoder (embedding N(0, 1), weights
    N(0, 1/d), a LayerNorm behind the last layer), whose tokens repeat as often as the sizes say; one with
    cross-attention beside an encoder, whose layers are the block without that, and which has a row too. A space has its
    own sizes and text, and nothing but `results`, where that is cached, is given with it. Beside each model that is
    forecast, `samples` initialisations are measured, for which torch is loaded.

    The `table` and the `layers` of the answer are DataFrames; what is not forecast is in `refused`, with its reason.
    Raises InputError for a block that is not forecast, for sizes with a space and for a block without them, and, as
    `plan_space` does, for mistakes in a space.

    >>> sizes = Sizes(n_layers=24, d_model=64, n_heads=4, seq_len=16, vocab_size=256)
    >>> post_ln, pre_ln = (forecast(name, sizes).models[name] for name in ("post_ln", "pre_ln"))
    >>> post_ln.streams[-1].correlation > 0.99 > pre_ln.streams[-1].correlation
    True
    """
    from ablate.session.forecasting import forecast_block, forecast_space

    if samples < 0:
        raise InputError(f"samples is {samples}\n  = give a number of initialisations, or 0 for none")
    if isinstance(of, Space):
        if sizes is not None or grammar is not None or overrides or plugins:
            raise InputError(
                "a space has sizes, a grammar and components of its own\n"
                '  = give these to load_space: settings=["model.layers=24"]'
            )
        return forecast_space(of, results=results, samples=samples)
    if sizes is None:
        raise InputError(
            "a block is forecast at sizes\n"
            "  = give ablate.Sizes(n_layers=…, d_model=…, n_heads=…, seq_len=…, vocab_size=…), or a space of load_space"
        )
    name, block = "block", of
    if isinstance(block, str) or grammar is not None or overrides:
        grammar = grammar if isinstance(grammar, Grammar) else load_grammar(grammar or GRAMMAR, plugins=plugins)
        if isinstance(of, str) and of.strip() in grammar.blocks:
            name = of.strip()
        block = load_block(block, grammar=grammar, overrides=overrides)
    known = grammar.catalogue if isinstance(grammar, Grammar) else catalogue(plugins)
    check_known(block, known)
    return forecast_block(name, block, sizes, known, samples=samples)


def run(
    space: Space,
    *,
    results: PathLike = RESULTS,
    fresh: bool = False,
    plugins: Sequence[PathLike] = (),
    console: Console | None = None,
    mirror: bool | str = True,
    **options: Unpack[GivenOptions],
) -> Run:
    """Train what the plan needs and the results folder does not have yet, and judge it.

    `options` say where, as keyword arguments (see `ExecutorOptions`): `executor` is `local` (the default), `inline` or
    `ray`, with `workers` workers; `address`, `cpus` and `gpus` are for Ray. Up to `pack` trials share a GPU, and each
    trial runs in `ranks` processes. `limit` is the time limit of a trial in seconds; `stop_within` is how many seconds
    trials have to save when the run is asked to stop. `fresh` trains known trials again. `mirror` sends the runs to the
    MLflow store in the results folder, or to the tracking server of that URI. Progress messages go to `console`, by
    default to standard error.

    A trial that fails is an outcome: it is printed, and is in the run's `failed`. Raises FailedError, with the run, if
    every trial that was to be trained failed, or is known to have failed; RefusedError if the folder is locked by
    another run or cannot be written, and if the corpus is missing or too small.
    """
    from ablate.output import terminal
    from ablate.report.screens import status
    from ablate.session import running  # with DuckDB, SciPy and rich

    console = console or terminal.Console(stderr=True)
    done = running.run(
        space,
        results=results,
        options=ExecutorOptions(**options),
        fresh=fresh,
        plugins=plugins,
        console=console,
        mirror=mirror,
    )
    if done.fruitless:
        before = not done.ended.kinds.total()
        raise FailedError(status.nothing_gained(done.plan, done.failed, Path(results), before=before), done)
    if done.failed:
        message = status.failed_trials(done.plan, done.failed, Path(results))
        console.print(terminal.Text(message), soft_wrap=True)
    return done


def read_seconds(text: str) -> float:
    """Read a time such as `90s`, `30m` or `1.5h` as seconds; a plain number is in seconds.

    >>> read_seconds("30m")
    1800.0
    """
    number, unit = (text[:-1], text[-1:]) if text[-1:] in SECONDS else (text, "s")
    try:
        seconds = float(number) * SECONDS[unit]
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InputError(f"{text!r} is not a time\n  = write it as 90s, 30m or 2h")
    return seconds


def read_pack(text: str) -> int | Literal["auto"]:
    """Read how many trials share a GPU: a number, or `auto`; InputError for anything else.

    >>> read_pack("3")
    3
    """
    if text == "auto":
        return "auto"
    if not text.isdecimal() or len(text) > len(str(MOST_PACKED)) or int(text) < 1:
        raise InputError(f"--pack {shorten(text)} trials on a GPU\n  = give a number from 1 to {MOST_PACKED}, or auto")
    return int(text)


def compile_block(
    block: str | Block,
    sizes: Sizes,
    *,
    init: str,
    grammar: PathLike | Grammar | None = None,
    overrides: Mapping[str, object] | None = None,
    layer: int = 1,
    seed: int = 0,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    plugins: Sequence[PathLike] = (),
) -> nn.Module:
    """Build a block as an `nn.Module` from [batch, time, width] to the same, with the parameters of `layer` (from 1).

    The block is a name, YAML, or what `load_block` returns; `grammar` and `overrides` are as there, and a constraint of
    the grammar refuses the block as it would in a space. A `Block` is not checked again, unless a grammar or overrides
    are given. `init` says, as YAML, how weights without an init of their own are filled. The parameters are those that
    the whole model has in that layer at that `seed`; `dtype` is float32 by default. Raises InputError if sizes, layer,
    dtype or device do not fit.

    >>> import torch
    >>> sizes = Sizes(n_layers=6, d_model=16, n_heads=2, seq_len=8, vocab_size=256)
    >>> compile_block("pre_ln", sizes, init="normal: {std: 0.02}")(torch.zeros(1, 8, 16)).shape
    torch.Size([1, 8, 16])
    """
    import torch

    from ablate.compiler import compile_block as compiled

    if isinstance(block, str) or grammar is not None or overrides:
        of = GRAMMAR if grammar is None else grammar
        block = load_block(block, grammar=of, overrides=overrides, plugins=plugins)
    known = grammar.catalogue if isinstance(grammar, Grammar) else catalogue(plugins)
    check_known(block, known)
    filled = read_init(init, known)
    _check_placed(dtype, device)
    dtype = dtype or torch.float32
    return compiled(block, sizes, known, init=filled, layer=layer, seed=seed, dtype=dtype, device=device)


def _check_placed(dtype: torch.dtype | None, device: str | torch.device) -> None:
    """InputError for a dtype or a device that PyTorch does not have here."""
    import torch

    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise InputError(f"dtype {dtype} is not a floating-point type\n  = such as torch.float32 or torch.bfloat16")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"there is no device {str(device)!r} here: {str(error).splitlines()[0]}") from None


def read_init(text: str, known: Catalogue) -> Node:
    """Read an init from YAML: `"normal: {std: 0.02}"`; InputError shows the mistakes in it."""
    return read_component(text, "init", known)


def judge(
    table: PathLike | Any,
    *,
    metrics: str | Sequence[str],
    by: str = "variant",
    pair: str = "seed",
    margin: str | float = "none",
    baseline: str | None = None,
    path: bool = False,
    groups: bool = False,
    unpaired: bool = False,
    ranks: bool = False,
    floor: str | None = None,
    sd: float | None = None,
    diverged: str | None = None,
    at: str | None = None,
    step: str | None = None,
    within: str | None = None,
    inference: Literal["these", "alike"] | None = None,
    name: str | None = None,
    long: str | None = None,
    confidence: float = 0.95,
    family: Literal["metric", "page"] = "metric",
    judgement: int | None = None,
    sql: str | None = None,
    uri: str | None = None,
    space: str | None = None,
    results: PathLike = RESULTS,
) -> JudgedTable:
    """Judge runs that were trained elsewhere, from a table with a row per run.

    The table is a CSV, JSON lines or Parquet file, a trainer's log or a folder of logs, the runs of a tracker at `uri`
    (`mlflow:EXPERIMENT`, `optuna:STUDY`), SQL over a results folder, a data frame, an Arrow table, a DuckDB relation or
    a list of dictionaries. Column `by` names the variant and `pair` the seed, or another name that pairs runs.
    `metrics` are columns with their settings: `loss`, `kurtosis:log`, `accuracy:higher`, `entropy:none` (neither side
    is better), `loss:margin=1%`; `margin` is for those without one. Each variant is judged against the `baseline` (by
    default the first in the table), on a `path` also against the one before it, in `groups` all against all, with the
    variants that are not told apart and those that may be the best.

    `unpaired` runs have no partners: two variants are two samples, by Welch's t, or by `ranks`. Single runs are judged
    by the noise of a `floor`, a variant of several runs, or by a given `sd`. `within` each stratum, such as a game,
    numbers are on a scale of its own, and `inference` is about these strata or about strata alike.

    A run has diverged if its metric is NaN or infinite, or if `diverged` says so, a column of yes and no or
    `column=value,value`; in a pandas data frame NaN may also be an empty cell, so there `diverged` has to decide. A run
    that a column named state or status calls running or crashed is left out. Rows that share variant and seed are
    averaged; where a column counts steps (`step` names it), `at` says which is judged: `last`, `best`, or `mean:k` of
    the last k. `name` takes names of runs apart, `"{variant}-s{seed}"`; `long="metric,value"` are the columns of a
    table that has metrics below one another.
    `sql` is over the table of a file, called `rows`.

    Under the name of a `space` the table and its verdicts are kept in the results folder, for SQL, a page and
    `ablate verify`; comparisons that were judged there before are judged again at a fifth of the level before. Without
    one nothing is kept, and `judgement=2` says that seeds were added since the first.

    InputError shows every mistake in the table, each at its line.

    >>> runs = [{"variant": v, "seed": s, "loss": s + (v == "b")} for v in "ab" for s in range(6)]
    >>> judge(runs, metrics="loss", margin="1%").summary.effects[0].verdict
    'worse'
    """
    from ablate.session.table_columns import TableQuestion
    from ablate.session.table_judging import judge_table  # with DuckDB, SciPy and rich

    question = TableQuestion(
        metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
        by=by,
        pair=pair,
        margin=str(margin),
        baseline=baseline,
        confidence=confidence,
        family=family,
        path=path,
        groups=groups,
        unpaired=unpaired,
        ranks=ranks,
        floor=floor,
        sd=sd,
        diverged=diverged,
        at=at,
        step=step,
        within=within,
        inference=inference,
        name=name,
        long=long,
    )
    return judge_table(table, question, sql=sql, uri=uri, results=Path(results), judgement=judgement, space=space)


def query(sql: str, *, given: Sequence[str] = (), results: PathLike = RESULTS) -> pandas.DataFrame:
    """Query the results by SQL, read-only, also during a run.

    `@name` is a query of the cookbook (see `list_queries`), `given` are `name=value` texts for its `$names`. InputError
    for several statements, since a DataFrame holds the result of one.
    """
    import pandas

    (answer,) = ask(sql, given=given, results=results, several=False)
    return pandas.DataFrame(list(answer.rows), columns=list(answer.columns))


def ask(
    sql: str,
    *,
    given: Sequence[str] = (),
    results: PathLike = RESULTS,
    writable: bool = False,
    several: bool = True,
    say: Callable[[str], None] = warn,
) -> tuple[QueryResult, ...]:
    """Return the result of each statement over the results, of which there may be `several`, as `query` does of one.

    `writable` lets statements change the database.
    """
    from ablate.store.query import cookbook_query
    from ablate.store.query import query_each as run_sql

    values = dict(_value(text) for text in given)
    if not sql.startswith("@"):
        return run_sql(Path(results), sql, parameters=values, writable=writable, say=say, several=several)
    if writable:
        raise InputError("cookbook queries are read-only\n  = leave out --write")
    entry = cookbook_query(sql.removeprefix("@"))
    if "space" in values:
        (spaces,) = run_sql(Path(results), "SELECT space FROM spaces ORDER BY ALL", say=say)
        known = [space for (space,) in spaces.rows]
        if values["space"] not in known:
            message = f"no space {quote(values['space'])} in these results"
            raise unknown(message, values["space"], known, "there are", command="ablate sql 'FROM spaces'")
    answers = run_sql(Path(results), entry.sql, parameters=entry.given(values), say=say)
    return tuple(replace(answer, no_rows=entry.no_rows) for answer in answers)


def list_queries() -> QueryResult:
    """Return the cookbook: the name of each query, the question it answers, and the parameters it takes."""
    from ablate.store.query import QueryResult, cookbook_queries

    return QueryResult(
        ("query", "answers", "can be given"),
        tuple((f"@{entry.name}", entry.question, ", ".join(entry.parameters)) for entry in cookbook_queries()),
    )


def _value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text!r} gives no value\n  = write it as name=value: --given space=op_vs_preln")
    return name.strip(), value
