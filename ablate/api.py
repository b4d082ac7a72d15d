"""The Python face of `ablate`: the same steps as the command line's verbs, as functions.

    >>> import ablate
    >>> space = ablate.load_space("spaces/op_vs_preln.yaml", profile="smoke")   # doctest: +SKIP
    >>> plan = ablate.plan_space(space)                                         # doctest: +SKIP
    >>> run = ablate.run(space)                                                 # doctest: +SKIP
    >>> run.summary.effects[0].verdict                                          # doctest: +SKIP
    'equivalent'

What is heavy (torch, DuckDB, MLflow) is imported by the functions that need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.block.catalogue import Catalogue, Part
from ablate.block.expression import Block, Node
from ablate.block.read import Invalid, Reader
from ablate.block.sizes import Sizes
from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.grammar.grammar import Grammar
from ablate.grammar.grammar import load_grammar as read_grammar_file
from ablate.session import RESULTS, PathLike, Planned, Run, check, plan_space, run
from ablate.source.located import Mapping
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.load import load_space as read_space_file
from ablate.space.space import Space

if TYPE_CHECKING:
    import pandas
    from torch import nn

__all__ = [
    "Planned",
    "Run",
    "catalogue",
    "check",
    "check_profiles",
    "compile_block",
    "load_grammar",
    "load_space",
    "plan_space",
    "query",
    "run",
]


def catalogue(plugins: Sequence[PathLike] = ()) -> Catalogue:
    """Every component that is known, those in the user's own files included."""
    return declarations(tuple(Path(plugin).resolve() for plugin in plugins))


def load_grammar(path: PathLike, *, plugins: Sequence[PathLike] = ()) -> Grammar:
    """Read a grammar; InputError shows every mistake at its place."""
    return read_grammar_file(Path(path), catalogue(plugins))


def load_space(
    path: PathLike, *, profile: str | None = None, settings: Sequence[str] = (), plugins: Sequence[PathLike] = ()
) -> Space:
    """Read a space; `settings` are `path=value` texts laid over it. InputError shows every mistake at its place."""
    return read_space_file(Path(path), catalogue(plugins), profile=profile, settings=settings)


def check_profiles(space: Space, *, settings: Sequence[str] = (), plugins: Sequence[PathLike] = ()) -> None:
    """Check each profile of a space as if it were chosen; InputError shows the mistakes of all of them."""
    profiles = space.located.get("profiles") if isinstance(space.located, Mapping) else None
    found = []
    for name in profiles if isinstance(profiles, Mapping) else ():
        try:
            check(load_space(space.path, profile=str(name), settings=settings, plugins=plugins))
        except InputError as error:
            found.append(f"with --profile {name}:\n\n{error}")
    if found:
        raise InputError("error: " + "\n\n".join(found))


def compile_block(
    block: Block, sizes: Sizes, *, init: str, layer: int = 1, seed: int = 0, plugins: Sequence[PathLike] = ()
) -> nn.Module:
    """A block as an `nn.Module` from [batch, time, width] to the same.

    `init` says, as YAML, how weights without an init of their own are filled: `"normal: {std: 0.02}"`. The parameters
    are those that the whole model has in layer `layer` at that `seed`. InputError where sizes do not fit.

    >>> import torch
    >>> sizes = Sizes(n_layers=6, d_model=16, n_heads=2, seq_len=8, vocab_size=256)
    >>> block = load_grammar("grammars/transformer.yaml").block("pre_ln")
    >>> compile_block(block, sizes, init="normal: {std: 0.02}")(torch.zeros(1, 8, 16)).shape
    torch.Size([1, 8, 16])
    """
    from ablate.compiler import compile_block as compiled

    known, problems = catalogue(plugins), Problems()
    try:
        scheme = Reader(known, {}, problems).value(parse_yaml(init, "init"), Part("init"))
    except Invalid:
        problems.raise_if_any()
        raise
    assert isinstance(scheme, Node)
    return compiled(block, sizes, known, init=scheme, layer=layer, seed=seed)


def query(sql: str, *, results: PathLike = RESULTS) -> pandas.DataFrame:
    """What SQL over the results gives, also while a run is writing; read-only."""
    import pandas

    from ablate.store.query import query as ask

    answer = ask(Path(results), sql)
    return pandas.DataFrame(list(answer.rows), columns=list(answer.columns))
