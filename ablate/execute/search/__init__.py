"""Search: derivations of a grammar proposed from the results of earlier ones.

    search.py         an ask-and-tell search: which results a job depends on, repeats, and when it is over
    job.py            the jobs that are handed out, and their proposals
    budget.py         the trials, FLOPs or hours that all jobs together may spend
    rungs.py          the rungs at which blocks are compared, and which are promoted: ASHA, Hyperband
    rung_progress.py  how far blocks have come, and which rung's values samplers are told
    correlation.py    how well an early rung predicts a later one
    result.py         the result of a proposal, and how samplers are told about it
    ranking.py        Pareto dominance, fronts and crowding
    choose.py         the proposer that the space names
    proposer.py       the protocol: a proposal from (seed, k, history), and from nothing else; uniform draws
    samplers/         one file each: random, TPE, GP, NSGA-II, CMA-ES, evolution
    sampled.py        the shared code of Optuna's samplers
    preselection.py   the choice among several proposals by a zero-cost measure
    search_space.py   the search space: which derivations are admitted, and which are the same model
    varied_values.py  derivations with values beside them, one for each address that is varied
    zero_cost.py      measures of a block before it is trained
    source.py         jobs as trials: what the controller is handed, and what the search is told about them
    confirmation.py   the best finished blocks, to be confirmed
    study_trials.py   the trials of anybody's study, read as a table

Only this package knows Optuna; it is imported with the first proposal of a sampler that needs it.
"""
