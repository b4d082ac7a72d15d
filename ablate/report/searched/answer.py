"""The answer of a search and its caveats, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ablate.output.words import of_profile, plural, spoken
from ablate.report.searched.analysis import SearchAnalysis
from ablate.report.searched.confirmation import RemainingShares, improved, remaining_shares, verdicts
from ablate.report.searched.record import SearchObjective, SearchRecord

OUTCOMES = {
    "finished": "finished",
    "diverged": "diverged",
    "pruned": "pruned",
    "paused": "waiting at a rung",
    "out_of_memory": "out of memory",
    "bug": "ended by a bug",
    "timeout": "timed out",
    "lost": "lost with its workers",
    "interrupted": "interrupted",
}


def headline(record: SearchRecord) -> tuple[str, str]:
    over = f"search from {record.reference} over {record.grammar} ({count(record.derivations)} derivations)"
    if record.varied:
        over += f" and the values at {len(record.varied)} {'address' if len(record.varied) == 1 else 'addresses'}"
    seeds = f"{'seed' if len(record.seeds) == 1 else 'seeds'} {', '.join(map(str, record.seeds))}"
    how = [f"{record.sampler} from seed {record.seed}", f"trained at {seeds}", f"{record.parallel} at a time"]
    if record.pruner != "none":
        how.insert(1, record.pruner)
    return " · ".join((record.space, *of_profile(record.profile), over)), " · ".join(how)


def count(number: int) -> str:
    """Return a count, however large: `1,234`, `2.15e+20`."""
    return f"{number:,}" if number < 10**9 else f"{Decimal(number):.2e}"


def unfinished(record: SearchRecord) -> str:
    if not record.partial:
        return ""
    if record.chosen:
        return "The search is over, its confirmation is not: everything below is from the search alone."
    return f"Not over: {record.spent} spent of {record.budget}. Everything below is preliminary."


def answers(record: SearchRecord, analysis: SearchAnalysis) -> list[str]:
    return [_searched(record, analysis), *_confirmed(record)]


def _searched(record: SearchRecord, analysis: SearchAnalysis) -> str:
    seeds = f"{plural(len(record.seeds), 'seed')} each"
    if not record.entries:
        return "Nothing has been trained yet."
    if analysis.reference is None:
        became = OUTCOMES.get(record.entries[0].outcome, record.entries[0].outcome)
        return (
            f"The reference {record.reference} has no result to compare with ({became}): which blocks beat it is "
            f"unknown. {_ended(record, analysis)}."
        )
    among = len(analysis.compared) - 1
    if among == 0:
        return f"No block finished, so none can be compared with {record.reference}. {_ended(record, analysis)}."
    number, subject = len(analysis.beating), f"of the {plural(among, 'block')} that finished"
    goal = together(record.objectives)
    if number == 0:
        alone = ", ".join(
            f"{len(better)} on {spoken(objective.metric)}"
            for objective, better in zip(record.objectives, analysis.better_in, strict=True)
        )
        alone = f" ({alone})" if len(record.objectives) > 1 else ""
        return f"None {subject} beats {record.reference} on {goal} in the search{alone}, at {seeds}."
    verb = "beats" if number == 1 else "beat"
    return f"{number} {subject} {verb} {record.reference} on {goal} in the search, at {seeds}."


def _ended(record: SearchRecord, analysis: SearchAnalysis) -> str:
    outcomes = ", ".join(f"{n} {OUTCOMES.get(kind, kind)}" for kind, n in record.outcomes.most_common())
    strange = len(analysis.incomparable)
    without = f"; {strange} of those that finished with a value that cannot be compared" if strange else ""
    return (
        f"Of {plural(len(record.trained), 'block')} trained: {outcomes}{without}"
        if outcomes
        else "No block was trained"
    )


def together(objectives: Sequence[SearchObjective]) -> str:
    """Return the objectives as one phrase: `eval loss`, `both eval loss and peak kurtosis`."""
    names = [spoken(objective.metric) for objective in objectives]
    if len(names) == 1:
        return names[0]
    return ("both " if len(names) == 2 else "all of ") + ", ".join(names[:-1]) + f" and {names[-1]}"


def _confirmed(record: SearchRecord) -> list[str]:
    seeds = plural(len(record.confirm_seeds), "fresh seed")
    if record.confirmed is None:
        if record.chosen:
            on = f" To resume: {record.again}" if record.partial else ""
            return [f"Chosen for confirmation at {seeds}, not done yet: {', '.join(record.chosen)}.{on}"]
        return ["Nothing is confirmed at fresh seeds: a block found here is a candidate, not a finding."]
    if not record.chosen:
        return ["There was no block to confirm at fresh seeds."]
    all_of = "" if len(record.objectives) == 1 else "both, " if len(record.objectives) == 2 else "all, "
    results = {name: _verdicts(record, name) for name in record.chosen}
    won = [name for name, (all_better, _) in results.items() if all_better]
    others = [f"{name} {words}" for name, (all_better, words) in results.items() if not all_better]
    opening = f"Of the {len(record.chosen)} best, confirmed at {seeds}, "
    if len(record.chosen) == 1:
        opening = f"Confirmed at {seeds}: "
    if won:
        verb = "is" if len(won) == 1 else "are"
        opening += f"{', '.join(won)} {verb} better than {record.reference} on {together(record.objectives)}"
    else:
        opening += f"none was found better than {record.reference} on {all_of or 'it, '}".removesuffix(", ")
    diverged = [arm for arm in record.confirmed.arms if arm.diverged]
    lost = [f"{arm.name} diverged at {arm.diverged} of {plural(arm.ended, 'seed')}" for arm in diverged]
    return ["; ".join((opening, *others, *lost)) + "."]


def _verdicts(record: SearchRecord, name: str) -> tuple[bool, str]:
    """Return whether a block is better in every objective, and its verdicts in words."""
    effects = verdicts(record, name)
    words = ", ".join(f"{spoken(effect.verdict)} on {spoken(effect.metric)}" for effect in effects)
    words = f"is {words}" if effects else "has no result"
    return len(effects) == len(record.objectives) and all(improved(effect, record) for effect in effects), words


def warnings(record: SearchRecord, analysis: SearchAnalysis) -> list[str]:
    lines = [*record.mixed]
    if len(record.trained) > 1 and any(place > 0 for place in analysis.compared):
        lines.append(
            f"selection: the best of {len(record.trained)} blocks at {plural(len(record.seeds), 'seed')} are partly "
            "lucky; expect less of them at other seeds (winner's curse)"
        )
    if remained := [_share_in_words(objective) for objective in remaining_shares(record)]:
        lines.append(
            f"of the advantages over {record.reference} seen in the search, this remained at the fresh seeds: "
            f"{'; '.join(remained)}"
        )
    if analysis.reference is not None and len(analysis.compared) < len(record.entries):
        lines.append(f"not compared: {_left_out(record, analysis)}")
    return lines + _strangers(record, analysis)


def _share_in_words(retained: RemainingShares) -> str:
    """Return `81 to 87 % over 3 blocks in eval loss`, or that there was no advantage to lose."""
    where, n = spoken(retained.objective.metric), len(retained.shares)
    if not n:
        return f"in {where} {'no confirmed block had any' if retained.judged > 1 else 'it had none'}"
    low, high = (f"{100 * share:.0f}" for share in (retained.shares[0], retained.shares[-1]))
    span = low if low == high else f"{low} to {high}"
    return f"{span} % over {plural(n, 'block')} in {where}"


def _strangers(record: SearchRecord, analysis: SearchAnalysis) -> list[str]:
    others = record.strangers
    if not others:
        return []
    on_front = {record.entries[place].number for place in analysis.front}
    shown = [entry.name for entry in others if entry.number in on_front or entry.name in record.chosen]
    among = f", among them {', '.join(shown)}" if shown else ""
    verb = "was" if len(others) == 1 else "were"
    return [
        f"{plural(len(others), 'block')} of {len(record.trained)} {verb} trained with other versions or on another "
        f"device than {record.reference}{among}: a difference may be due to that (marked on the page, in the table of "
        "every block)"
    ]


def _left_out(record: SearchRecord, analysis: SearchAnalysis) -> str:
    kinds = [f"{n} {OUTCOMES.get(kind, kind)}" for kind, n in record.outcomes.most_common() if kind != "finished"]
    if strange := [place for place in analysis.incomparable if place > 0]:
        kinds.append(f"{len(strange)} finished with a value that is not finite, or has no logarithm")
    return ", ".join(kinds)
