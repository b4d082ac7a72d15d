"""A trial that is interrupted and resumed ends with the same bits as one that is not."""

import io

import pytest
import torch

from ablate.errors import RefusedError
from ablate.train.events import Checkpoint, Outcome, Row
from ablate.train.loop import train


def run(model, trial, data, *, resume=None, stop_at=None):
    """All events; asked to stop at its `stop_at`-th step."""
    asked = iter(range(10_000))
    return list(train(model, trial, data, data.evaluation, resume=resume, should_stop=lambda: next(asked) == stop_at))


def rows(events):
    return [event for event in events if isinstance(event, Row)]


def state(checkpoint):
    return torch.load(io.BytesIO(checkpoint.state), weights_only=True)


def leaves(tree, path=""):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(tree, list | tuple):
        for place, value in enumerate(tree):
            yield from leaves(value, f"{path}[{place}]")
    else:
        yield path, tree


def assert_same_state(a, b):
    for (path, left), (_, right) in zip(leaves(a), leaves(b), strict=True):
        same = torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
        assert same, path


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stop_at", [0, 1, 3, 4, 6, 7])
def test_an_interrupted_trial_ends_with_the_same_bits(build, make_trial, data, stop_at, dtype):
    trial = make_trial(recipe__dtype=dtype)
    undisturbed = build(dropout=0.2)
    whole = run(undisturbed, trial, data)

    before = run(build(dropout=0.2), trial, data, stop_at=stop_at)
    assert before[-1] == Outcome("interrupted", stop_at)
    checkpoint = before[-2]
    assert isinstance(checkpoint, Checkpoint)
    assert checkpoint.step == stop_at

    model = build(seed=1, dropout=0.2)  # other parameters: all of them must come from the state
    torch.manual_seed(77)
    after = run(model, trial, data, resume=checkpoint.state)
    assert rows(before) + rows(after) == rows(whole)
    assert after[-1] == whole[-1]
    for (name, a), b in zip(undisturbed.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    later = [state(e) for e in whole if isinstance(e, Checkpoint) and e.step > stop_at]
    resumed = [state(e) for e in after if isinstance(e, Checkpoint)]
    for a, b in zip(later, resumed, strict=True):
        assert_same_state(a, b)


def test_a_trial_resumed_from_a_periodic_checkpoint_repeats_what_came_after_it(build, make_trial, data):
    """A killed trial goes on from its last checkpoint; rows it had yielded since come again, the same."""
    whole = run(build(dropout=0.2), make_trial(), data)
    checkpoint = next(e for e in whole if isinstance(e, Checkpoint))
    after = run(build(seed=1, dropout=0.2), make_trial(), data, resume=checkpoint.state)
    assert rows(after) == [row for row in rows(whole) if row.step >= checkpoint.step]


@pytest.mark.parametrize("forgotten", ["model", "optimizer", "random"])
def test_without_any_of_its_parts_it_ends_with_others(build, make_trial, data, forgotten):  # the tests above can fail
    whole = run(build(dropout=0.2), make_trial(), data)
    saved = state(next(e for e in whole if isinstance(e, Checkpoint)))
    match forgotten:
        case "model":
            saved["model"] = build(seed=1).state_dict()
        case "optimizer":
            for moments in saved["optimizer"]["state"].values():
                moments["exp_avg"].zero_()
        case "random":
            saved["random"] = torch.Generator().manual_seed(3).get_state()
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    after = run(build(dropout=0.2), make_trial(), data, resume=buffer.getvalue())
    assert rows(after) != [row for row in rows(whole) if row.step >= saved["step"]]


def test_a_state_of_another_trial_or_no_state_at_all_is_refused(build, make_trial, data):
    checkpoint = run(build(), make_trial(), data, stop_at=2)[-2]
    with pytest.raises(RefusedError, match="belongs to trial a-trial"):
        run(build(), make_trial(id="b-trial"), data, resume=checkpoint.state)
    for broken in (b"", b"not a state", checkpoint.state[: len(checkpoint.state) // 2]):
        with pytest.raises(RefusedError, match="cannot be read"):
            run(build(), make_trial(), data, resume=broken)


class Evil:
    def __reduce__(self):
        return (print, ("code was run",))


def test_a_state_cannot_run_code(build, make_trial, data, capsys):
    buffer = io.BytesIO()
    torch.save({"trial": Evil()}, buffer)
    with pytest.raises(RefusedError):
        run(build(), make_trial(), data, resume=buffer.getvalue())
    assert "code was run" not in capsys.readouterr().out
