"""What is mutated: each grammar and space that is shipped, each mistake that has a text, words of the command line.

A text is held with `surrogateescape`, so that any bytes of a file are a str, and a case is a line of JSON.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
SHIPPED = ROOT / "grammars"
SEEDS = Path(__file__).parent / "seeds"
SMALL = TESTS / "errors" / "grammars" / "small.yaml"


@dataclass(frozen=True)
class Seed:
    """A file: a `space`, a `grammar`, or what the shipped grammar has `included` under this name."""

    kind: str
    name: str
    text: str


def write_texts(spaces: Path) -> None:
    """The corpus that the small spaces name, beside them: `check` looks whether its files are there."""
    (spaces / "texts").mkdir(parents=True)
    for k in range(4):
        (spaces / "texts" / f"{k}.txt").write_text(f"text {k}\n")


def decoded(path: Path) -> str:
    """A file's bytes as a str, whatever they are."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


@functools.cache
def shipped() -> tuple[Seed, ...]:
    """Grammars and spaces as users have them. They are large: a case costs some 50 ms."""
    found = [Seed("grammar", path.name, decoded(path)) for path in sorted(SHIPPED.glob("*.yaml"))]
    found += [Seed("included", path.name, decoded(path)) for path in sorted(SHIPPED.glob("*/*.yaml"))]
    found += [Seed("space", path.name, decoded(path)) for path in sorted((ROOT / "spaces").glob("*.yaml"))]
    return tuple(found)


@functools.cache
def small() -> tuple[Seed, ...]:
    """Small files, right and wrong, over a small grammar: a case costs some milliseconds."""
    found = []
    for kind in ("space", "grammar"):
        paths = sorted((TESTS / "errors").glob(f"*/{kind}.yaml"))
        found += [Seed(kind, f"{path.parent.name}.yaml", decoded(path)) for path in paths]
    found += [Seed("space", path.name, decoded(path)) for path in sorted((TESTS / "source" / "golden").glob("*.yaml"))]
    return (*found, *right() * 5)  # most of all what is right: a mistake hides those behind it


def right() -> tuple[Seed, ...]:
    """Small files without a mistake."""
    grammars = {"small.yaml": SMALL, "rules.yaml": SEEDS / "grammar_rules.yaml"}
    return (*right_spaces(), *(Seed("grammar", name, decoded(path)) for name, path in grammars.items()))


@functools.cache
def right_spaces() -> tuple[Seed, ...]:
    """Spaces over the small grammar without a mistake, one of every design."""
    return tuple(Seed("space", path.name, decoded(path)) for path in sorted(SEEDS.glob("space_*.yaml")))


SETTINGS = (
    "recipe.steps=20",
    "recipe.optimizer.adamw.lr=1e-3",
    "recipe.optimizer={adamw: {lr: 1e-3, betas: [0.9, 0.99]}}",
    "recipe.schedule={warmup: 10%, decay: cosine, floor: {rate: 1e-5}}",
    "model={layers: 2, width: 16, heads: 2}",
    "model.embedding.std=1/sqrt(width)",
    "model.init={normal: 0.02}",
    "model.final_norm=layer_norm",
    "block={attention.position: rope, mlp.activation: relu}",
    "block.attention.position=rope",
    'block."attention.matrix"=shaped',
    "block.residual.gain=1/sqrt(2*depth)",
    "block.attention={query: {dense: {init: zero}}}",
    "blocks={odd: [residual: {gain: 1/(layer+1), branch: [mlp]}]}",
    "data.corpus={files: [texts/*.txt]}",
    "data.tokenizer={bpe: 500}",
    "design={path: {from: pre_ln, to: op, split: true}}",
    "design={compare: [pre_ln, op]}",
    "design.search.budget={trials: 12}",
    "design={search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 9}}}",
    "seeds=[1, 2]",
    "measure.probes=[kurtosis, gain]",
    "judge.metrics={eval_loss: {margin: 1%}}",
    "profiles.quick={seeds: 3}",
)
PROFILES = ("smoke", "paper", "quick", "smok", "")
SECONDS = ("90", "90s", "30m", "1.5h", "2d", "1e3", "0x10", "1_000", "nan", "inf", "-1s", "")
NAMES = ("pre_ln", "op", "post_ln", "pre_lm", "op_as_released", "e_spa", "")
SQL = (
    "SELECT * FROM final",
    "FROM leaderboard ORDER BY ALL",
    "SELECT space, count(*) AS n FROM final GROUP BY ALL HAVING n > 1",
    "WITH a AS (SELECT 1 AS x) SELECT x + $seed FROM a",
    "PIVOT metrics ON metric USING max(value) GROUP BY step",
    "EXPLAIN SELECT * FROM metrics",
    "SELECT 1; SELECT 2",
    "SELECT DATE '290000-01-01', MAP {[1]: 2}, chr(27) AS \"[/b]\"",
    "SELECT '[/b]', 1e308 * 10, 'x'::BLOB, now()",
    "COPY metrics TO 'x.csv'",
    "FROM read_text('x')",
    "@verdict",
    "@leaderboard",
    "@curves",
    "DESCRIBE final",
)
GIVEN = ("space=small", "seed=0", "metric=eval_loss", "trial=a10000", "x", "=", "$space=1")
WORDS = (
    *("check", "plan", "run", "resume", "status", "sql", "show", "diff", "doctor", "list", "blocks", "presets"),
    *("components", "--profile", "--set", "--results", "--json", "--full", "--plugin", "--grammar", "--space"),
    *("--layers", "--width", "--heads", "--context", "--vocabulary", "--svg", "--split", "--given", "--write"),
    *("--cookbook", "--format", "--executor", "--workers", "--address", "--cpus", "--gpus", "--timeout", "--fresh"),
    *("--mlflow", "--no-mlflow", "--look", "--port", "--browse", "--help", "-h", "--", "-", "--nonsense", "nowhere"),
    *("spaces/broken.yaml", "pre_ln", "op", "nowhere.yaml", "local", "ray", "csv", "0", "-1", "1e9", "recipe.steps=1"),
)
