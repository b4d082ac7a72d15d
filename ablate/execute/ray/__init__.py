"""Ray Tune: trials in processes that Ray places, on a cluster of our own on this machine or on one by its address.

    demand.py      what a trial needs of a node, and how many of them a cluster bears
    cluster.py     the cluster of a run: started or joined, quietly, and left
    keeper.py      a process of its own that ends a cluster of our own with its driver
    driver.py      Tune's side of the executor's contract: what it asks next, what it is told
    worker.py      the process that carries trials out
    tune.py        `RayTune`, the executor

Only `cluster`, `driver` and `worker` load Ray, and only a run loads those. Tune is given nothing to keep: it places
trials, reuses their processes and carries their messages; retries, checkpoints and resume are the controller's.

Each trial says itself what part of a GPU it has: Tune asks for a placement group of its own for each, and hands a
process on only to a trial whose group is the same. So parts come in steps (1/8, 2/8, …), and while one waits for more
than others have, no other is begun: it would wait for ever.

2026-11-21, Ray 2.60, two cores. Starting a cluster of our own takes 2 to 4 s, joining one under 1 s, the first
workers 3 to 5 s more, leaving it 1 to 2 s. A trial of 1 s on a warm worker takes 8 ms longer than in this process; a
wish to stop is obeyed within 0.3 s; after `kill -9` of the driver, or of its whole group, all is gone within 0.4 s, and
so are the workers on a cluster that was joined. A lost node is noticed within 2.5 s where its connections break, else
when Ray gives it up.

What Ray does that one would not expect, and what is done about it:
- after `kill -9` of the driver its workers live on for 3 s, two of its agents for minutes: see `keeper`;
- its workers run at niceness 15, so whatever else the machine does starves them: ours at 0;
- its servers listen on every network interface, guarded by a token kept in the home folder: ours is made for the run;
- a driver that sends a token to a cluster that wants none gets in, and loses every actor before it starts, without a
  word why; one that sends none where one is wanted waits for 20 s. So what the cluster wants is found out first;
- where nothing answers at an address it waits for minutes: we look before;
- Tune itself restarts a trial whose node was preempted, even with no failures allowed, unless that is said to count;
- Tune sends a trial's configuration back with each result, so the task goes to the worker by a call of its own;
- a trial is its actor's before that process is there, and stays with one that is reused, perhaps dead: whether a worker
  had taken it is known from its answer, and where none ever does the run stops;
- an actor that asked for no GPU is shown all of them: ours hides them;
- `ray.init` and Tune put their own handlers for SIGTERM, SIGINT and SIGUSR1, and `breakpoint`, over ours;
- after SIGTERM a worker would be gone at once, its trial with it: ours saves it, says so, and ends when it is told to
  go on (one that said it is done would be given the next trial). SIGTERM to a node's raylet reaches no worker: Ray
  kills them, and trials go on elsewhere from their last checkpoints;
- what is to be said of a lost node is printed to the standard output, with a page of its log, whatever one asks for.
"""

from __future__ import annotations

from ablate.execute.ray.tune import RayTune

__all__ = ["RayTune"]
