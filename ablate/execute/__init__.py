"""Execute: where and in what order trials run.

    executor_options.py  where trials are to run, and what each gets, as it is asked for and kept
    executors.py         the executor that such options ask for
    task.py              what a worker is sent, and what it sends back
    work.py              what one trial computes
    attention.py         which attention backend a trial uses, chosen on its device
    worker.py            one trial carried out: claimed, computed, saved, told; the same for every executor
    rank_processes.py             one trial in several processes (data parallel): the worker's side
    rank_process.py              the entry of the other processes of such a trial
    state.py             the state that a trial goes on from
    ending.py            what an exception makes of a trial
    gpu.py               the GPU of a trial, and the memory it needed
    inline.py            in this process, one after another
    local.py             in worker processes on this machine
    local_worker.py      the entry of those processes
    supervisor.py        those processes: started, met, watched, replaced
    launch.py            a process of ours, in which no file of the user's runs again
    ray/                 on Ray Tune: a cluster, or one of its own on this machine
    cores.py             how many workers a machine bears
    device.py            where trials compute
    machine.py           what this machine has, and which attention backends work on it
    memory.py            how much memory a trial needs there: predicted, then measured
    packing.py           which trials share a GPU: the ledger of what memory each was promised
    packer.py            tasks given their places on this machine's GPUs
    lifeline.py          worker processes die with their driver
    watchdog.py          trials that hang leave a trace
    interrupt.py         Ctrl-C: once to stop cleanly, twice to stop now
    rehearsal.py         a block built without training it
    step_time.py              how long a training step takes, beside one of another model
    policy.py            what follows from each way a trial can end
    search/              proposals over a grammar: random, evolution, Optuna's samplers
    controller.py        the plan handed out, what comes back written down

Here, and only here, Ray and Optuna are known. In the folder of results workers write checkpoints, claims and
the traces of trials that hang; the driver writes everything else. Never: a metric defined, a number judged, any other
file written but through the store.
"""
