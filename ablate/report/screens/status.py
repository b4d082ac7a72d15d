"""The state of the trials of a results folder, as `ablate status` shows it; and runs that did not simply finish."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from ablate.execute.executor import FAILED
from ablate.output.terminal import Text
from ablate.output.words import duration, plural
from ablate.plan.identity import SCHEME
from ablate.plan.plan import Plan, Trial
from ablate.report import wording
from ablate.train.events import GOES_ON, Outcome

if TYPE_CHECKING:
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
    """For each space its trials by state, a row for each under way, and what to do if no run is active.

    `holder` says which run is writing; `open` are the spaces whose plans may still grow, and why.
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
            advice = "" if holder else f"; to resume: {resume(space, results)}"
            parts.append(Text(f"{space}: no trials yet: {why}{advice}", "yellow"))
    return Group(*parts)


def as_json(standings: Sequence[TrialStatus]) -> str:
    return json.dumps([asdict(standing) for standing in standings], indent=2)


def failures(standings: Iterable[TrialStatus], results: Path) -> Iterator[str]:
    failed = [standing for standing in standings if standing.state in FAILED]
    for space in dict.fromkeys(standing.space for standing in failed):
        kinds = wording.failed(standing.state for standing in failed if standing.space == space)
        yield f"{space}: {kinds}; to retry them: {retry(space, results)}"


def _headline(space: str, trials: Sequence[TrialStatus]) -> Text:
    text = Text.assemble((space, "bold"), ": ")
    counts = Counter(trial.state for trial in trials)
    for place, state in enumerate(sorted(counts, key=ORDER.index)):
        text.append(", " if place else "").append(f"{counts[state]} {state}", style=STYLES.get(state, ""))
    return text.append(f", of {plural(len(trials), 'trial')}")


def _under_way(trials: Sequence[TrialStatus]) -> Iterator[RenderableType]:
    shown = [trial for trial in trials if trial.state in UNDER_WAY]
    if not shown:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("variant", overflow="fold")
    for heading in ("seed", "state", "step", "resumes from", "worker", "last heard"):
        table.add_column(heading, justify="right" if heading in ("seed", "step", "resumes from") else "left")
    for trial in shown:
        silent = trial.silent or 0.0
        ago = f"{max(0.0, silent):.1f} s" if silent < 60 else duration(silent)
        table.add_row(
            trial.variant,
            str(trial.seed),
            Text(trial.state, style=STYLES[trial.state]),
            f"{trial.step}/{trial.steps}",
            "the beginning" if trial.saved is None else str(trial.saved),
            trial.worker,
            "" if trial.silent is None else f"{ago} ago",
        )
    yield table


def _of_earlier_identity(space: str, trials: Sequence[TrialStatus]) -> Iterator[Text]:
    earlier = sum(trial.scheme < SCHEME for trial in trials)
    if earlier:
        which = "all of them have" if earlier == len(trials) else f"{plural(earlier, 'trial')} of them have"
        yield Text(
            f"{which} an identity of an earlier version of ablate: their results are kept, for SQL; "
            f"`ablate run {space}` trains them anew",
            style="yellow",
        )


def _advice(trials: Sequence[TrialStatus], results: Path, *, why: str | None) -> Iterator[Text]:
    """The command that resumes, also if all known trials ended but the plan may still grow, for the reason `why`."""
    states = {trial.state for trial in trials}
    if "running" not in states and (why or states & {"lost", *LOST, "dead", "paused", "waiting"}):
        yield Text(
            f"{why or 'no worker is running'}; to resume: {resume(trials[0].space, results)}",
            style="yellow",
        )


# A run that did not simply finish: it was stopped by its user, or trials failed.

REASONS = 3


class RunEnd(Protocol):
    """The end of a run, as these messages need it: trials by kind of outcome, and how many were not started."""

    @property
    def kinds(self) -> Mapping[str, int]: ...

    @property
    def waiting(self) -> int: ...


def stopped(ended: RunEnd, *, again: str, searching: bool = False, grows: bool = False) -> str:
    """Return the message after Ctrl-C: what is done, what is saved, what waits, and the command that resumes.

    The number of trials not started is unknown while `searching`, since rungs prune, and if the plan `grows`.
    """
    done = sum(count for kind, count in ended.kinds.items() if kind not in GOES_ON)
    parts = [f"{plural(done, 'trial')} ended", f"{ended.kinds.get('interrupted', 0)} left in progress"]
    parts += [f"{paused} waiting at a rung"] if (paused := ended.kinds.get("paused", 0)) else []
    left = "the search resumes from there" if searching else f"{ended.waiting} not started{', more may follow' * grows}"
    return f"stopped: {', '.join(parts)}{'; ' if searching else ', '}{left}. To resume:\n  {again}"


def failed_trials(plan: Plan, failed: Iterable[tuple[Trial, Outcome]], results: Path) -> str:
    return "\n".join((*_failed_trials(plan, failed), *_ways_on(plan, results)))


def _failed_trials(plan: Plan, failed: Iterable[tuple[Trial, Outcome]]) -> Iterator[str]:
    for trial, outcome in failed:
        where = f"{plan.variant(trial.variant).name}, seed {trial.seed}, step {outcome.step}"
        yield f"failed ({outcome.kind}): {where}: {_error(outcome)}"


def _error(outcome: Outcome) -> str:
    return str(outcome.detail.get("error") or outcome.detail.get("cause") or outcome.kind)


def _ways_on(plan: Plan, results: Path) -> tuple[str, str]:
    kinds = ", ".join(f"'{kind}'" for kind in FAILED)
    statement = f"SELECT trial_id, status, detail FROM trials WHERE status IN ({kinds})"
    return (
        f'their details: ablate sql "{statement}" --results {results}',
        f"to retry them, after fixing the cause: {retry(plan.space, results)}",
    )


def nothing_gained(plan: Plan, failed: Sequence[tuple[Trial, Outcome]], results: Path, *, before: bool = False) -> str:
    """Return the message for a run whose trials all failed, or had all failed `before`.

    Each reason is given once, the most common first.
    """
    reasons = Counter(_error(outcome) for _, outcome in failed).most_common()
    shown = [f"{reason}{f' ({number} times)' if number > 1 else ''}" for reason, number in reasons[:REASONS]]
    more = [f"and {plural(len(reasons) - REASONS, 'other reason')}"] if len(reasons) > REASONS else []
    kinds = wording.failed(outcome.kind for _, outcome in failed)
    message = f"every trial that {plan.space} was to train failed ({kinds})"
    if before:
        message = f"nothing was trained: every trial of {plan.space} is known to have failed ({kinds})"
    return "\n  = ".join((message, *shown, *more, *_ways_on(plan, results)))


def retry(space: str, results: Path) -> str:
    return shlex.join(("ablate", "retry", space, "--results", str(results)))


def resume(space: str, results: Path) -> str:
    return shlex.join(("ablate", "resume", space, "--results", str(results)))
