"""A question to a table of runs: which columns name variants and runs, which are judged, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from ablate.source.problems import Problems, quote
from ablate.space.documents import Judged
from ablate.store.table_files import Table

MARGIN = "margin="
SETTINGS = {"log": "scale", "linear": "scale", "lower": "better", "higher": "better", "none": "better"}
"""The field of `Judged` of each setting of a metric, margins aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question to a table: which columns name variants, pair their runs, are judged, and say which runs diverged.

    `metrics` are names of columns, followed by settings after colons: `loss`, `kurtosis:log:margin=5%`; `margin` is for
    those without one. The default `baseline` is the first variant in the table. On a `path` each variant is also judged
    against the one before it, in `groups` all against all. `unpaired`: runs have no partners, and two variants are two
    samples, compared by `ranks` if so asked. Runs too few to tell their own noise are judged by that of the `floor`, a
    variant of several runs, or by a given `sd`; they have no partners then. `within` is the column of strata, and
    `inference` what is asked about these (`strata.py`).

    `diverged` is a column of yes and no, or `column=value,value`. Of a log of steps the number `at` some of them is
    judged: the `last`, the `best`, or the `mean:k` of the last k; `step` is the column that counts them, if its name
    does not say so. `name` takes names of runs apart, and `long` are the columns of metrics and values
    (`shapes.py`).
    """

    metrics: tuple[str, ...]
    by: str = "variant"
    pair: str = "seed"
    margin: str = "none"
    baseline: str | None = None
    confidence: float = 0.95
    family: Literal["metric", "page"] = "metric"
    path: bool = False
    groups: bool = False
    unpaired: bool = False
    ranks: bool = False
    diverged: str | None = None
    at: str | None = None
    step: str | None = None
    within: str | None = None
    inference: str | None = None
    name: str | None = None
    long: str | None = None
    floor: str | None = None
    sd: float | None = None

    @property
    def in_pairs(self) -> bool:
        """Return whether runs are compared with their partners."""
        return not self.unpaired and not self.ranks and self.floor is None and self.sd is None


def is_once(table: Table, column: str, option: str, problems: Problems, *ways: str) -> bool:
    """Return whether a table has a column once; note it if not, with the option that names it."""
    if column not in table.columns:
        message = f"{table.name} has no column {quote(column)}"
        problems.add_unknown(message, None, column, table.columns, f"{option} is one of its columns", notes=ways)
    elif table.columns.count(column) > 1:
        problems.add(f"{table.name} has two columns {quote(column)}", notes=("name them differently",))
    return table.columns.count(column) == 1


def read_metrics(table: Table, question: TableQuestion, problems: Problems) -> dict[str, Judged]:
    """Read the columns that are judged, and how; a column's own name may have colons."""
    if not question.metrics:
        ways = (f"--metric is one of its columns: {', '.join(table.columns)}",)
        problems.add(f"which column of {table.name} is to be judged?", notes=ways)
    metrics: dict[str, Judged] = {}
    for text in question.metrics:
        known = [column for column in table.columns if f"{text}:".startswith(f"{column}:")]
        name = max(known, key=len) if known else text.partition(":")[0]
        is_once(table, name, "--metric", problems)
        if name in metrics:
            problems.add(f"--metric {quote(name)} is given twice", notes=("give it once, with all its settings",))
        settings = text[len(name) + 1 :].split(":") if text != name else []
        metrics[name] = _judged(name, settings, question.margin, problems)
    return {name: judged for name, judged in metrics.items() if name in table.columns}


def _judged(name: str, settings: Sequence[str], margin: str, problems: Problems) -> Judged:
    """Return how a column is judged; wrong settings are noted, and left out."""
    chosen = {"scale": "linear", "better": "lower"}
    for setting in settings:
        if setting in SETTINGS:
            chosen[SETTINGS[setting]] = setting
        elif setting.startswith(MARGIN):
            margin = setting.removeprefix(MARGIN)
        else:
            message = f"--metric {name}:{setting}: {quote(setting)} is not a setting of a metric"
            problems.add_unknown(message, None, setting, (*SETTINGS, MARGIN), "the settings are")
    plain = margin.replace(" ", "")
    try:
        number = plain if plain == "none" or plain.endswith("%") else float(plain)
        return Judged.model_validate({"margin": number, **chosen})
    except (ValueError, ValidationError):
        ways = ("give a share of the baseline's mean such as 1%, a number above zero, or none",)
        problems.add(f"{quote(margin)} is not a margin of {name}", notes=ways)
        return Judged.model_validate({"margin": "none", **chosen})
