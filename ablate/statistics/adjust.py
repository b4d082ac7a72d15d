"""Multiple comparisons: p-values adjusted for the number of tests.

    Holm 1979                    p̃_(i) = max over j ≤ i of min(1, (m - j + 1)·p_(j))
    Benjamini & Hochberg 1995    q_(i) = min over j ≥ i of min(1, m·p_(j)/j)               p_(1) ≤ … ≤ p_(m)

With p̃ < α the chance of any false claim is at most α; with q < α at most a share α of the claims is false on average.
None stands for a test that was planned but could not be made: it stays None and counts in m, so that what fails to run
does not make the rest look more certain.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return Holm's step-down adjusted p-values: compared with α, all claims together err with probability at most α.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    adjusted: list[float | None] = [None] * len(p_values)
    reached = 0.0
    for rank, (p, i) in enumerate(_ranked(p_values)):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p))
        adjusted[i] = reached
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return step-up adjusted p-values q: of the claims with q < level, at most that share is false on average.

    This holds where tests are independent, or positively dependent as those that share a baseline are.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    (0.03, 0.04, 0.04)
    """
    adjusted: list[float | None] = [None] * len(p_values)
    ranked = _ranked(p_values)
    reached = 1.0
    for rank, (p, i) in reversed(list(enumerate(ranked, start=1))):
        reached = min(reached, len(p_values) * p / rank)
        adjusted[i] = reached
    return tuple(adjusted)


def _ranked(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    return sorted((p, i) for i, p in enumerate(p_values) if p is not None)
