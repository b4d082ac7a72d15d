"""Execute: where and in what order trials run.

    executor.py        what carries trials out: its options, its tasks, and what follows from each outcome
    controller.py      hands out the plan, records what comes back, and stops at Ctrl-C
    local.py           trials in worker processes on this machine, or in this process, and the choice of the executor
    supervisor.py      the worker processes: launched, monitored, replaced, and gone with their driver
    worker_process.py  what those processes do, and those of the other ranks of a trial, from their start to their end
    ray.py             trials on Ray Tune: on a given cluster, or on one started on this machine
    ray_driver.py      Tune's side of a run, and the worker that carries trials out there
    ray_keeper.py      a separate process that ends a cluster of our own with its driver
    worker.py          one trial carried out: claimed, computed by its ranks, saved, reported; so for every executor
    work.py            the computation of one trial: its model, its data and its attention backends
    gpu.py             the device of a trial, the memory that it needs there, and which trials share it
    machine.py         what this machine computes: its kernels' bits, its attention backends, the time of a step
    forecaster.py      what the variants of a plan will do before a single step
    start.py           models before their first step: built, measured, and compared
    search/            proposals over a grammar: random, evolution, Optuna's samplers

Only this package knows Ray and Optuna; Ray is loaded only within a run. In the results folder,
workers write checkpoints, claims, what their machine computes, and the traces of trials that hang; the driver writes
everything else. Never here: a metric defined, a number judged, any other file written except through the store.
"""
