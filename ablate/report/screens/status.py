"""The state of the trials of a results folder: the output of `ablate status`."""

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

from ablate.execute.executor import FAILED
from ablate.output import words
from ablate.output.terminal import Text
from ablate.plan.identity import SCHEME
from ablate.report import wording
from ablate.report.screens import interrupted
from ablate.store.snapshot import TrialStatus

UNDER_WAY = ("running", "dead", "paused")
LOST = ("missing", "damaged")
ORDER = ("finished", "diverged", "pruned", "bug", "out_of_memory", "timeout", "lost", *LOST, *UNDER_WAY, "waiting")
STYLES = {
    "running": "green",
    "dead": "bold red",
    "paused": "yellow",
    "diverged": "magenta",
    "bug": "red",
    "lost": "red",
    "missing": "bold red",
    "damaged": "bold red",
}


def screen(
    standings: Sequence[TrialStatus], results: Path, holder: str | None, open: Mapping[str, str] | None = None
) -> RenderableType:
    """Return for each space its trials by state, a row for each that is under way, and what to do if no run is active.

    `holder` says which run is writing there now; `open` are the spaces whose plans may still grow, and why.
    """
    parts: list[RenderableType] = [Text(f"a run is active: {holder}", style="green")] if holder else []
    for space, group in groupby(standings, key=lambda standing: standing.space):
        trials = list(group)
        parts += [_headline(space, trials), *_under_way(trials)]
        parts += () if holder else _advice(trials, results, why=(open or {}).get(space))
        parts += _of_earlier_identity(space, trials)
        parts += [Text(failure, style="yellow") for failure in failures(trials, results)]
    for space, why in (open or {}).items():
        if not any(standing.space == space for standing in standings):
            resume = "" if holder else f"; to resume: {interrupted.resume(space, results)}"
            parts.append(Text(f"{space}: no trials yet: {why}{resume}", "yellow"))
    return Group(*parts)


def as_json(standings: Sequence[TrialStatus]) -> str:
    """Return every trial as JSON."""
    return json.dumps([asdict(standing) for standing in standings], indent=2)


def failures(standings: Iterable[TrialStatus], results: Path) -> Iterator[str]:
    """Yield for each space with failed trials how many failed, how, and the command that retries them."""
    failed = [standing for standing in standings if standing.state in FAILED]
    for space in dict.fromkeys(standing.space for standing in failed):
        kinds = wording.failed(standing.state for standing in failed if standing.space == space)
        yield f"{space}: {kinds}; to retry them: {interrupted.retry(space, results)}"


def _headline(space: str, trials: Sequence[TrialStatus]) -> Text:
    text = Text.assemble((space, "bold"), ": ")
    counts = Counter(trial.state for trial in trials)
    for place, state in enumerate(sorted(counts, key=ORDER.index)):
        text.append(", " if place else "").append(f"{counts[state]} {state}", style=STYLES.get(state, ""))
    return text.append(f", of {words.plural(len(trials), 'trial')}")


def _under_way(trials: Sequence[TrialStatus]) -> Iterator[RenderableType]:
    shown = [trial for trial in trials if trial.state in UNDER_WAY]
    if not shown:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("variant", overflow="fold")
    for heading in ("seed", "state", "step", "resumes from", "worker", "last heard"):
        table.add_column(heading, justify="right" if heading in ("seed", "step", "resumes from") else "left")
    for trial in shown:
        table.add_row(
            trial.variant,
            str(trial.seed),
            Text(trial.state, style=STYLES[trial.state]),
            f"{trial.step}/{trial.steps}",
            "the beginning" if trial.saved is None else str(trial.saved),
            trial.worker,
            "" if trial.silent is None else f"{_ago(trial.silent)} ago",
        )
    yield table


def _of_earlier_identity(space: str, trials: Sequence[TrialStatus]) -> Iterator[Text]:
    """Yield how many trials were identified by an earlier version of ablate, whose results are not reused."""
    earlier = sum(trial.scheme < SCHEME for trial in trials)
    if earlier:
        which = "all of them have" if earlier == len(trials) else f"{words.plural(earlier, 'trial')} of them have"
        yield Text(
            f"{which} an identity of an earlier version of ablate: their results are kept, for SQL; "
            f"`ablate run {space}` trains them anew",
            style="yellow",
        )


def _advice(trials: Sequence[TrialStatus], results: Path, *, why: str | None) -> Iterator[Text]:
    """Yield how to resume; also if all known trials have ended but the plan may still grow, for the reason `why`."""
    states = {trial.state for trial in trials}
    if "running" not in states and (why or states & {"lost", *LOST, "dead", "paused", "waiting"}):
        yield Text(
            f"{why or 'no worker is running'}; to resume: {interrupted.resume(trials[0].space, results)}",
            style="yellow",
        )


def _ago(seconds: float) -> str:
    return f"{max(0.0, seconds):.1f} s" if seconds < 60 else words.duration(seconds)
