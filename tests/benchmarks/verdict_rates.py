"""Every promised rate of verdicts beside the rate found, with noise of real trainings: one page.

    cd tests/benchmarks && PYTHONPATH=../support python verdict_rates.py --kept rates.jsonl > DATE-verdict_rates.md

Takes about 7 minutes of one core; `--share 0.1` draws a tenth of the tables. What was drawn is kept in a file, and
another call goes on from there. The noise is that of the newest `results/bench/*-training_noise.jsonl` (see
`training_noise.py`); the rows are those of `tests/support/verdict_rows.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import numpy as np
from kept_noise import Trained, newest, trained
from search_winners import Winner, every_winner
from verdict_rows import (
    ADD,
    COMPARED,
    EDITS,
    LOSS,
    ROWS,
    WON,
    Found,
    Row,
    broken,
    counted,
    of_as_many_normal_seeds,
    only,
    tables_of,
)

from ablate.statistics import wilson
from ablate.store.machines import installed

COLUMNS = ("", "promised", "said in", "found", "of tables", "95 % interval", "worst", "broken on purpose", "")
NOT_YET = (
    "more seeds than twenty (`training_noise.py --seeds`): rates of A/A would be told within less than the range above",
    "tuning itself: the choice by two seeds is drawn here, not made by a run",
    "how often the advised +k seeds decide, which is promised to nobody as a rate",
    "factorials of more than three edits, fractional and optimal designs",
    "ladders that are not paired, with looks, or judged by `law: saturating`",
    "searches with several objectives, pruners or several seeds",
)


def means_of(spaces: Sequence[Trained], searches: int) -> dict[str, list[float]]:
    """Of each sampler the number of winners, and the mean of what was promised, confirmed, and true."""
    (space,) = only(spaces, "masked_words")
    came: dict[str, list[Winner]] = {}
    for winner in every_winner(space, searches):
        came.setdefault(winner.sampler, []).append(winner)
    named = ("promised", "confirmed", "true")
    return {name: [len(of), *(fmean(getattr(one, part) for one in of) for part in named)] for name, of in came.items()}


def normal_sets(asked: argparse.Namespace, spaces: Sequence[Trained]) -> dict[str, list[float]]:
    """The rates of sets of normal seeds, of `compare` and of `add_one_in`, from the file or drawn now."""
    name = "sets of normal seeds"
    if (line := kept(asked).get(name)) is None:
        began, share = time.process_time(), asked.share
        sets, times = max(3, round(30 * share)), max(10, round(400 * share))
        rates = {
            "compare": of_as_many_normal_seeds(only(spaces, *COMPARED), sets, times // 3),
            "add_one_in": of_as_many_normal_seeds(only(spaces, *EDITS), sets, times, design=ADD),
        }
        line = {"row": name, "rates": rates, "seconds": time.process_time() - began}
        keep(asked, line)
    return line["rates"]


def kept(asked: argparse.Namespace) -> dict[str, dict]:
    """What the file holds, by row."""
    lines = asked.kept.read_text(encoding="utf-8").splitlines() if asked.kept.exists() else []
    return {line["row"]: line for line in map(json.loads, lines)}


def keep(asked: argparse.Namespace, line: dict) -> None:
    """Add to the file, and say it."""
    print(json.dumps(line), file=sys.stderr, flush=True)
    with asked.kept.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def draw(asked: argparse.Namespace, spaces: Sequence[Trained]) -> Iterator[dict]:
    """What came of each row, from the file that keeps it or drawn now."""
    known = kept(asked)
    for row in ROWS:
        if row.name not in known:
            began = time.process_time()
            came = counted(row, spaces, asked.share)
            means = means_of(spaces, tables_of(row, asked.share)) if row is WON else {}
            line = {"row": row.name, "hits": came.hits, "twins": came.twins, "tables": came.tables}
            line |= {"by_source": came.by_source, "means": means, "seconds": time.process_time() - began}
            keep(asked, line)
            known[row.name] = json.loads(json.dumps(line))
        yield known[row.name]


def cells(row: Row, came: Found) -> tuple[str, ...]:
    """A row of the table."""
    low, high = wilson(came.hits, came.tables)
    name, share = came.worst(least=row.least)
    alone = len(came.by_source) == 1
    beyond = broken(row.promise, came.hits, came.tables, least=row.least)
    seen = broken(row.promise, came.twins, came.tables, least=row.least)
    return (
        row.name,
        f"{'≥' if row.least else '≤'} {100 * row.promise:g} %",
        row.where,
        f"**{100 * came.rate:.1f} %**" if beyond else f"{100 * came.rate:.1f} %",
        f"{came.hits} of {came.tables}",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        "" if alone else f"{name}: {100 * share:.1f} %",
        f"{row.broken}: {100 * came.twins / came.tables:.1f} %{'' if seen else ' (not noticed)'}",
        ("below" if row.least else "above") if beyond else "held",
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def noise_table(spaces: Sequence[Trained]) -> Iterator[str]:
    """What was trained, and what its differences look like."""
    rows = []
    for space in spaces:
        residuals = space.residuals(LOSS)
        d = np.array([residuals[after] - residuals[before] for before, after in space.compared])
        z = d / d.std(axis=1, keepdims=True)
        skews, tails = (z**3).mean(axis=1), (z**4).mean(axis=1)
        shown = (f"{d.std(axis=1).min():.3g} to {d.std(axis=1).max():.3g}", f"{skews.min():.1f} to {skews.max():.1f}")
        rows.append(
            (space.name, str(len(space.arms)), str(space.seeds), str(space.pairs), *shown, f"{tails.max():.1f}")
        )
    head = ("space", "arms", "seeds", "pairs", "sd of differences in loss", "skewness", "greatest kurtosis")
    yield from table(head, rows)


def of_source(pair: tuple[str, Sequence[int]]) -> tuple[str, tuple[int, int]]:
    """A source with its hits and tables, as they are kept."""
    name, (hits, tables) = pair
    return name, (hits, tables)


def page(
    spaces: Sequence[Trained], lines: Sequence[dict], sets: dict[str, list[float]], source: Path, share: float
) -> Iterator[str]:
    """The page."""
    rows = {row.name: row for row in ROWS}
    came = {
        line["row"]: Found(line["hits"], line["twins"], line["tables"], dict(map(of_source, line["by_source"].items())))
        for line in lines
    }
    versions, seconds = installed(), sum(line["seconds"] for line in lines)
    yield "# Are the promised rates of verdicts kept?\n"
    part = "" if share == 1 else f" --share {share:g}"
    yield (
        f"{datetime.now(UTC):%Y-%m-%d}, `tests/benchmarks/verdict_rates.py{part}`, "
        f"{seconds / 60:.0f} minutes of one core ({versions['cpu']}, Python {versions['python']}). "
        f"Noise: `{source.name}`, {sum(space.pairs for space in spaces)} paired differences of five spaces of real "
        "trainings, each arm less its mean; a table takes whole seeds, each once, with their signs turned at random. "
        "Every table goes through the judge, or through a results folder and the judge, and counts once. A rate is "
        "above its promise where Wilson's 95 % interval is; beside it stands what the same tables come to if they are "
        "judged wrongly on purpose.\n"
    )
    yield from table(COLUMNS, (cells(rows[name], found) for name, found in came.items()))
    beyond = [name for name, f in came.items() if broken(rows[name].promise, f.hits, f.tables, least=rows[name].least)]
    yield "\n## Beyond their promise\n"
    for reason in dict.fromkeys(rows[name].reason for name in beyond):
        names = [name for name in beyond if rows[name].reason == reason]
        yield f"- **{'; '.join(names)}**: {reason or 'the reason is not known yet.'}"
    if not beyond:
        yield "None."
    yield "\n## How far twenty seeds tell\n"
    of = "; ".join(
        f"`{design}`: {100 * rates[0]:.1f} to {100 * rates[-1]:.1f} %, {100 * fmean(rates):.1f} % on average"
        for design, rates in sets.items()
    )
    count = len(sets["compare"])
    yield (
        "Wilson's interval is over tables, not over seeds: another twenty seeds have another rate. Rates of A/A at 5 "
        f"seeds of {count} sets of as many seeds of normal noise with the same covariance: {of}. A rate within these "
        "says nothing against the promise; one above them is no matter of which seeds were drawn."
    )
    yield "\n## The winner's curse\n"
    yield (
        "The three best of 16 proposals of a search, against the reference, in sd of a difference's noise (that of the "
        "truth is as large); lower is better. Promised: as the search saw them. Confirmed: at five fresh seeds.\n"
    )
    means = next(line["means"] for line in lines if line["row"] == WON.name)
    head = ("sampler", "winners", "promised", "confirmed", "in truth", "of the promise")
    shown = (
        (name, f"{n:.0f}", f"{seen:.2f}", f"{fresh:.2f}", f"{true:.2f}", f"{100 * fresh / seen:.0f} %")
        for name, (n, seen, fresh, true) in means.items()
    )
    yield from table(head, shown)
    yield "\n## The noise\n"
    yield from noise_table(spaces)
    yield "\n## Not here yet\n"
    yield from (f"- {what}" for what in NOT_YET)


def main() -> None:
    """Draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--noise", type=Path, default=newest())
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--kept", type=Path, required=True)
    asked = parser.parse_args()
    spaces = trained(asked.noise)
    lines = list(draw(asked, spaces))
    print(*page(spaces, lines, normal_sets(asked, spaces), asked.noise, asked.share), sep="\n")


if __name__ == "__main__":
    main()
