"""Training a model as the compiler builds it: the names and classes that training relies on are the compiler's."""

import dataclasses

import pytest
import recipes
import torch
from altered_trials import altered
from builders import node

from ablate.block.arithmetic import parse
from ablate.block.expression import Gain, Node, Sequence, Size
from ablate.compiler import compile_model
from ablate.components.registry import declarations
from ablate.probes.registry import probe_names
from ablate.train.events import Outcome, Row
from ablate.train.loop import train
from ablate.train.loss import parameter_type

DENSE = node("dense", bias=True)
NORM = node("layer_norm", bias=True)
WEIGHTS = dict.fromkeys(("query", "key", "value", "projection"), DENSE)
ATTENTION = node("attention", entropy=(node("qk_norm", norm=NORM),), **WEIGHTS)
MLP = node("mlp", hidden=Size(multiple=2), up=DENSE, down=DENSE)


def residual(part, gain):
    return Node("residual", (("skip", Gain(parse(1))), ("gain", gain), ("branch", Sequence((NORM, part)))))


BLOCK = Sequence(
    (
        residual(ATTENTION, Gain(parse("1/sqrt(2*depth)"), trainable=True)),
        residual(MLP, Gain(parse(0.1), trainable=True, per="channel")),
    )
)


@pytest.fixture
def compiled(make_trial):
    trial = make_trial(measure__probes=probe_names(), recipe__steps=4)
    init = node("normal", std=0.2)
    architecture = dataclasses.replace(trial.work.architecture, block=BLOCK, final_norm=NORM, init=init)

    def compiled(tied=False, dtype="float32"):
        shape = dataclasses.replace(architecture, tied=tied)
        return compile_model(shape, declarations(), seed=0, dtype=parameter_type(dtype))

    return compiled, trial


@pytest.mark.parametrize("tied", [False, True])
def test_the_matrices_that_decay(compiled, tied):
    build, _ = compiled
    model = build(tied=tied)
    weights = ["attention.query", "attention.key", "attention.value", "attention.projection", "mlp.up", "mlp.down"]
    expected = {f"layers.{i}.{weight}.weight" for i in (1, 2) for weight in weights} | {"embedding.weight"}
    decays = {address: decay for address, _, decay in recipes.decaying(model, ("weights", "embedding", "head"))}
    assert {a for a, decay in decays.items() if decay} == expected | (set() if tied else {"head.weight"})
    assert decays["positions.weight"] is False


def test_the_parameters_with_the_embeddings_rate(compiled, make_trial):
    build, _ = compiled
    model = build()
    adamw = recipes.adamw(embedding_lr=1e-3)
    apart = {id(p) for g in recipes.parameter_groups(model, adamw) if g["name"] == "embedding" for p in g["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in apart}
    assert names == {"embedding.weight", "positions.weight", "head.weight"}


@pytest.mark.parametrize(("tied", "dtype"), [(False, "float32"), (True, "float32"), (False, "float64")])
def test_every_probe_reads_at_the_addresses_of_the_parts(compiled, make_trial, data, tied, dtype):
    build, trial = compiled
    trial = altered(trial, recipe=trial.work.recipe.model_copy(update={"dtype": dtype}))
    model = build(tied=tied, dtype=dtype)
    events = list(train(model, trial, data, data.evaluation, should_stop=lambda: False))
    assert events[-1] == Outcome("finished", 4)
    rows = {(e.metric, e.address): e.value for e in events if isinstance(e, Row) and e.step in (3, 4)}
    assert {a for m, a in rows if m == "kurtosis"} == {"layers.1", "layers.2", "head"}
    assert {a for m, a in rows if m == "attention_entropy"} == {"layers.1.attention", "layers.2.attention"}
    assert {a for m, a in rows if m == "gain"} == {f"layers.{i}.attention_residual.gain" for i in (1, 2)}
    assert {a for m, a in rows if m == "gain_rms"} == {f"layers.{i}.mlp_residual.gain" for i in (1, 2)}
    for metric, address in rows:
        part, _, _ = address.partition("[")  # a cell of a matrix is written behind the part: `layers.1[0,3]`
        assert part in ("", "head", "layers.end") or model.get_submodule(part) is not None, metric
    assert torch.tensor(list(rows.values())).isfinite().all()
