"""Training in float16: the scale of the loss, the steps that it skips, and that both are part of a state."""

import io
import itertools
import math

import pytest
import torch
from altered_trials import altered
from rich.console import Console
from tiny_spaces import write_world
from torch import nn

import ablate
from ablate.space.recipe import LossScale
from ablate.store.query import query
from ablate.train.events import Checkpoint, Outcome, Row, Step
from ablate.train.loop import train
from ablate.train.loss import LARGEST, LossScaling, forward

QUIET = {"executor": "inline", "console": Console(quiet=True), "mirror": False}


def run(model, trial, data, *, resume=None, stop_at=None):
    asked = iter(range(10_000))
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=lambda: next(asked) == stop_at))


def rows(events, metric, address=""):
    return {e.step: e.value for e in events if isinstance(e, Row) and (e.metric, e.address) == (metric, address)}


class Overflows(nn.Module):
    """The identity, whose gradient is not finite in the passes of training that are listed, counted from 0."""

    def __init__(self, at, value=math.inf):
        super().__init__()
        self.at, self.value, self.passes = set(at), value, 0

    def forward(self, x):
        if not (self.training and torch.is_grad_enabled()):
            return x
        here, self.passes = self.passes, self.passes + 1
        if here in self.at and x.requires_grad:
            x = x.clone()
            x.register_hook(lambda gradient: gradient * self.value)
        return x


def constant(schedule):
    """Up to the end, where a rate of 0 would move nothing either."""
    return schedule.model_copy(update={"floor": 0.1})


def overflowing(model, at, value=math.inf):
    model.layers["2"].mlp.between = Overflows(at, value)
    return model


def test_the_state_machine_against_its_definition():
    """Half after an overflow, twice after so many steps in a row without one, and never beyond its bounds."""
    scaling, made = LossScaling(every=3, scale=8.0), [1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    found = []
    for step in made:
        assert scaling.skips(1.0) is False
        found.append(scaling.after(skipped=not step)["loss_scale"])
    assert found == [8, 8, 8, 16, 16, 8, 8, 8, 4, 2, 2, 2, 4, 4, 4, 8]
    assert scaling.skipped == 3
    assert not LossScaling(every=3, scale=1.0).skips(math.inf), "where there is no scale, it is a divergence"
    assert LossScaling(every=3, scale=2.0).skips(math.nan)
    most = LossScaling(every=1, scale=LARGEST)
    most.after(skipped=False)
    assert most.scale == LARGEST


def test_an_overflow_skips_the_step_and_halves_the_scale(build, make_trial, data):
    rule = LossScale(initial=1024, every=3)
    of_steps = ("gradient_norm", "gradient_normality", "stream_gradient", "moment_update")
    trial = make_trial(recipe__dtype="float16", recipe__loss_scale=rule, measure__every=1, measure__probes=of_steps)
    recipe = trial.work.recipe
    trial = altered(trial, recipe=recipe.model_copy(update={"schedule": constant(recipe.schedule)}))
    model = overflowing(build(), at={2, 6})
    weights, optimizer_steps, events = [], [], []
    for event in train(model, trial, data, data.evaluation, should_stop=lambda: False):
        events.append(event)
        if isinstance(event, Step):
            weights.append({name: p.detach().clone() for name, p in model.named_parameters()})
        if isinstance(event, Checkpoint):
            state = torch.load(io.BytesIO(event.state), weights_only=True)
            optimizer_steps.append((event.step, int(state["optimizer"]["state"][0]["step"])))
            assert state["loss_scale"]["skipped"] == sum(at < event.step for at in (2, 6))
    same = [all(torch.equal(a[n], b[n]) for n in a) for a, b in itertools.pairwise(weights)]
    assert [step for step, unchanged in enumerate(same, 1) if unchanged] == [2, 6]
    assert rows(events, "loss_scale") == dict(enumerate([1024, 1024, 1024, 512, 512, 512, 1024, 512]))
    assert rows(events, "skipped_steps") == dict(enumerate([0, 0, 1, 1, 1, 1, 2, 2]))
    assert sorted(rows(events, "gradient_norm")) == [0, 1, 3, 4, 5, 7]
    assert sorted(rows(events, "train_loss")) == list(range(8))
    assert optimizer_steps == [(3, 2), (6, 5)], "the optimiser counts the updates that were made"
    assert events[-1] == Outcome("finished", 8, {"skipped_steps": 2})
    assert all(math.isfinite(event.value) for event in events if isinstance(event, Row))
    changed = rows(events, "moment_update_2_2", "layers.2")
    assert [step for step, value in changed.items() if value == 0] == [2, 6], "nothing was changed in those steps"
    assert len(rows(events, "gradient_norm", "layers.1.mlp.up")) < 8 == len(rows(events, "gradient_norm", "head"))


def test_gradients_have_no_scale(build, make_trial, data):
    """Powers of 2 round nothing while neither end of float16 is near: at another scale the first step is the same."""
    probes = ("gradient_norm", "gradient_normality", "moment_update")
    found = []
    for initial in (1, 64, 4096):
        rule = LossScale(initial=initial, every=1000)
        trial = make_trial(recipe__dtype="float16", recipe__loss_scale=rule, measure__probes=probes, recipe__clip=0.05)
        events = run(build(), trial, data)
        read = {(e.metric, e.address): e.value for e in events if isinstance(e, Row) and e.step == 0}
        assert read.pop(("loss_scale", "")) == initial and read.pop(("skipped_steps", "")) == 0
        found.append(read)
    assert len(found[0]) > 30
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=5e-3, abs=1e-5)  # what is below 6e-5 loses bits without a scale


def test_a_scale_that_is_too_large_is_found_out(build, make_trial, data):
    """No gradient is made up here: the largest scale overflows in the first steps, and is halved until it does not."""
    trial = make_trial(recipe__dtype="float16", recipe__loss_scale=LossScale(initial=2**24), measure__every=1)
    events = run(build(), trial, data)
    skipped, scales = rows(events, "skipped_steps"), rows(events, "loss_scale")
    assert 2 <= skipped[7] < 8 and scales[7] == 2 ** (24 - skipped[6])
    assert len(rows(events, "gradient_norm")) == 8 - skipped[7]


def test_a_scale_keeps_gradients_that_float16_would_lose():
    """∂(S L)/∂x / S in float16 of a gradient of 1e-9: 0 without a scale."""
    weight, x = torch.tensor([1.0], dtype=torch.float32, requires_grad=True), torch.tensor([1.0])
    kept = {}
    for scale in (1.0, 65536.0):
        weight.grad = None
        with torch.autocast("cpu", torch.float16):
            y = nn.functional.linear(x, weight[None])
        (y.float().sum() * 1e-9 * scale).backward()
        kept[scale] = weight.grad.item() / scale
    assert kept[1.0] == 0 and kept[65536.0] == pytest.approx(1e-9, rel=1e-2)


def test_products_are_in_float16_and_parameters_are_not(build):
    model, tokens = build(), torch.zeros(2, 6, dtype=torch.int64)
    logits = forward(model, tokens, "float16")
    assert logits.dtype == torch.float16 and {p.dtype for p in model.parameters()} == {torch.float32}
    exact = forward(model, tokens, "float32")
    assert torch.allclose(logits.float(), exact, atol=2e-2)
    assert not torch.equal(logits.float(), exact)


@pytest.mark.parametrize("stop_at", [1, 3, 4, 7])
def test_a_resumed_trial_has_the_same_bits(build, make_trial, data, stop_at):
    trial = make_trial(recipe__dtype="float16", recipe__loss_scale=LossScale(initial=2**12, every=2), measure__every=1)

    def made(passed, seed=0):
        model = overflowing(build(seed=seed, dropout=0.2), at={2, 5})
        model.layers["2"].mlp.between.passes = passed
        return model

    undisturbed = made(0)
    whole = run(undisturbed, trial, data)
    before = run(made(0), trial, data, stop_at=stop_at)
    assert before[-1] == Outcome("interrupted", stop_at)
    resumed = made(stop_at, seed=1)
    after = run(resumed, trial, data, resume=before[-2].state)
    found = [event for event in [*before, *after] if isinstance(event, Row)]
    assert found == [event for event in whole if isinstance(event, Row)]
    assert rows(found, "skipped_steps")[7] == 2 and after[-1] == whole[-1]
    for name, parameter in undisturbed.named_parameters():
        assert torch.equal(parameter, dict(resumed.named_parameters())[name])


def test_what_no_scale_cures_has_diverged(build, make_trial, data):
    """Gradients that are not finite at a scale of 1, after those at 4 and 2 were skipped."""
    trial = make_trial(recipe__dtype="float16", recipe__loss_scale=LossScale(initial=4), measure__every=1)
    events = run(overflowing(build(), at=range(8), value=math.nan), trial, data)
    outcome = events[-1]
    assert (outcome.kind, outcome.step) == ("diverged", 2) and "gradient_norm is nan" in outcome.detail["cause"]
    assert rows(events, "loss_scale") == {0: 4, 1: 2} and outcome.detail["last"]["skipped_steps"] == 2


def test_a_loss_that_is_not_finite_has_diverged_at_once(build, make_trial, data):
    model = build()
    model.head.weight.data.fill_(1e30)
    trial = make_trial(recipe__dtype="float16")
    (outcome,) = [event for event in run(model, trial, data) if isinstance(event, Outcome)]
    assert outcome.kind == "diverged"


def test_other_types_have_no_scale(build, make_trial, data):
    events = run(build(), make_trial(recipe__dtype="bfloat16"), data)
    assert not rows(events, "loss_scale") and not rows(events, "skipped_steps")
    states = [event.state for event in events if isinstance(event, Checkpoint)]
    assert states and all("loss_scale" not in torch.load(io.BytesIO(state), weights_only=True) for state in states)


def test_a_space_is_trained_in_it(tmp_path):
    path = write_world(tmp_path, steps=6, seeds=1)
    text = path.read_text(encoding="utf-8").replace("batch: 4,", "batch: 4, dtype: float16, clip: 1.0,")
    path.write_text(text, encoding="utf-8")
    done = ablate.run(ablate.load_space(path), results=tmp_path / "results", **QUIET)
    assert set(done.ended.kinds) == {"finished"}
    found = dict(query(tmp_path / "results", "SELECT metric, max(value) FROM metrics GROUP BY metric").rows)
    assert found["loss_scale"] == 65536 and found["skipped_steps"] == 0


BLOCKS = ("pre_ln", "sas_p", "op", "op_softcap", "sas", "dslm_pre_ln")


@pytest.mark.full
@pytest.mark.parametrize("block", BLOCKS)
def test_shipped_blocks_are_near_float32_in_it(tmp_path, block):
    """Their loss after a few steps: float16 has 11 bits."""
    path = write_world(tmp_path, steps=6, seeds=1)
    text = path.read_text(encoding="utf-8").replace(
        "{path: {from: pre_ln, to: op}}", f"{{compare: [{block}, post_ln]}}"
    )
    path.write_text(text.replace("block: {attention.position: rope}\n", ""), encoding="utf-8")
    losses = {}
    for dtype in ("float32", "float16"):
        space = ablate.load_space(path, settings=[f"recipe.dtype={dtype}"])
        done = ablate.run(space, results=tmp_path / dtype, **QUIET)
        (variant,) = (v.id for v in done.plan.variants if v.name == block)
        found = query(tmp_path / dtype, f"SELECT eval_loss FROM final WHERE variant_id = '{variant}'").rows
        losses[dtype] = next(iter(found))[0]
    assert losses["float16"] == pytest.approx(losses["float32"], rel=5e-3)
