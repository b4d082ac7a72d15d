"""Execute: where and in what order trials run.

    task.py        what a worker is sent, and what it sends back
    work.py        one trial carried out, the same function for every executor
    inline.py      in this process, one after another
    local.py       in a pool of worker processes on this machine
    cores.py       how many workers a machine bears
    lifeline.py    worker processes die with their driver
    interrupt.py   Ctrl-C: once to stop cleanly, twice to stop now
    device.py      where trials compute
    policy.py      which outcomes stand, and which are tried again
    controller.py  the plan handed out, what comes back written down

Here, and only here, pebble is known. Never: a metric defined, a number judged, a file written but through the store.
"""
