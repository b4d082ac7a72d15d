"""Ray Tune: trials in processes that Ray places, on a cluster of our own on this machine or on one by its address.

    demand.py      what a trial needs of a node, and how many of them a cluster bears
    cluster.py     the cluster of a run: started or joined, quietly, and left
    keeper.py      a process of its own that ends a cluster of our own with its driver
    driver.py      Tune's side of the executor's contract: what it asks next, what it is told
    worker.py      the process that carries trials out
    tune.py        `RayTune`, the executor

Only `cluster`, `driver` and `worker` load Ray, and only a run loads those. Tune is given nothing to keep: it places
trials, reuses their processes and carries their messages; retries, checkpoints and resume are the controller's.

2026-11-21, Ray 2.60, two cores. Starting a cluster takes 4 s, its first workers 3 s more, leaving it 1.5 s; a trial
on a warm worker costs 10 to 20 ms. What Ray does that one would not expect, and what is done about it:
- after `kill -9` of the driver its workers live on for 3 s and two of its agents for good: see `keeper`;
- its workers run at niceness 15, so whatever else the machine does starves them: ours at 0;
- its servers listen on every network interface, guarded by a token; Ray would write that to the home folder, ours is
  made for the run;
- `ray start` guards a cluster by a token too, but a driver that joins by address sends none unless RAY_AUTH_MODE=token;
- Tune itself restarts a trial whose node was preempted, even with no failures allowed, unless that is said to count;
- `ray.init` and Tune put their own handlers for SIGTERM, SIGINT and SIGUSR1 over ours.
"""

from __future__ import annotations

from ablate.execute.ray.tune import RayTune

__all__ = ["RayTune"]
