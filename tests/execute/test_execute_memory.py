"""What a trial is said to need, against what it takes: every tensor that lives is counted, on the CPU."""

import math
import textwrap
import weakref

import pytest
import torch
from altered_trials import altered
from tiny_spaces import write_world
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

import ablate
from ablate.compiler import compile_model
from ablate.compiler.initialise import profile
from ablate.compiler.values import logits_ahead
from ablate.components.registry import declarations
from ablate.execute.executor import Task
from ablate.execute.gpu import LEAST_MEMORY, MARGIN, UNSURE, MemoryForecast, predict_memory
from ablate.space.documents import Choice
from ablate.train.events import Outcome
from ablate.train.loss import cross_entropy, forward, parameter_type
from ablate.train.optimizer import build_optimizer

TOO_LITTLE, TOO_MUCH = 0.9, 2.2
"""A prediction is between these times what was measured."""

BLOCKS = (
    "pre_ln",
    "post_ln",
    "op",
    "op_softcap",
    "sas",
    "sas_p_no_norm",
    "u_spa",
    "parallel",
    "macaron",
    "dslm_pre_ln",
)
SIZES = ["model.layers=3", "model.width=64", "model.heads=4", "model.context=64", "recipe.batch=8"]


class Living(TorchDispatchMode):
    """Counts the bytes of all storages that are made while it is entered and are still alive."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage):
        key = storage._cdata
        if key not in self._known:
            self._known[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._gone, key)

    def _gone(self, key):
        self.now -= self._known.pop(key, 0)


def trial_of(folder, block, *settings):
    other = "op" if block == "pre_ln" else "pre_ln"
    path = write_world(folder)
    text = path.read_text().replace("{path: {from: pre_ln, to: op}}", f"{{compare: [{block}, {other}]}}")
    path.write_text(text.replace("block: {attention.position: rope}\n", ""))
    plan = ablate.check(ablate.load_space(path, settings=[*SIZES, *settings]))
    (variant,) = (variant.id for variant in plan.variants if variant.name == block)
    return next(trial for trial in plan.trials if trial.variant == variant)


def measured(trial, parts=1):
    """The bytes at the peak of the second step of training on the CPU: weights, optimizer's state and all."""
    dtype = trial.work.recipe.dtype
    with Living() as living:
        model = compile_model(
            trial.work.architecture, declarations(), seed=0, salt=0, dtype=parameter_type(dtype), device="cpu"
        )
        optimizer = build_optimizer(model, trial.work.recipe.optimizer, declarations())
        tokens = torch.zeros(trial.work.recipe.batch // parts, trial.work.architecture.sizes.seq_len, dtype=torch.int64)
        for _ in range(2):
            living.peak = 0
            loss = cross_entropy(forward(model, tokens, dtype), tokens)
            sum((cross_entropy(logits, tokens) for logits in logits_ahead(model)), loss).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return living.peak


@pytest.mark.sampled(3)
@pytest.mark.parametrize("block", BLOCKS)
def test_the_formula_is_near_what_is_measured(tmp_path, block):
    trial = trial_of(tmp_path, block)
    predicted = predict_memory(trial, declarations(), device_type="cpu")
    assert TOO_LITTLE < predicted / measured(trial) < TOO_MUCH


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "settings",
    [
        ["recipe.dtype=float64"],
        ["recipe.dtype=bfloat16"],
        ["recipe.batch=32", "model.context=16"],
        ["model.width=256", "recipe.batch=1"],
        ["model.context=256", "recipe.batch=2"],
        ["model.layers=8"],
        ["model.ahead=2", "recipe.loss={ahead: [0.5, 0.25]}"],
    ],
    ids=str,
)
def test_it_follows_type_batch_width_context_and_depth(tmp_path, settings):
    trial = trial_of(tmp_path, "pre_ln", *settings)
    predicted = predict_memory(trial, declarations(), device_type="cpu")
    assert TOO_LITTLE < predicted / measured(trial) < TOO_MUCH


def test_scores_are_counted_on_the_heads_that_a_block_has_itself(tmp_path):
    sizes = ["model.context=128", "recipe.batch=2"]
    own = trial_of(tmp_path, "op_softcap", *sizes, "block={attention.heads: 16}")
    predicted = predict_memory(own, declarations(), device_type="cpu")
    assert TOO_LITTLE < predicted / measured(own) < TOO_MUCH
    plain = trial_of(tmp_path, "op_softcap", *sizes)
    assert predict_memory(plain, declarations(), device_type="cpu") / measured(own) < TOO_LITTLE, (
        "else this could not fail"
    )


OPTIMIZERS = ("adamw", "adam", "sgd", "lion", "muon", "soap")


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [*OPTIMIZERS[:2], *(pytest.param(name, marks=pytest.mark.full) for name in OPTIMIZERS[2:])]
)
def test_it_follows_the_optimiser(tmp_path, name):
    """Few tokens, so that state and weights are most of it; the twin: what is said of another is out of bounds."""
    few = ["recipe.batch=1", "model.context=8", "model.width=96"]

    def predicted(other):
        settings = [*few, f"recipe.optimizer={{{other}: {{lr: 1e-3}}}}"]
        return predict_memory(trial_of(tmp_path / other, "pre_ln", *settings), declarations(), device_type="cpu")

    trial = trial_of(tmp_path / "own", "pre_ln", *few, f"recipe.optimizer={{{name}: {{lr: 1e-3}}}}")
    assert TOO_LITTLE < predicted(name) / measured(trial) < TOO_MUCH
    if name == "soap":
        assert predicted("adamw") / measured(trial) < TOO_LITTLE
    assert (
        predicted("soap")
        > predicted("adamw")
        == predicted("adam")
        > predicted("muon")
        > predicted("sgd")
        == predicted("lion")
    )


def test_of_an_optimiser_that_reads_numbers_two_moments_are_assumed(tmp_path):
    reads = """
        from ablate.train.optimizers.declare import Settings, groups, implements, optimizer

        @optimizer("reads", source="this test")
        class Reads(Settings):
            '''None of its own.'''

        from ablate.train.optimizers.by_parameter import ByParameter

        class ReadsIt(ByParameter):
            def update(self, parameter, gradient, state, group):
                if gradient.norm().item() > 0:
                    parameter.sub_(group["lr"] * gradient)

        @implements(Reads)
        def build(parameters, settings):
            return ReadsIt(groups(parameters), {"lr": settings.lr})
    """
    plugin = tmp_path / "reads.py"
    plugin.write_text(textwrap.dedent(reads))
    like_adam = trial_of(tmp_path / "adamw", "pre_ln")
    chosen = Choice("reads", {"lr": 1e-3, "embedding_lr": None, "weight_decay": 0.0, "decays": []})
    trial = altered(like_adam, recipe=like_adam.work.recipe.model_copy(update={"optimizer": chosen}))
    assert predict_memory(trial, declarations((plugin,))) == pytest.approx(
        predict_memory(like_adam, declarations()), rel=1e-4
    )


def test_half_a_batch_is_less_and_near_what_is_measured(tmp_path):
    """The twin: the bounds above see a factor of four."""
    trial = trial_of(tmp_path, "pre_ln", "recipe.batch=32")
    whole, quarter = (predict_memory(trial, declarations(), parts=parts, device_type="cpu") for parts in (1, 4))
    assert quarter == predict_memory(trial, declarations(), ranks=4, device_type="cpu")
    assert TOO_LITTLE < quarter / measured(trial, parts=4) < TOO_MUCH
    assert not TOO_LITTLE < whole / measured(trial, parts=4) < TOO_MUCH


def test_a_pass_over_the_whole_first_batch_is_no_less_for_parts(tmp_path):
    """Admin looks at all of it before training, however it is cut then; the twin: Pre-LN does not."""
    settings = ["recipe.batch=512", "model.layers=2"]
    admin, other = (trial_of(tmp_path, block, *settings) for block in ("admin", "pre_ln"))
    cut = predict_memory(admin, declarations(), parts=512, device_type="cpu")
    assert cut == predict_memory(admin, declarations(), parts=512, ranks=2, device_type="cpu")
    with Living() as living:
        model = compile_model(
            admin.work.architecture, declarations(), seed=0, salt=0, dtype=parameter_type("float32"), device="cpu"
        )
        living.peak = 0
        profile(model, torch.zeros(512, admin.work.architecture.sizes.seq_len, dtype=torch.int64))
    assert 0.7 < cut / living.peak < TOO_MUCH
    assert predict_memory(other, declarations(), parts=512, device_type="cpu") < 0.3 * living.peak


def test_what_was_measured_counts_more_than_what_was_predicted(tmp_path):
    trial = trial_of(tmp_path, "pre_ln", "model.width=256", "recipe.batch=64")
    task, peak = Task(trial=trial, folder=tmp_path), 3 * LEAST_MEMORY
    forecast = MemoryForecast(declarations())
    assert forecast.needed(task) == max(LEAST_MEMORY, math.ceil(UNSURE * predict_memory(trial, declarations())))
    forecast.learn(trial, 1, 1, Outcome("out_of_memory", 0, {"peak_memory": 9 * peak}))
    assert forecast.needed(task) != math.ceil(MARGIN * 9 * peak), "it died before it had what it needs"
    forecast.learn(trial, 2, 1, Outcome("finished", 9, {"peak_memory": 9 * peak}))
    assert forecast.needed(task) != math.ceil(MARGIN * 9 * peak), "in other parts it needs other memory"
    forecast.learn(trial, 1, 1, Outcome("finished", 9, {"peak_memory": peak}))
    forecast.learn(trial, 1, 1, Outcome("paused", 3, {"peak_memory": peak - 1}))
    assert forecast.needed(task) == math.ceil(MARGIN * peak)
    earlier = [(trial, Outcome("finished", 9, {"peak_memory": peak, "parts": 2}))]
    assert MemoryForecast(declarations(), earlier).needed(task) == MemoryForecast(declarations()).needed(task)
    earlier = [(trial, Outcome("finished", 9, {"peak_memory": peak}))]
    assert MemoryForecast(declarations(), earlier).needed(task) == math.ceil(MARGIN * peak)


def test_the_average_of_the_weights_is_one_copy_of_them(tmp_path):
    plain = trial_of(tmp_path / "plain", "pre_ln")
    averaged = trial_of(tmp_path / "averaged", "pre_ln", "recipe.average={ema: 0.9}")
    needed = [predict_memory(trial, declarations(), device_type="cpu") for trial in (plain, averaged)]
    parameters = sum(
        p.numel() for p in compile_model(plain.work.architecture, declarations(), device="meta").parameters()
    )
    assert needed[1] - needed[0] == 4 * parameters
    forecast = MemoryForecast(declarations())
    forecast.learn(plain, 1, 1, Outcome("finished", 12, {"peak_memory": 10**9}))
    tasks = [Task(trial=trial, folder=tmp_path) for trial in (plain, averaged)]
    assert [forecast.needed(task) == math.ceil(MARGIN * 10**9) for task in tasks] == [True, False]
