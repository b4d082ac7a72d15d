"""Ray: trials in processes that Ray Tune places on a cluster, which is joined or started on this machine."""

from __future__ import annotations

from ablate.execute.executor import Demand, Executor, ExecutorOptions
from ablate.execute.executors.declare import Setup, executor, implements


@executor("ray", source="arXiv:1807.05118 (Ray Tune)", takes=("workers", "address", "cpus", "gpus", "pack"))
class Config:
    """Every option; a demand that no machine can satisfy is refused."""

    @staticmethod
    def check(options: ExecutorOptions) -> None:
        Demand(1 if options.cpus is None else options.cpus, options.gpus or 0)


from ablate.execute.gpu import MemoryForecast
from ablate.execute.ray import RayTune


@implements(Config)
def build_ray(setup: Setup) -> Executor:
    options = setup.options
    return RayTune(
        options.workers,
        address=options.address,
        cpus=float(setup.threads) * options.processes if options.cpus is None else options.cpus,
        gpus=options.gpus,
        ranks=options.processes,
        pack=options.pack,
        forecast=None if options.pack is None else MemoryForecast(setup.catalogue, setup.known),
        stop_within=options.patience,
        say=setup.say,
    )
