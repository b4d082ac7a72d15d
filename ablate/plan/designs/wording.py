"""Descriptions of a factorial: how its runs were chosen, what is left out, and which effects are confounded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from ablate.output.words import listed
from ablate.plan.designs.combinations import Chosen, Combinations
from ablate.plan.designs.regular import ROMAN, Generator, generators, resolution
from ablate.plan.designs.terms import MEAN, TOLERANCE, Levels, Term, columns, in_estimates, mains

LISTED = 16
"""More combinations than this are counted, not listed."""
ALIASES_LISTED = 60
"""More aliases than this are counted, not listed."""
MEANINGS = {
    3: "effects of edits are confounded with those of pairs",
    4: "effects of edits are not confounded with those of pairs, but those of pairs are with each other",
}
"""The meaning of a resolution; from V on neither holds."""
CLEAR = "effects of edits and of pairs are confounded only with those of three or more edits"
THREES = "estimates also contain effects of three edits: with this many edits they are not listed"


def every(edits: int) -> str:
    """Describe a full factorial."""
    return f"every combination of {edits} edits, {2**edits} runs"


def every_level(what: str, runs: int) -> str:
    """Describe a full factorial of edits and levels."""
    return f"every combination of {what}, {runs} runs"


def axes(logarithmic: Sequence[str]) -> Iterator[str]:
    """Describe the factors whose trend is along a logarithmic axis."""
    if logarithmic:
        levels = "their levels are" if len(logarithmic) > 1 else "its levels are"
        yield (f"the trend of {listed(logarithmic)} is along a logarithmic axis, on which {levels} more evenly spaced")


def remaining_levels(what: str, every: int, runs: int) -> str:
    """Describe a full factorial of edits and levels some of whose runs are not possible."""
    gone = every - runs
    return (
        f"{runs} of the {every} combinations of {what}: the other {gone} are refused, or the same model as one of "
        "these, so effects are not estimated independently"
    )


def remaining(edits: int, runs: int, efficiency: float) -> str:
    """Describe a full factorial some of whose runs are not possible."""
    gone = 2**edits - runs
    return (
        f"{runs} of the {2**edits} combinations of {edits} edits: the other {gone} are refused, or the same model as "
        f"one of these, so effects are not estimated independently (D-efficiency {efficiency:.0%})"
    )


def regular(levels: Levels, requested: str) -> str:
    """Describe a regular fraction for the requested resolution."""
    runs, edits = levels.shape
    reached = resolution(levels)
    if reached is None:
        return f"no fraction of {edits} edits has resolution {requested}: every combination, {runs} runs"
    meaning = MEANINGS.get(reached, CLEAR)
    better = "" if ROMAN[reached] == requested else f", better than the requested {requested} at no more runs"
    return f"{runs} of the {2**edits} combinations of {edits} edits, resolution {ROMAN[reached]}{better}: {meaning}"


def plackett_burman(levels: Levels) -> str:
    """Describe Plackett and Burman's runs."""
    runs, edits = levels.shape
    text = f"Plackett and Burman's {runs} runs for {edits} edits"
    if 2**edits == runs:
        return f"{text}: every combination"
    reached = resolution(levels)
    if reached is not None:
        return f"{text}, resolution {ROMAN[reached]}: {MEANINGS.get(reached, CLEAR)}"
    if len(in_estimates(levels, mains(edits), most=2)) == edits * (edits - 1) * (edits - 2) // 2:
        return f"{text}: each pair's effect is partly confounded with that of every other edit"
    return f"{text}: many pairs' effects are partly confounded with those of other edits"


def generated(levels: Levels, among: Combinations) -> str:
    """Describe the generators of a regular fraction."""
    return "".join(f"; {_generator(generator, among)}" for generator in generators(levels))


def _generator(generator: Generator, among: Combinations) -> str:
    """Describe a generator: `D = ABC` has D where an odd number of A, B and C (one or three) are present."""
    parity = (len(generator.of) + (generator.sign < 0)) % 2
    of = ", ".join(among.letters((i,)) for i in generator.of)
    there = f"an {'odd' if parity else 'even'} number of {of} are present"
    if len(generator.of) == 1:
        there = f"{of} is {'present' if generator.sign > 0 else 'absent'}"
    sign = "-" if generator.sign < 0 else ""
    edit = among.letters((generator.edit,))
    return f"{edit} = {sign}{among.letters(generator.of)} ({edit} is present where {there})"


def instead(what: str, runs: int, candidates: int, efficiency: float) -> str:
    """Describe D-optimal runs that replace orthogonal ones."""
    return (
        f"requested: {what}; some of these are refused or the same model, whichever signs are flipped, so instead "
        f"{runs} runs are D-optimal among the {candidates} distinct models (D-efficiency {efficiency:.0%})"
    )


def optimal(runs: int, candidates: int, combinations: int, efficiency: float) -> str:
    """Describe D-optimal runs."""
    among = f"the {candidates:,} distinct models considered, of {combinations:,} combinations"
    return f"{runs} runs, D-optimal among {among} (D-efficiency {efficiency:.0%})"


def left_out(
    among: Combinations, distinct: Mapping[Chosen, Sequence[Chosen]], refused: Mapping[str, Sequence[Chosen]]
) -> tuple[str, ...]:
    """List the combinations that are refused, by reason, and those that are the same model as another."""
    notes = [f"left out: {_listed(gone, among)} ({reason})" for reason, gone in refused.items()]
    same = {first: others for first, others in distinct.items() if others}
    if sum(map(len, same.values())) > LISTED:
        notes.append(f"the same model as {among.kept}: {sum(map(len, same.values())):,} combinations")
    else:
        notes += [f"the same model: {_listed((first, *others), among)}" for first, others in same.items()]
    return tuple(notes)


def _listed(combinations: Sequence[Chosen], among: Combinations) -> str:
    if len(combinations) > LISTED:
        return f"{len(combinations):,} combinations"
    return ", ".join(among.letters(chosen) for chosen in combinations)


def not_estimated(
    levels: Levels, effects: Sequence[Term], dropped: Sequence[Term], named: Callable[[Term], str]
) -> Iterator[str]:
    """List effects that are confounded with others, with these."""
    known = [MEAN, *effects]
    for term in dropped:
        weights = np.linalg.lstsq(columns(levels, known), columns(levels, [term]), rcond=None)[0][:, 0]
        of = [named(t) for t, weight in zip(known, weights, strict=True) if t and abs(weight) > TOLERANCE]
        told = f"it is confounded with {', '.join(of)}" if of else "it does not vary"
        yield f"not estimated: {named(term)}: in these runs {told}"


def not_in_base(dropped: Sequence[Term], among: Combinations) -> Iterator[str]:
    """List effects that the requested runs would not have estimated either, so that those in their place need not."""
    if dropped:
        named = ", ".join(among.letters(term) for term in dropped)
        told = "it" if len(dropped) == 1 else "them"
        yield f"not estimated: {named}: the requested runs do not separate {told} from others"


def mixed(aliases: Sequence[tuple[Term, Term, float]], named: Callable[[Term], str]) -> Iterator[str]:
    """Write the alias table on one line."""
    if len(aliases) > ALIASES_LISTED:
        most = max(abs(times) for _, _, times in aliases)
        yield f"aliases in the estimates: {len(aliases):,} effects, each at most {most:.3g} times"
    elif aliases:
        of: dict[Term, list[str]] = {}
        for term, other, times in aliases:
            of.setdefault(term, []).append(f"{times:+.3g} {named(other)}")
        lines = "; ".join(f"{named(term)} contains {', '.join(others)}" for term, others in of.items())
        yield f"aliases in the estimates: {lines}"


def beside(names: Collection[str], among: Combinations) -> Iterator[str]:
    """Describe a baseline trained in addition to the runs, and an end that is not compared because it is not a run."""
    against = among.models.space.judge.against
    if against not in names:
        yield f"{against}, the baseline, is trained in addition to these runs"
    if among.ends.to not in {*names, among.ends.from_}:
        yield f"{among.ends.to} is not one of these runs: it is not compared with the baseline"
