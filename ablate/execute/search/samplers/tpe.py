"""TPE: the choices with the largest ratio of density among the good results to density among the others.

    x = argmax l(x) / g(x)        l the density of the best results, g that of all others

Both are Parzen estimators over all choices at once that arise together (`multivariate`, `group`): a choice that exists
only under another is modelled by the results in which it arose. What constraints or vetoes refuse counts among the
others, as worse than any result: where much was refused, g(x) is large. It draws at random until it knows 10 results or
refusals, of which 5 have values. Choose it if trials are few and choices many, categorical and numeric: it is quick,
and takes one objective or several.

    Bergstra et al. 2011, Algorithms for Hyper-Parameter Optimization, NeurIPS 24, Sec. 4; over several choices at once:
    Falkner et al. 2018, arXiv:1807.01774, Sec. 4; over several objectives: Ozaki et al. 2022, JAIR 73:1209. Optuna's
    implementation.
"""

from __future__ import annotations

from ablate.execute.search.samplers.declare import Document, implements, sampler


@sampler(
    "tpe", source="Bergstra et al. 2011, NeurIPS 24; multivariate: arXiv:1807.01774", objectives="several", version=2
)
class Tpe(Document):
    """No settings."""


from optuna.samplers import BaseSampler, TPESampler

from ablate.execute.search.proposer import STARTUP, SampledProposer
from ablate.grammar.mutate import DerivationSource
from ablate.space.design import Goal

ASKS = 20
"""The number of draws before the last one is repaired: each is told as refused to the next, so that they move away."""


@implements(Tpe)
def proposer(ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: Tpe) -> SampledProposer:
    return SampledProposer(ground, seed, goals, seeded, STARTUP, grouped=True, refusals=True, asks=ASKS)


def seeded(seed: int) -> BaseSampler:
    return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True, group=True, constant_liar=False)
