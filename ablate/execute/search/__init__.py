"""Search: derivations of a grammar proposed from the results of those before.

    search.py       jobs asked for and told of: what sees what, what is the same, when it is over
    job.py          what is handed out, and what it was proposed as
    budget.py       trials, flops or hours: what all jobs together may spend
    rungs.py        where blocks are compared on the way, and which go on: ASHA, Hyperband
    rung_progress.py     how far blocks have come, and which rung's values samplers are told
    correlation.py  how far an early rung says what a later one will
    result.py       what became of a proposal, and how samplers are told of it
    ranking.py      which results dominate which
    choose.py       what proposes, by what the space says
    proposer.py     the protocol: a proposal from (seed, k, history), and from nothing else; uniform draws
    samplers/       a file for each: random, TPE, GP, NSGA-II, CMA-ES, evolution
    sampled.py      what Optuna's samplers have in common
    preselection.py        of several proposals the one that looks best before it is trained
    search_space.py       what a space makes of its grammar: which derivations are admitted, and what is the same model
    zero_cost.py    what is known of a block before it is trained
    source.py       jobs as trials: what the controller is handed, and what the search is told of them
    confirmation.py       the best of what finished, to be confirmed

Here, and only here, Optuna is known; it is imported with the first proposal of a sampler that needs it.
"""
