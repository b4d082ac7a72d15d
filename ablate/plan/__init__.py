"""Plan: the trials and comparisons of a space, as frozen data that `plan` prints and `run` executes.

    designs/        a design as arms and contrasts: a choice of subsets of edits
    build.py        build_plan: arms folded into variants, sizes checked, trials with their identities
    fairness.py     what a space declares equal between its blocks, and every arm under these terms
    matching.py     sizes with as many parameters as another model's, and steps that cost as much
    tuning.py       the settings that each block is tuned over, and the one that it is judged with
    models.py       a block in a space: as tuned, checked for causality; architecture, cost, variant, trials
    comparisons.py  which comparisons are paired by seed, which can be judged, and which a claim is about
    notes.py        warnings about choices that are rarely intended, tolerated constraints, and unpaired addresses
    size.py         parameters and FLOPs of a model in closed form; whether each value that it reads stands earlier
    identity.py     the work of a trial, and what of it decides its numbers; which treatments are equal
    versions.py     the versions of what a trial uses, which its identity holds
    syntax_hash.py  the hash of what a user's own file computes
    plan.py         Setting, Trial, Forecast, Variant, Comparison, Plan, Known: a plan as frozen data
    proposals.py    what a search trains, and its plan as it grows

This package starts nothing, reads no store and does not import torch.
"""
