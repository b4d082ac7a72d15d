"""Plan: the trials and comparisons of a space, as frozen data that `plan` prints and `run` executes.

    designs/        a design as arms and contrasts: a choice of subsets of edits
    build.py        build_plan: arms folded into variants, sizes checked, trials with their identities
    fair/           fair comparisons: matched sizes, equal budgets, tuned settings
    models.py       what a block becomes in a space: architecture, cost, variant, trials
    hidden_future.py  whether a block hides the later tokens that training predicts
    pairing.py      whether two treatments see the same batches at one seed
    claims.py       the comparisons that a claim is about
    addresses.py    components that replace another under a different address
    choices.py      warnings about choices that are rarely intended
    constraints.py  notes on constraints that a space tolerates
    setting.py      how a model and its training differ from the space's
    treatment.py    what a search trains: a block, with values around it
    tuned.py        recipe and block with the values of a setting
    known.py        what a plan uses of earlier results
    forecast.py     what a model will do before a single step, as a plan is handed it
    size.py         parameters and FLOPs of a model in closed form
    effective.py    equal treatments, whatever has no effect
    identity.py     the identity of a trial: the hash of what decides its numbers
    values_read.py  whether each value that a block reads stands before it
    versions.py     the versions of what a trial uses, which its identity holds
    syntax_hash.py  the hash of what a user's own file computes
    trial.py        Trial
    plan.py         Variant, Comparison, Plan
    proposals.py    the plan of a search as it grows

This package starts nothing, reads no store and does not import torch.

A trial's id is made of what is computed: each layer's normal form with its arithmetic evaluated, the recipe, what is
measured, the corpus's fingerprint, seed, threads, and the versions of the components and shared parts that compute it.
Names, notes, folders and the order of keys are not part of it, so that another space with the same trial reuses its
results.
"""
