"""Ray Tune: trials in processes that Ray places, on a cluster started on this machine or on one given by its address.

    demand.py      what a trial needs of a node, and how many trials a cluster can run
    cluster.py     the cluster of a run: started or joined, quietly, and left
    keeper.py      a separate process that ends a cluster of our own with its driver
    driver.py      Tune's side of the executor's contract: which task is next, what is done with messages
    worker.py      the process that carries trials out
    tune.py        `RayTune`, the executor

Only `cluster`, `driver` and `worker` load Ray, and only a run loads those. Tune keeps no state: it places trials,
reuses their processes and carries their messages; retries, checkpoints and resume are the controller's.

Each trial requests its own share of a GPU: Tune creates a placement group for each, and hands a process on only to a
trial with the same group. So shares come in steps (1/8, 2/8, …), and while a trial waits for a larger share than others
have, no other is started: it would wait forever.

2026-11-21, Ray 2.60, two cores. Starting a cluster of our own takes 2 to 4 s, joining one under 1 s, the first
workers 3 to 5 s more, leaving it 1 to 2 s. A trial of 1 s on a warm worker takes 8 ms longer than in this process; a
request to stop takes effect within 0.3 s; after `kill -9` of the driver, or of its whole group, all is gone within
0.4 s, and so are the workers on a cluster that was joined. A lost node is noticed within 2.5 s if its connections
break, else when Ray gives it up.

Surprising behaviour of Ray, and what is done about it:
- after `kill -9` of the driver its workers live on for 3 s, two of its agents for minutes: see `keeper`;
- its workers run at niceness 15, so any other load on the machine starves them: ours run at 0;
- its servers listen on every network interface, guarded by a token kept in the home folder: ours is made for the run;
- a driver that sends a token to a cluster without one gets in, but loses every actor before it starts, without an
  explanation; one that sends none where one is required waits for 20 s. So we find out first what the cluster requires;
- if nothing answers at an address it waits for minutes: we check first;
- Tune itself restarts a trial whose node was preempted, even with no failures allowed, unless preemption is set to
  count as a failure;
- Tune sends a trial's configuration back with each result, so the task goes to the worker by a separate call;
- a trial is assigned to its actor before that process is running, and stays with a reused one that may be dead: whether
  a worker took the trial is known from its answer, and if none ever does the run stops;
- an actor that requested no GPU sees all of them: ours hides them;
- `ray.init` and Tune replace our handlers for SIGTERM, SIGINT and SIGUSR1, and `breakpoint`, by their own;
- after SIGTERM a worker would die at once, with its trial: ours saves the trial, reports that, and ends when it is told
  to continue (one that reported that it is done would be given the next trial). SIGTERM to a node's raylet reaches no
  worker: Ray kills them, and trials resume elsewhere from their last checkpoints;
- messages about a lost node are printed to standard output, with a page of its log, whatever the settings.
"""

from __future__ import annotations

from ablate.execute.ray.tune import RayTune

__all__ = ["RayTune"]
