"""Search: derivations of a grammar proposed from the results of earlier ones.

    search.py        an ask-and-tell search: its jobs, its budget, which results a job depends on, when it is over
    proposer.py      the protocol: a proposal from (seed, k, history), and from nothing else; Optuna's samplers
    samplers/        one file each: random, TPE, GP, NSGA-II, CMA-ES, evolution
    ranking.py       results compared: Pareto fronts, rungs (ASHA, Hyperband), and how well one rung predicts another
    search_space.py  the search space: which derivations are admitted, and which are the same model
    source.py        jobs as trials: what the controller is handed, what the search is told, which blocks are confirmed

Only this package knows Optuna; it is imported with the first proposal of a sampler that needs it.
"""
