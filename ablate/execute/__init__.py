"""Execute: where and in what order trials run.

    executor_options.py  the options of an executor and the resources of each trial, as requested and stored
    executors.py         the executor that such options name
    task.py              what a worker is sent, and what it sends back
    drawing.py           what is drawn from the data, as an objective reads it
    work.py              the computation of one trial
    attention.py         the attention backends of a trial, chosen on its device
    kernel_orders.py     which attention backends the variants of a plan will try, and why
    worker.py            one trial carried out: claimed, computed, saved, reported; the same for every executor
    rank_processes.py    one trial in several processes (data parallel): the worker's side
    rank_process.py      the entry point of the other processes of such a trial
    state.py             the state that a trial resumes from
    ending.py            the outcome of a trial that raised an exception
    gpu.py               the GPU of a trial, and the memory it needed
    inline.py            trials in this process, one after another
    local.py             trials in worker processes on this machine
    local_worker.py      the entry point of those processes
    supervisor.py        the worker processes: started, monitored, replaced
    launch.py            a process that runs a module of ablate, never the user's main file
    ray/                 trials on Ray Tune: on a given cluster, or on one started on this machine
    cores.py             how many workers a machine can run
    device.py            the device that trials compute on
    kernel_fingerprint.py  what a machine computes: the digest of a few small kernels
    machine.py           what this machine has, and which attention backends work on it
    memory.py            how much memory a trial needs there: predicted, then measured
    packing.py           which trials share a GPU: the ledger of the memory reserved for each
    packer.py            the placement of tasks on this machine's GPUs
    lifeline.py          worker processes die with their driver
    watchdog.py          trials that hang leave a trace
    interrupt.py         Ctrl-C: once to stop cleanly, twice to stop now
    sampled_initialisation.py  what a sampled model measures before a single step
    model_inputs.py      what a model reads of its data, as a forecast begins with it
    forecaster.py        what the variants of a plan will do before a single step
    rehearsal.py         blocks built without training them
    equal_start.py       variants that start alike, told before they are trained
    step_time.py         how long a training step takes, relative to one of another model
    policy.py            what follows from each way a trial can end
    search/              proposals over a grammar: random, evolution, Optuna's samplers
    controller.py        hands out the plan, and records what comes back

Only this package knows Ray and Optuna. In the results folder, workers write checkpoints, claims, what their machine
computes, and the traces of trials that hang; the driver writes everything else. Never here: a metric defined, a number
judged, any other file written except through the store.
"""
