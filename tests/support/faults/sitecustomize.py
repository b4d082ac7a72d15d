"""Ends a worker process at a phase of its life. Python reads this file when it starts, where PYTHONPATH has its folder.

    import      while PyTorch is imported            measuring   between two rows of an evaluation
    handshake   before it says that it is there      saving      with half a checkpoint written
    step        after its first step of a trial      anywhere    at a random moment of a trial

`ABLATE_TEST_FAULTS` names a folder with a file `PHASE.HOW.AFTER.NUMBER` for each: the first worker that comes to the
phase once AFTER others have ended takes the file away, notes it in `fired`, and is gone: HOW is `kill` (-9) or `exit`
(with code 0). Each trial ends a worker `ABLATE_TEST_MOST` times at most.
"""

import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

PLACE = os.environ.get("ABLATE_TEST_FAULTS")
MOST = int(os.environ.get("ABLATE_TEST_MOST", "2"))
SOON = 0.6
"""Seconds within which a worker that is to end anywhere ends."""

current = ""
"""The trial that this process has."""


def taken(phase):
    """How to end, if this process is to end in this phase: then no other one does for the same fault."""
    folder = Path(PLACE)
    fired = folder / "fired"
    trials = [line.split()[-1] for line in fired.read_text().splitlines()] if fired.exists() else []
    if current and trials.count(current) >= MOST:
        return None
    for fault in sorted(folder.glob(f"{phase}.*")):
        if int(fault.name.split(".")[2]) > len(trials):
            continue
        try:
            fault.unlink()
        except FileNotFoundError:
            continue
        return fault.name.split(".")[1]
    return None


def end(phase, how):
    with (Path(PLACE) / "fired").open("a") as file:
        file.write(f"{time.time()} {phase} {how} {os.getpid()} {current or '-'}\n")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


def strike(phase):
    how = taken(phase)
    if how:
        end(phase, how)


def in_claim(module):
    class Claim(module.Claim):
        def __enter__(self):
            global current
            current = self.trial_id
            self.struck = False
            if how := taken("anywhere"):
                threading.Timer(random.uniform(0, SOON), end, ("anywhere", how)).start()
            return super().__enter__()

        def beat(self, step):
            if not self.struck:
                self.struck = True
                strike("step")
            super().beat(step)

    module.Claim = Claim


def in_checkpoints(module):
    whole = module.write_whole

    def half(path, content):
        if how := taken("saving"):
            path.with_name(path.name + ".new").write_bytes(content[: len(content) // 2])
            end("saving", how)
        whole(path, content)

    module.write_whole = half


def in_loop(module):
    evaluate = module.evaluate

    def some(*given):
        for row in evaluate(*given):
            yield row
            strike("measuring")

    module.evaluate = some


def in_local_worker(module):
    class Connection(module.Connection):
        def send(self, said):
            if said is module.ControlWord.READY:
                strike("handshake")
            super().send(said)

    module.Connection = Connection


def in_ray_worker(module):
    set_up = module.RayWorker.setup

    def setup(self, config):
        set_up(self, config)
        strike("handshake")

    module.RayWorker.setup = setup


CHANGED = {
    "ablate.store.claim": in_claim,
    "ablate.store.journal": in_checkpoints,
    "ablate.train.loop": in_loop,
    "ablate.execute.worker_process": in_local_worker,
    "ablate.execute.ray_driver": in_ray_worker,
}


class Finder(importlib.abc.MetaPathFinder):
    """Changes modules once they are imported."""

    def find_spec(self, name, path, target=None):
        if name == "torch":
            strike("import")
        if name not in CHANGED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def run_and_change(module):
            run(module)
            CHANGED[name](module)

        spec.loader.exec_module = run_and_change
        return spec


words = " ".join(sys.orig_argv)
if PLACE and ("ablate.execute.worker_process import main;" in words or "default_worker.py" in words):
    sys.meta_path.insert(0, Finder())
