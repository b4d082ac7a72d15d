"""Execute: where and in what order trials run.

    task.py        what a worker is sent, and what it sends back
    work.py        what one trial computes
    worker.py      one trial carried out: claimed, computed, saved, told; the same for every executor
    inline.py      in this process, one after another
    local.py       in a pool of worker processes on this machine
    ray/           on Ray Tune: a cluster, or one of its own on this machine
    cores.py       how many workers a machine bears
    device.py      where trials compute
    lifeline.py    worker processes die with their driver
    watchdog.py    trials that hang leave a trace
    interrupt.py   Ctrl-C: once to stop cleanly, twice to stop now
    policy.py      what follows from each way a trial can end
    search/        proposals over a grammar: random, evolution, Optuna's samplers
    controller.py  the plan handed out, what comes back written down

Here, and only here, pebble, Ray and Optuna are known. In the folder of results workers write checkpoints, claims and
the traces of trials that hang; the driver writes everything else. Never: a metric defined, a number judged, any other
file written but through the store.
"""
