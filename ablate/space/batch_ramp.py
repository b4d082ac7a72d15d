"""The size of each batch of a run, where it grows: a function of the recipe and the step.

    B(s) = from + ⌊(batch - from) · s / U⌋      for s < U,        U = until, or round(until · steps) for a share
    B(s) = batch                                for s ≥ U

    sequences of n steps  E(n) = Σ_{s<n} B(s)

so the first batch has `from` sequences, and the first of full size is that of step U. All is in whole numbers: counts
of tokens are exact. Without a ramp B(s) = batch.

    Geiping & Goldstein 2022, arXiv:2212.14034, Sec. 4.3, whose batch grows linearly in the time spent, over 60 % of it;
    here it grows linearly in steps, so that a batch is a function of its step alone
"""

from __future__ import annotations

from fractions import Fraction

from ablate.space.documents import BatchRamp, Recipe


def counted(length: int | float, steps: int) -> int:
    """Convert a length to steps: an integer is a number of steps, a float a share of `steps`, rounded.

    >>> counted(100, 2000), counted(0.05, 2000), counted(1, 2000), counted(1.0, 2000)
    (100, 100, 1, 2000)
    """
    return length if isinstance(length, int) else round(length * steps)


def batch_at(recipe: Recipe, step: int) -> int:
    """Return the number of sequences in the batch of `step` (from 0)."""
    ramp = ramp_of(recipe)
    if ramp is None or step >= ramp[1]:
        return recipe.batch
    first, growing = ramp
    return first + (recipe.batch - first) * step // growing


def ramp_of(recipe: Recipe, steps: int | None = None) -> tuple[int, int] | None:
    """Return the first batch of a ramp and its steps, in a run of `steps` (None: the recipe's); None without a ramp."""
    ramp = recipe.batch_ramp
    return None if ramp is None else (ramp.from_, counted(ramp.until, recipe.steps if steps is None else steps))


def smallest_batch(recipe: Recipe) -> int:
    """Return the number of sequences in the smallest batch: the first."""
    return batch_at(recipe, 0)


def sequences_of(recipe: Recipe, steps: int | None = None) -> int:
    """Return the sequences of all batches in a run of `steps` (None: the recipe's)."""
    return sequences(recipe.batch, recipe.batch_ramp, recipe.steps if steps is None else steps)


def sequences(batch: int, ramp: BatchRamp | None, steps: int) -> int:
    """Return the sequences of all batches in a run of `steps`; a share of them in the ramp is one of these steps."""
    if ramp is None:
        return steps * batch
    growing = counted(ramp.until, steps)
    in_ramp = min(growing, steps)
    grown = _sum_of_floors(in_ramp, batch - ramp.from_, growing) if in_ramp else 0
    return in_ramp * ramp.from_ + grown + (steps - in_ramp) * batch


def steps_of(batch: int, ramp: BatchRamp | None, wanted: Fraction) -> int:
    """Return the number of steps, at least 1, of the run whose sequences are nearest to a number."""
    below, above = 0, 2
    while sequences(batch, ramp, above) < wanted:
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if sequences(batch, ramp, middle) < wanted else (below, middle)
    near = range(max(1, below - 2), above + 3)  # a longer ramp may move a few sequences to later steps
    return min(near, key=lambda steps: abs(sequences(batch, ramp, steps) - wanted))


def _sum_of_floors(n: int, a: int, m: int) -> int:
    """Return Σ_{i<n} ⌊a·i / m⌋, by Euclid's algorithm: lattice points below a line, counted from either side."""
    total, b = 0, 0
    while True:
        total += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        if top < m:
            return total
        n, b, a, m = top // m, top % m, m, a
