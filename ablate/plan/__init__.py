"""Plan: what a space comes to, as frozen data that `plan` prints and `run` executes.

    designs/     a design as arms and contrasts: choices among the subsets of edits
    build.py     build_plan: arms folded into variants, sizes checked, trials with their identities
    fair/        equal terms: sizes that match, steps that spend as much, settings that are tuned
    models.py    what a block becomes in a space: architecture, cost, variant, trials
    setting.py   what of a model and its training is not as the space has it
    tuned.py     recipe and block with the values of a setting
    known.py     what a plan takes from results
    size.py      parameters and FLOPs of a model in closed form
    identity.py  what a trial is: the hash of what decides its numbers
    trial.py     Trial
    plan.py      Variant, Comparison, Plan

This room starts nothing, reads no store and imports no torch.

A trial's id is made of what is computed: each layer's normal form with its arithmetic evaluated, the recipe, what is
measured, the corpus's fingerprint, seed, threads, and the source of the rooms and components that compute it, without
its docstrings and comments. Names, notes, folders and the order of keys are not in it, so that a second space that
asks for the same trial finds it done.
"""
