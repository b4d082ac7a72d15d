"""Training: one loop, readable at a glance, that yields what it measures.

Here live: the loop and what it is made of (schedule, optimiser, loss, clipping, divergence, evaluation, checkpoint
state, batches in parts and shared out among ranks), the events it yields, and the definitions of the numbers in them.
`train` is given a built model, a trial and the data, and gives rows, timings, checkpoints and one outcome.
Never: a write to a disk, a choice of which model or which batches, or a word of who runs it and where.
"""
