"""How many trials a node bears, and what nobody can ask for."""

import pytest

from ablate.errors import InputError, RefusedError
from ablate.execute.executor import Demand

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("cpus", "gpus", "node", "fits"),
    [
        (1, 0, {"CPU": 4}, 4),
        (1, 0, {}, 0),
        (3, 0, {"CPU": 8}, 2),
        (0.1, 0, {"CPU": 1}, 10),
        (1, 1, {"CPU": 8, "GPU": 2}, 2),
        (1, 1, {"CPU": 8}, 0),
        (4, 1, {"CPU": 6, "GPU": 2}, 1),
        (0.5, 0.25, {"CPU": 8, "GPU": 2}, 8),
        (1, 0.4, {"CPU": 8, "GPU": 2}, 4),  # two on each; the fifth part of each is left over, and makes no whole
        (1, 0.1, {"CPU": 20, "GPU": 1}, 10),
        (1, 2, {"CPU": 8, "GPU": 5}, 2),
    ],
)
def test_how_many_a_node_bears(cpus, gpus, node, fits):
    assert Demand(cpus, gpus).fits(node) == fits


def test_a_trial_is_on_one_node():
    nodes = [{"CPU": 3}, {"CPU": 3}]
    assert Demand(2).slots(nodes) == 2, "the two cores left over are on two nodes"
    Demand(3).require(nodes)
    with pytest.raises(RefusedError, match=r"needs 4 CPUs, and no node .* has that: 3 CPUs and 0 GPUs\n  = request"):
        Demand(4).require(nodes)


def test_no_nodes_bear_nothing():
    with pytest.raises(RefusedError, match="it has no nodes"):
        Demand().require([])


@pytest.mark.parametrize(("cpus", "gpus"), [(0, 0), (-1, 0), (1, -1), (1, 1.5), (float("nan"), 0)])
def test_what_no_machine_can_give(cpus, gpus):
    with pytest.raises(InputError, match="\n  = "):
        Demand(cpus, gpus)


@pytest.mark.parametrize("n", range(1, 9))
def test_as_many_as_share_a_gpu(n):
    """No integer division gives a trial nothing, and n parts of one n-th are one."""
    demand = Demand(0.5, 1 / n)
    assert demand.fits({"CPU": 99, "GPU": 2}) == 2 * n
    assert demand.bundle(demand.gpus) == {"CPU": 0.5, "GPU": 1 / n}


def test_what_ray_would_take_for_nothing():
    with pytest.raises(InputError, match=r"cannot have 1e-05 GPUs\n  = Ray's smallest share is 0\.0001"):
        Demand(1, 1e-5)
    assert Demand(1, 0).bundle(0) == {"CPU": 1}
