"""GP: the largest expected improvement under a Gaussian process over the choices.

    x = argmax E[max(f* - f(x), 0)]        f ~ GP, fitted to the results; f* the least of them

With several objectives it is the improvement of the hypervolume. Until 10 results have values, it draws at random.
Choose it if trials are few and expensive: it makes the most of each result, and its time grows with the cube of their
number.

    Jones et al. 1998, J. Global Optimization 13:455, Sec. 4; Snoek et al. 2012, arXiv:1206.2944. Optuna's
    implementation.
"""

from __future__ import annotations

from ablate.execute.search.samplers.declare import Document, implements, sampler


@sampler("gp", source="Snoek et al. 2012, arXiv:1206.2944", objectives="several", version=1)
class Gp(Document):
    """No settings."""


from optuna.samplers import BaseSampler, GPSampler

from ablate.execute.search.proposer import STARTUP, SampledProposer
from ablate.grammar.mutate import DerivationSource
from ablate.space.design import Goal


@implements(Gp)
def proposer(ground: DerivationSource, seed: int, goals: tuple[Goal, ...], settings: Gp) -> SampledProposer:
    return SampledProposer(ground, seed, goals, seeded, STARTUP)


def seeded(seed: int) -> BaseSampler:
    return GPSampler(seed=seed, n_startup_trials=STARTUP, warn_independent_sampling=False)
