"""Search: derivations of a grammar proposed from the results of those before.

    result.py     what became of a proposal, and how samplers are told of it
    proposer.py   the protocol: a proposal from (seed, k, history), and from nothing else; the random one
    evolution.py  mutation and crossover of the best so far
    sampled.py    Optuna's samplers: TPE, GP, NSGA-II
    ranking.py    which results dominate which
    choose.py     a sampler by its name
    search.py     proposals asked for and told of: what sees what, what is the same, what the budget allows

Here, and only here, Optuna is known; it is imported with the first proposal of a sampler that needs it.
"""
