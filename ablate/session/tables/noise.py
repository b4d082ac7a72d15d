"""The noise that single runs of a table are judged by: that of a variant with several runs, or a given number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ablate.output.words import plural
from ablate.session.tables.question import TableQuestion
from ablate.session.tables.runs import TableRuns
from ablate.source.problems import Problems, quote
from ablate.space.documents import Judged
from ablate.statistics import KnownNoise
from ablate.store.table_files import Table


def noise_of(
    table: Table, question: TableQuestion, metrics: Mapping[str, Judged], runs: TableRuns, problems: Problems
) -> dict[str, KnownNoise]:
    """Return the noise that runs are judged by, of each metric, where a floor or a number gives it."""
    group, sd = question.floor, question.sd
    if group is not None and sd is not None:
        problems.add("--floor and --sd both say what the noise is", notes=("give one of them",))
    elif sd is not None:
        if not (0 < sd < math.inf and len(metrics) == 1):
            why = "it is of one metric" if len(metrics) > 1 else "a standard deviation is above 0"
            problems.add(f"--sd {sd:g}: {why}", notes=("--floor names a variant whose runs tell that of each metric",))
            return {}
        of = {
            name: f" of logarithms (×÷ {math.exp(min(sd, 700)):.3g})" for name, j in metrics.items() if j.scale == "log"
        }
        return {
            name: KnownNoise(sd=sd, df=math.inf, whose=f"a given sd of {sd:g}{of.get(name, '')}") for name in metrics
        }
    if group is None or sd is not None:
        return {}
    ends = [end.final["metrics"] for run, end in runs.ends.items() if run.variant == group]
    if not ends:
        known = list(dict.fromkeys(run.variant for run in runs.ends))
        message = f"no {question.by} {quote(group)} in {table.name}"
        problems.add_unknown(message, None, group, known, "--floor is one of")
    noise: dict[str, KnownNoise] = {}
    for name, judged in metrics.items() if ends else ():
        values, log = [metric[name] for metric in ends if name in metric], judged.scale == "log"
        try:
            told = KnownNoise.of(values, log=log)
        except ValueError:
            few = f"{group} has {plural(len(values), 'run')} with a {name}"
            same = f"the {len(values)} runs of {group} have the same {name}" if len(values) > 1 else few
            problems.add(f"--floor {group}: {same}, which tells no noise", notes=("--sd gives it as a number",))
        else:
            shown = f"×÷ {math.exp(told.sd):.3g}" if log else f"{told.sd:.2g}"
            noise[name] = replace(told, whose=f"the noise of {plural(len(values), 'run')} of {group}, sd {shown}")
    return noise
