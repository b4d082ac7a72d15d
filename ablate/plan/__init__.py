"""Plan: what a space comes to, as frozen data that `plan` prints and `run` executes.

    designs/        a design as arms and contrasts: choices among the subsets of edits
    build.py        build_plan: arms folded into variants, sizes checked, trials with their identities
    fair/           equal terms: sizes that match, steps that spend as much, settings that are tuned
    models.py       what a block becomes in a space: architecture, cost, variant, trials
    addresses.py    components that stand in another's place under an address of their own
    choices.py      notes on choices that are seldom meant
    constraints.py  notes on constraints that are let through
    setting.py      what of a model and its training is not as the space has it
    tuned.py        recipe and block with the values of a setting
    known.py        what a plan takes from results
    size.py         parameters and FLOPs of a model in closed form
    identity.py     what a trial is: the hash of what decides its numbers
    versions.py     the versions of what a trial uses, which its identity holds
    syntax_hash.py  the hash of what a user's own file computes
    trial.py        Trial
    plan.py         Variant, Comparison, Plan
    proposals.py    the plan of a search as it grows

This room starts nothing, reads no store and imports no torch.

A trial's id is made of what is computed: each layer's normal form with its arithmetic evaluated, the recipe, what is
measured, the corpus's fingerprint, seed, threads, and the versions of the components and shared parts that compute it.
Names, notes, folders and the order of keys are not in it, so that a second space that asks for the same trial finds it
done.
"""
