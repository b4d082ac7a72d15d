"""Training: one loop, readable at a glance, that yields what it measures.

`train` is given a built model, a trial and the data, and gives rows, timings, checkpoints and one outcome.

    loop.py           one trial, from a built model to its outcome
    events.py         what training yields, and the measurements of a step as rows
    objective.py      the objective of a trial, the batches it makes, and what it and probes measure in an evaluation
    objectives/       the objectives, one per file: what is predicted, the loss, and what an evaluation measures
    loss.py           the cross-entropy, the terms added to it, mixtures of classes, and its precision and scale
    optimizer.py      the parameters with their kinds, rates and decays; clipping; the average of the weights
    optimizers/       the optimisers, one per file
    schedules/        the schedules, one per file
    divergence.py     a loss or a gradient norm that is not finite, traced to where it begins
    definitions.py    the definitions of every number in those rows
    checkpoint.py     the state of a trial as bytes
    microbatches.py   gradient accumulation: a batch in microbatches, the same update
    data_parallel.py  a batch divided among the processes of a trial; the settings for the same bits

Never here: a write to a disk, a choice of which model or which batches, or knowledge of who runs it and where.
"""
