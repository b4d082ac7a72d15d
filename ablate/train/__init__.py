"""Training: one loop, readable at a glance, that yields what it measures.

`train` is given a built model, a trial and the data, and gives rows, timings, checkpoints and one outcome.

    loop.py         one trial, from a built model to its outcome
    events.py       what training yields
    objective.py    the objective of a trial, and the batches it makes
    objectives/     the objectives, one per file: what is predicted, the loss, and what an evaluation measures
    loss.py         the cross-entropy, what a recipe adds to it, and the precision it is computed in
    loss_scale.py   the scale of the loss in float16, and the steps that it skips
    contributions.py       losses that parts of a model add, and what they do after an update
    optimizer.py    the parameters with their kinds, rates and decays, and the rate of each step
    optimizers/     the optimisers, one per file
    schedules/      the schedules, one per file
    average.py      the average of the weights over training
    clipping.py     the global gradient norm, and clipping to it
    divergence.py   a loss or a gradient norm that is not finite, traced to where it begins
    evaluation.py   the mean loss over the evaluation windows, and what probes read
    rows.py         the measurements of a step, as rows
    definitions.py  what every number in those rows means
    checkpoint.py   the state of a trial as bytes
    microbatches.py        gradient accumulation: a batch in microbatches, the same update
    data_parallel.py        data parallelism: a batch divided among the processes of a trial
    threads.py      the settings of a process that make the same trial give the same bits

Never here: a write to a disk, a choice of which model or which batches, or knowledge of who runs it and where.
"""
