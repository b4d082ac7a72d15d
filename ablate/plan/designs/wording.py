"""What is said of a factorial: how its runs were chosen, what is left out, and what is mixed with what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from ablate.plan.designs.combinations import Chosen, Combinations
from ablate.plan.designs.regular import ROMAN, Generator, generators, resolution
from ablate.plan.designs.terms import MEAN, TOLERANCE, Levels, Term, columns, in_estimates, mains

LISTED = 16
"""More combinations than this are counted, not listed."""
ALIASES_LISTED = 60
"""So are more aliases than this."""
MEANINGS = {
    3: "an edit's effect is mixed with those of pairs",
    4: "no edit's effect is mixed with a pair's, but those of pairs are with each other",
}
"""What a resolution comes to; from V on neither is so."""
CLEAR = "effects of edits and of pairs are mixed with those of three and more alone"
THREES = "effects of three edits together are in estimates too: of so many edits they are not listed"


def every(edits: int) -> str:
    """Of a full factorial."""
    return f"every combination of {edits} edits, {2**edits} runs"


def remaining(edits: int, runs: int, efficiency: float) -> str:
    """Of a full factorial some of whose runs cannot be."""
    gone = 2**edits - runs
    return (
        f"{runs} of the {2**edits} combinations of {edits} edits: the other {gone} are refused, or the same model as "
        f"one of these, so that effects are not estimated independently (D-efficiency {efficiency:.0%})"
    )


def regular(levels: Levels, asked: str) -> str:
    """Of a regular fraction for the resolution that was asked for."""
    runs, edits = levels.shape
    found = resolution(levels)
    if found is None:
        return f"no fraction of {edits} edits has resolution {asked}: every combination, {runs} runs"
    meaning = MEANINGS.get(found, CLEAR)
    better = "" if ROMAN[found] == asked else f", better than the {asked} asked for in no more runs"
    return f"{runs} of the {2**edits} combinations of {edits} edits, resolution {ROMAN[found]}{better}: {meaning}"


def plackett_burman(levels: Levels) -> str:
    """Of Plackett and Burman's runs."""
    runs, edits = levels.shape
    text = f"Plackett and Burman's {runs} runs for {edits} edits"
    if 2**edits == runs:
        return f"{text}: every combination"
    found = resolution(levels)
    if found is not None:
        return f"{text}, resolution {ROMAN[found]}: {MEANINGS.get(found, CLEAR)}"
    if len(in_estimates(levels, mains(edits), most=2)) == edits * (edits - 1) * (edits - 2) // 2:
        return f"{text}: a part of each pair's effect is in that of every other edit"
    return f"{text}: a part of many pairs' effects is in those of other edits"


def generated(levels: Levels, among: Combinations) -> str:
    """The generators of a regular fraction, in words."""
    return "".join(f"; {_generator(one, among)}" for one in generators(levels))


def _generator(one: Generator, among: Combinations) -> str:
    """`D = +ABC` has D where none of an even number, or one or three, of A, B and C are there."""
    parity = (len(one.of) + (one.sign < 0)) % 2
    of = ", ".join(among.letters((i,)) for i in one.of)
    there = f"an {'odd' if parity else 'even'} number of {of} are there"
    if len(one.of) == 1:
        there = f"{of} is {'there' if one.sign > 0 else 'not'}"
    sign = "-" if one.sign < 0 else ""
    edit = among.letters((one.edit,))
    return f"{edit} = {sign}{among.letters(one.of)} ({edit} is there where {there})"


def instead(what: str, runs: int, candidates: int, efficiency: float) -> str:
    """Of D-optimal runs in the place of orthogonal ones."""
    return (
        f"asked for: {what}; some of these are refused or the same model however they are turned, so {runs} runs are "
        f"D-optimal among the {candidates} different models instead (D-efficiency {efficiency:.0%})"
    )


def optimal(runs: int, candidates: int, combinations: int, efficiency: float) -> str:
    """Of D-optimal runs."""
    among = f"the {candidates:,} different models looked at, of {combinations:,} combinations"
    return f"{runs} runs, D-optimal among {among} (D-efficiency {efficiency:.0%})"


def left_out(
    among: Combinations, distinct: Mapping[Chosen, Sequence[Chosen]], refused: Mapping[str, Sequence[Chosen]]
) -> tuple[str, ...]:
    """Which combinations cannot be, by reason, and which are the same model as another."""
    notes = [f"left out: {_listed(gone, among)} ({reason})" for reason, gone in refused.items()]
    same = {first: others for first, others in distinct.items() if others}
    if sum(map(len, same.values())) > LISTED:
        notes.append(f"the same model as one with fewer edits: {sum(map(len, same.values())):,} combinations")
    else:
        notes += [f"the same model: {_listed((first, *others), among)}" for first, others in same.items()]
    return tuple(notes)


def _listed(combinations: Sequence[Chosen], among: Combinations) -> str:
    if len(combinations) > LISTED:
        return f"{len(combinations):,} combinations"
    return ", ".join(among.letters(chosen) for chosen in combinations)


def not_estimated(
    levels: Levels, effects: Sequence[Term], dropped: Sequence[Term], among: Combinations
) -> Iterator[str]:
    """Effects that cannot be told from others, with these."""
    known = [MEAN, *effects]
    for term in dropped:
        weights = np.linalg.lstsq(columns(levels, known), columns(levels, [term]), rcond=None)[0][:, 0]
        of = [among.letters(t) for t, weight in zip(known, weights, strict=True) if t and abs(weight) > TOLERANCE]
        told = f"it cannot be told from {', '.join(of)}" if of else "it is the same in all of them"
        yield f"not estimated: {among.letters(term)}: in these runs {told}"


def not_in_base(dropped: Sequence[Term], among: Combinations) -> Iterator[str]:
    """Effects that the runs asked for would not have told either, so that others in their place are not made to."""
    if dropped:
        named = ", ".join(among.letters(term) for term in dropped)
        told = "it" if len(dropped) == 1 else "them"
        yield f"not estimated: {named}: the runs asked for do not tell {told} from others"


def mixed(aliases: Sequence[tuple[Term, Term, float]], among: Combinations) -> Iterator[str]:
    """The alias table on a line."""
    if len(aliases) > ALIASES_LISTED:
        most = max(abs(times) for _, _, times in aliases)
        yield f"in estimates besides (aliases): {len(aliases):,} effects, each at most {most:.3g} times"
    elif aliases:
        of: dict[Term, list[str]] = {}
        for term, other, times in aliases:
            of.setdefault(term, []).append(f"{times:+.3g} {among.letters(other)}")
        lines = "; ".join(f"in {among.letters(term)} {', '.join(others)}" for term, others in of.items())
        yield f"in estimates besides (aliases): {lines}"


def beside(names: Collection[str], among: Combinations) -> Iterator[str]:
    """What is trained and is no run, and what is not asked because it is none."""
    against = among.models.space.judge.against
    if against not in names:
        yield f"{against}, the baseline, is trained beside these runs"
    if among.ends.to not in names:
        yield f"{among.ends.to} is none of these runs: it is not compared with the baseline"
