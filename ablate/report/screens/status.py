"""How the trials of a results folder stand: what `ablate status` shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from ablate.execute.policy import FAILED
from ablate.output import words
from ablate.output.terminal import Text
from ablate.plan.identity import SCHEME
from ablate.report import wording
from ablate.report.screens import interrupted
from ablate.store.trial_status import TrialStatus

UNDER_WAY = ("running", "dead", "paused")
ORDER = ("finished", "diverged", "pruned", "bug", "out_of_memory", "timeout", "lost", *UNDER_WAY, "waiting")
STYLES = {
    "running": "green",
    "dead": "bold red",
    "paused": "yellow",
    "diverged": "magenta",
    "bug": "red",
    "lost": "red",
}


def screen(
    standings: Sequence[TrialStatus], results: Path, holder: str | None, open: Mapping[str, str] | None = None
) -> RenderableType:
    """For each space how many trials stand how; a row for each that is under way; what to do where nobody is at it.

    `holder` says which run is writing there now; `open` are the spaces whose plans may grow yet, and why.
    """
    parts: list[RenderableType] = [Text(f"a run is at it: {holder}", style="green")] if holder else []
    for space, group in groupby(standings, key=lambda one: one.space):
        trials = list(group)
        parts += [_headline(space, trials), *_under_way(trials)]
        parts += () if holder else _advice(trials, results, why=(open or {}).get(space))
        parts += _of_earlier_identity(space, trials)
        parts += [Text(said, style="yellow") for said in failures(trials, results)]
    return Group(*parts)


def as_json(standings: Sequence[TrialStatus]) -> str:
    """Every trial, as JSON."""
    return json.dumps([asdict(one) for one in standings], indent=2)


def failures(standings: Iterable[TrialStatus], results: Path) -> Iterator[str]:
    """Of each space with trials that failed: how many, how, and the command that tries them again."""
    failed = [one for one in standings if one.state in FAILED]
    for space in dict.fromkeys(one.space for one in failed):
        kinds = wording.failed(one.state for one in failed if one.space == space)
        yield f"{space}: {kinds}; to try again what failed: {interrupted.retry(space, results)}"


def _headline(space: str, trials: Sequence[TrialStatus]) -> Text:
    text = Text.assemble((space, "bold"), ": ")
    counts = Counter(one.state for one in trials)
    for place, state in enumerate(sorted(counts, key=ORDER.index)):
        text.append(", " if place else "").append(f"{counts[state]} {state}", style=STYLES.get(state, ""))
    return text.append(f", of {words.plural(len(trials), 'trial')}")


def _under_way(trials: Sequence[TrialStatus]) -> Iterator[RenderableType]:
    shown = [one for one in trials if one.state in UNDER_WAY]
    if not shown:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("variant", overflow="fold")
    for heading in ("seed", "state", "step", "goes on from", "worker", "last heard"):
        table.add_column(heading, justify="right" if heading in ("seed", "step", "goes on from") else "left")
    for one in shown:
        table.add_row(
            one.variant,
            str(one.seed),
            Text(one.state, style=STYLES[one.state]),
            f"{one.step}/{one.steps}",
            "the beginning" if one.saved is None else str(one.saved),
            one.worker,
            "" if one.silent is None else f"{_ago(one.silent)} ago",
        )
    yield table


def _of_earlier_identity(space: str, trials: Sequence[TrialStatus]) -> Iterator[Text]:
    """Name the trials that another version of this program identified otherwise: nothing of them is taken over."""
    earlier = sum(trial.scheme < SCHEME for trial in trials)
    if earlier:
        which = "all of them have" if earlier == len(trials) else f"{words.plural(earlier, 'trial')} of them have"
        yield Text(
            f"{which} an identity of an earlier version of ablate: their results stay, and are read by SQL; "
            f"`ablate run {space}` trains them anew",
            style="yellow",
        )


def _advice(trials: Sequence[TrialStatus], results: Path, *, why: str | None) -> Iterator[Text]:
    """What may grow yet goes on also where all of its trials that are known have ended; `why` says what that is."""
    states = {one.state for one in trials}
    if "running" not in states and (why or states & {"lost", "dead", "paused", "waiting"}):
        yield Text(
            f"{why or 'no worker is at it'}; to go on: ablate resume {trials[0].space} --results {results}",
            style="yellow",
        )


def _ago(seconds: float) -> str:
    return f"{max(0.0, seconds):.1f} s" if seconds < 60 else words.duration(seconds)
