"""A batch in parts gives the whole batch's loss, gradient and update; what probes read of it is near, or exact."""

import dataclasses

import pytest
import torch
from builders import node
from objectives import next_token

from ablate.block.expression import Sequence
from ablate.compiler import compile_model
from ablate.components.registry import declarations
from ablate.data.batch import Batch, Examples
from ablate.errors import RefusedError
from ablate.probes.registry import probe_names, select
from ablate.space.metrics import SITES
from ablate.train import data_parallel as ranks_module
from ablate.train import microbatches as parts_module
from ablate.train.data_parallel import Ranks
from ablate.train.events import Checkpoint, Outcome, Row
from ablate.train.loop import train
from ablate.train.loss import parameter_type
from ablate.train.microbatches import BatchShares, Passes, most_parts
from ablate.train.objective import evaluate

STEPS, BATCH = 24, 7  # no number of parts below 7 divides it
EXACT = ("train_loss", "eval_loss", "gradient_norm", "learning_rate")
CLOSE = {"float64": 1e-9, "float32": 1e-4}
MEANS = (
    "max_median_ratio",
    "max_median_ratio_as_released",
    "max_median_ratio_centred",
    "attention_entropy",
    "token_cosine",
)


class Batches:
    """Batches of any size, and any number of windows to evaluate on."""

    def __init__(self, tokens, batch=BATCH):
        self.tokens, self.batch = tokens, batch
        self.evaluation = Examples(*tokens.windows(10, 999), bytes=None)

    def at(self, step):
        return self.tokens.windows(self.batch, step)


@pytest.fixture
def trial(make_trial):
    def trial(dtype="float64", **changes):
        made = {"recipe__batch": BATCH, "recipe__steps": STEPS, "recipe__dtype": dtype, "measure__every": 1, **changes}
        return make_trial(**made)

    return trial


@pytest.fixture
def regulated(make_trial):
    """A shipped block with state that each pass in training moves: what power iterations make of queries and keys."""
    dense, norm = node("dense", bias=False), node("layer_norm", bias=True)
    weights = dict.fromkeys(("query", "key", "value", "projection"), dense)
    attention = node("attention", entropy=(node("sigma_reparam"),), **weights)
    mlp = node("mlp", up=dense, down=dense)
    block = Sequence(tuple(node("residual", branch=Sequence((norm, part))) for part in (attention, mlp)))
    init = node("normal", std=0.2)
    architecture = dataclasses.replace(make_trial().work.architecture, block=block, final_norm=norm, init=init)
    return lambda dtype: compile_model(architecture, declarations(), seed=0, dtype=parameter_type(dtype))


def run(model, trial, batches, *, parts=1, **how):
    cut = BatchShares(parts)
    events = list(train(model, trial, batches, batches.evaluation, should_stop=lambda: False, cut=cut, **how))
    assert isinstance(events[-1], Outcome)
    return events


def rows(events, metrics=None):
    found = {(e.metric, e.address, e.step): e.value for e in events if isinstance(e, Row)}
    return {key: value for key, value in found.items() if metrics is None or key[0] in metrics}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("parts", [3, 100])
def test_parts_train_the_model_that_the_whole_batch_trains(regulated, trial, data, parts, dtype):
    batches, whole, cut = Batches(data), regulated(dtype), regulated(dtype)
    made = trial(dtype, measure__probes=())
    expected = run(whole, made, batches)
    actual = run(cut, made, batches, parts=parts)
    assert actual[-1] == expected[-1] == Outcome("finished", STEPS)
    assert {metric for metric, _, _ in rows(actual)} == set(EXACT)
    assert rows(actual) == pytest.approx(rows(expected), rel=CLOSE[dtype])
    moving = [name for name, _ in whole.named_buffers()]
    assert len(moving) == 8  # the vectors of power iterations are among what must agree
    for (name, a), b in zip(whole.state_dict().items(), cut.state_dict().values(), strict=True):
        assert (a - b).abs().max() <= CLOSE[dtype] * a.abs().max(), name


@pytest.mark.fast
def test_weights_by_parts_train_another(regulated, trial, data, monkeypatch):  # the test above can fail
    batches = Batches(data)
    made = trial(measure__probes=())
    expected = rows(run(regulated("float64"), made, batches))
    part = parts_module.Microbatch
    monkeypatch.setattr(
        parts_module, "Microbatch", lambda batch, weight, shares: part(batch, weight, dict.fromkeys(shares, 1 / 3))
    )
    found = rows(run(regulated("float64"), made, batches, parts=3))
    assert found != pytest.approx(expected, rel=1e-6)


@pytest.mark.fast
def test_state_that_moves_with_every_part_trains_another(regulated, trial, data, monkeypatch):  # and so
    batches = Batches(data)
    made = trial(measure__probes=())
    expected = rows(run(regulated("float64"), made, batches))
    monkeypatch.setattr(Passes, "_stand_again", lambda self, before: None)
    found = rows(run(regulated("float64"), made, batches, parts=3))
    assert found != pytest.approx(expected, rel=CLOSE["float64"])


def test_what_is_a_mean_over_tokens_or_of_parameters_is_exact(build, trial, data):
    batches, probed = Batches(data, batch=8), {"measure__probes": probe_names(), "recipe__batch": 8}
    expected = rows(run(build(dtype=torch.float64), trial(**probed), batches))
    found = rows(run(build(dtype=torch.float64), trial(**probed), batches, parts=3))
    same = {key for key in expected if found[key] == pytest.approx(expected[key], rel=1e-9, nan_ok=True)}
    near = {metric for metric, _, _ in expected.keys() - same}
    for site in SITES:
        near = {metric.removesuffix(f"_{site}") for metric in near}  # at any site as at the inputs of blocks
    assert near == {
        "activation_rms",
        "activation_rms_as_released",
        "feature_correlation_rms",
        "feature_correlation_rms_as_released",
        "gradient_normality",
        "kurtosis",
        "kurtosis_as_released",
        "kurtosis_centred",
        "max_median_ratio_centred_max",
        "max_median_ratio_centred_median",
        "max_median_ratio_max",
        "max_median_ratio_median",
        "moment_update_4_1",
        "moment_update_4_2",
        "moment_update_4_3",
        "moment_update_4_4",
        "normality",
        "one_step_sensitivity",
        "stream_gradient",
        "token_correlation_mean",
        "token_correlation_mean_as_released",
        "token_correlation_rms",
        "token_correlation_rms_as_released",
        "token_norm_kurtosis",
    }
    assert {metric for metric, _, _ in same} >= {*MEANS, "gain", "gain_rms", "gradient_norm"}


@pytest.mark.full
@pytest.mark.parametrize(("sequences", "within"), [(1, 0.5), (4, 0.1), (16, 0.03)])
def test_how_far_kurtosis_is_off(build, trial, data, sequences, within):
    """In four parts of so many sequences of six tokens; the docstring of `microbatches.py` says these numbers."""
    off = 0.0
    for stream in range(24):
        batches = Batches(data, batch=4 * sequences)
        batches.evaluation = Examples(*data.windows(4 * sequences, stream), bytes=None)  # one batch of them
        probed = trial(measure__probes=("kurtosis",), recipe__batch=4 * sequences, recipe__steps=2)
        expected = rows(run(build(dtype=torch.float64), probed, batches), ("kurtosis",))
        found = rows(run(build(dtype=torch.float64), probed, batches, parts=4), ("kurtosis",))
        off = max(off, *(abs(found[key] / expected[key] - 1) for key in expected))
    assert within / 4 < off < within


@pytest.mark.fast
def test_with_dropout_parts_draw_in_turn_and_go_on_with_the_same_bits(build, trial, data):
    batches, made = Batches(data), trial("float32", measure__checkpoint_every=5)
    whole = run(build(dropout=0.2), made, batches)
    cut = run(build(dropout=0.2), made, batches, parts=3)
    assert rows(cut, ("train_loss",)) != pytest.approx(rows(whole, ("train_loss",)), rel=1e-4)
    kept = next(e for e in cut if isinstance(e, Checkpoint))
    after = run(build(seed=1, dropout=0.2), made, batches, parts=3, resume=kept.state)
    assert rows(after) == {key: value for key, value in rows(cut).items() if key[2] >= kept.step}


class Sometimes(torch.nn.Module):
    """Not finite for sequences that begin with a token."""

    def __init__(self, token):
        super().__init__()
        self.token, self.first = token, None

    def forward(self, x):
        return x if self.first is None else x.masked_fill((self.first == self.token)[:, None, None], float("nan"))


@pytest.mark.fast
def test_divergence_in_any_part_names_what_the_whole_batch_names(build, trial, data):
    batches = Batches(data)

    def diverging():
        model = build()
        model.layers["1"].mlp.between = between = Sometimes(token=int(batches.at(3)[0][-1, 0]))
        model.register_forward_pre_hook(lambda _, inputs: setattr(between, "first", inputs[0][:, 0]))
        return model

    expected, actual = (run(diverging(), trial("float32"), batches, parts=parts)[-1] for parts in (1, 4))
    assert expected.kind == "diverged" and expected.detail["address"] == "layers.1.mlp.between"
    assert actual.step == expected.step
    for name in ("cause", "seen", "address", "layer"):
        assert actual.detail[name] == expected.detail[name]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("until", [0, 4, 5, 13])
def test_a_trial_pauses_once_its_rung_is_measured_and_goes_on_with_the_same_bits(build, trial, data, until):
    batches, made = Batches(data), trial("float32")
    whole = run(build(dropout=0.2), made, batches)
    before = run(build(dropout=0.2), made, batches, until=until)
    assert before[-1] == Outcome("paused", until + 1)
    assert isinstance(before[-2], Checkpoint) and before[-2].step == until + 1
    assert rows(before) == {key: value for key, value in rows(whole).items() if key[2] <= until}
    assert ("eval_loss", "", until) in rows(before) or until % 4
    again = run(build(seed=1), made, batches, until=until, resume=before[-2].state)
    assert again == [Outcome("paused", until + 1)]
    model = build(seed=1, dropout=0.2)
    after = run(model, made, batches, until=STEPS - 1, resume=before[-2].state)
    assert rows(before) | rows(after) == rows(whole)
    assert after[-1] == whole[-1]  # a rung at the last step is the end


@pytest.mark.fast
def test_more_ranks_than_sequences_are_refused(build, trial, data):
    batches = Batches(data)
    with pytest.raises(RefusedError, match="a batch of 7 sequences cannot be divided among 8 ranks"):
        list(
            train(
                build(),
                trial(),
                batches,
                batches.evaluation,
                should_stop=lambda: False,
                cut=BatchShares(1, Ranks(0, 8)),
            )
        )


@pytest.mark.fast
def test_a_batch_is_shared_out_whole_and_in_order():
    windows = torch.arange(7 * 2).reshape(7, 2)
    batch = Batch(windows, windows + 1)
    for ranks in (1, 2, 3, 7):
        for parts in (1, 2, 5):
            cut = [
                BatchShares(parts, Ranks(rank, ranks)).of(batch, torch.device("cpu"), next_token())
                for rank in range(ranks)
            ]
            pieces = [part for here in cut for part in here]
            assert torch.equal(torch.cat([part.inputs for part in pieces]), windows)
            assert all(torch.equal(part.inputs + 1, part.batch.targets) for part in pieces)
            assert sum(part.weight for part in pieces) == pytest.approx(1)
            assert max(map(len, cut)) == min(parts, most_parts(7, ranks))
            sizes = [len(part.inputs) for part in pieces]
            assert max(sizes) - min(sizes) <= 2


@pytest.mark.fast
def test_gradients_are_summed_by_the_bucket(monkeypatch):
    monkeypatch.setattr(ranks_module, "BUCKET", 10)
    gradients = [
        torch.full((n,), 1.0, dtype=dtype)
        for n, dtype in [
            (4, torch.float32),
            (6, torch.float32),
            (1, torch.float32),
            (30, torch.float32),
            (2, torch.float64),
            (2, torch.float64),
        ]
    ]
    assert [[len(g) for g in bucket] for bucket in ranks_module._buckets(gradients)] == [[4, 6], [1], [30], [2, 2]]
    sent = []
    monkeypatch.setattr(Ranks, "total", lambda self, flat: sent.append(len(flat)) or flat.mul_(len(sent)))
    Ranks(0, 2).add_gradients(gradients)
    assert sent == [10, 1, 30, 4]
    assert [float(g[0]) for g in gradients] == [1, 1, 2, 3, 4, 4]


@pytest.mark.fast
def test_a_rank_that_has_no_window_adds_nothing_and_reads_at_the_same_places(build, trial, data, monkeypatch):
    """One window for two ranks: both know what to add up, or the one would wait for the other for ever."""
    monkeypatch.setattr(ranks_module.dist, "all_reduce", lambda value: None)
    model, made, window = (
        build(dtype=torch.float64),
        trial(measure__probes=probe_names()),
        Examples(*data.windows(1, 999), bytes=None),
    )
    probes = [probe for probe in select(probe_names()) if not probe.of_parameters]
    alone, first, second = (
        rows(evaluate(model, window, 0, made, BatchShares(1, ranks), next_token(), probes))
        for ranks in (Ranks(), Ranks(0, 2), Ranks(1, 2))
    )
    assert first == alone and second == dict.fromkeys(alone, 0.0)
    assert {metric for metric, _, _ in alone} > {"eval_loss", "kurtosis", "attention_entropy"}
