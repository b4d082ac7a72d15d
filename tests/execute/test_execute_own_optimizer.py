"""An optimiser and a schedule of a user's own file train to a verdict, in this process and in workers, alike."""

from __future__ import annotations

import pytest
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate

PLUGIN = '''\
"""Sign descent, and a schedule that halves."""
from ablate.train.optimizers.declare import Settings, Trained, groups, implements, optimizer
from ablate.train.schedules.declare import Behind, Document, Positive, schedule


@optimizer("sign", source="Bernstein et al. 2018, arXiv:1802.04434")
class Sign(Settings):
    """Sign descent has no settings of its own."""


@schedule("halving", source="this test")
class Halving(Document):
    """Halves `times` times."""

    times: Positive

    def share(self, at: Behind) -> float:
        return max(at.floor, 0.5 ** (self.times * at.progress))


import torch
from torch import optim

from ablate.train.optimizers.by_parameter import ByParameter


class SignDescent(ByParameter):
    def update(self, parameter, gradient, state, group):
        state["updates"] = state.get("updates", 0) + 1
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * gradient.sign())


@implements(Sign)
def build(parameters: list[Trained], settings: Sign) -> optim.Optimizer:
    return SignDescent(groups(parameters), {"lr": settings.lr})
'''
QUIET = {"console": Console(quiet=True), "mirror": False}
SIGN = "recipe.optimizer={sign: {lr: 1e-3, embedding_lr: null, weight_decay: 0, decays: []}}"
HALVING = "recipe.schedule={warmup: 2, hold: 1, decay: {halving: {times: 3}}}"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    space, plugin = write_world(folder, seeds=2), folder / "sign.py"
    plugin.write_text(PLUGIN, encoding="utf-8")
    settings = ["design={compare: [pre_ln, op]}", SIGN, HALVING]
    return ablate.load_space(space, plugins=[plugin], settings=settings), [plugin]


@pytest.fixture(scope="module")
def inline(asked, tmp_path_factory):
    return trained(asked, tmp_path_factory.mktemp("inline"), executor="inline")


def trained(asked, results, **options):
    space, plugins = asked
    run = ablate.run(space, results=results, plugins=plugins, **options, **QUIET)
    return run, rows_of(results)


@pytest.mark.full
def test_it_comes_to_a_verdict(inline):
    run, rows = inline
    assert run.ended.kinds == {"finished": 4}
    verdicts = run.verdicts
    assert "eval_loss" in set(verdicts["metric"]) and verdicts["verdict"].notna().all()
    rates = {row[1]: row[4] for row in rows if row[2] == "learning_rate"}
    assert rates[0] == 0.5e-3 and rates[11] == pytest.approx(1e-3 / 8)
    losses = [row[4] for row in rows if row[2] == "eval_loss"]
    assert min(losses) < max(losses) - 0.1  # it learns


@pytest.mark.full
def test_workers_read_the_file_for_themselves(asked, inline, tmp_path):
    run, rows = trained(asked, tmp_path, executor="local", workers=2)
    assert run.ended.kinds == {"finished": 4}
    assert rows == inline[1]
