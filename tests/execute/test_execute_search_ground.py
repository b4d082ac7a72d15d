"""The ground of a search: what a space makes of derivations, which of them it refuses and why."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import CATALOGUE
from example_counts import examples_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reading import ROOT
from space_fixtures import space as small

from ablate.block.address import parts_by_name
from ablate.block.architecture import sizes_named
from ablate.block.arithmetic import parse
from ablate.block.expression import Block, Gain, Node, Sequence, walk
from ablate.block.reader import MOST_PARTS
from ablate.compiler import compile_model, size_report
from ablate.components.registry import implementation
from ablate.data.batch import Batch, Examples
from ablate.errors import InputError, RefusedError
from ablate.execute.search.ranking import ladder_of
from ablate.execute.search.search_space import TOO_LONG, UNBUILT, VETO, SpaceGround, space_ground
from ablate.grammar.mutate import draw
from ablate.plan.build import build_plan
from ablate.plan.plan import Trial
from ablate.space.design import Pruner, Rungs, misplaced
from ablate.space.space import Space
from ablate.train.data_parallel import pin_threads
from ablate.train.events import Row
from ablate.train.loop import train
from ablate.train.loss import parameter_type

SEARCH = "{search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 60}}}"
VOCABULARY = 32


def searching(folder: Path, *settings: str, **sections: str) -> Space:
    return small(folder, *settings, **{"design": SEARCH, **sections})


def batch(seed: int = 0) -> Batch:
    windows = torch.randint(0, VOCABULARY, (4, 17), generator=torch.Generator().manual_seed(seed))
    return Batch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())


def ground(space: Space) -> SpaceGround:
    return space_ground(space, vocab_size=VOCABULARY, repetition=None, tokens=batch)


def starting(folder: Path, *settings: str, **sections: str) -> SpaceGround:
    """One that measures starts."""
    return ground(searching(folder, "design.search.beforehand.order={by: start_loss, of: 2}", *settings, **sections))


def vetoing(folder: Path, veto: str, *settings: str, **sections: str) -> SpaceGround:
    return ground(searching(folder, f"design.search.beforehand.veto={veto}", *settings, **sections))


def drawn(of: SpaceGround, n: int, seed: int = 0) -> list[Block]:
    """Uniform draws, whether they are admitted or not."""
    rng = random.Random(seed)
    return [of.derive(rng.randrange(of.count)) for _ in range(n)]


def admitted(of: SpaceGround, n: int) -> list[Block]:
    rng = random.Random(0)
    return [draw(of, rng).block for _ in range(n)]


def pre_ln(of: SpaceGround) -> Block:
    return of.space.blocks["pre_ln"]


def attention_of(block: Block) -> Node:
    return next(node for node in walk(block) if node.name == "attention")


def changed(block: Block, part: str, **fields: object) -> Block:
    """The block with fields of all components of that name changed, by a walk of the test's own."""

    def inside(value: object) -> object:
        if isinstance(value, Node):
            mine = {
                name: fields[name] if value.name == part and name in fields else inside(v) for name, v in value.fields
            }
            return Node(value.name, tuple(mine.items()))  # type: ignore[arg-type]
        if isinstance(value, Sequence):
            return Sequence(tuple(inside(one) for one in value))  # type: ignore[misc]
        return value

    found = inside(block)
    assert isinstance(found, Sequence)
    return found


def test_what_is_drawn_can_be_built_and_gives_finite_logits(tmp_path: Path) -> None:
    here = ground(searching(tmp_path))
    tokens, _ = batch()
    for block in admitted(here, 10):
        model = compile_model(here.models.architecture(block), CATALOGUE)
        with torch.no_grad():
            logits = model(tokens)
        assert logits.shape == (4, 16, VOCABULARY)
        assert torch.isfinite(logits).all()


@pytest.mark.slow
def test_many_that_are_drawn_can_be_built_and_learn(tmp_path: Path) -> None:
    here = ground(searching(tmp_path))
    tokens, targets = batch()
    for block in admitted(here, 400):
        model = compile_model(here.models.architecture(block), CATALOGUE)
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        assert math.isfinite(loss.item())
        assert any(p.grad is not None and bool((p.grad != 0).any()) for p in model.parameters())


def test_overrides_are_made_to_what_is_derived(tmp_path: Path) -> None:
    plain = drawn(ground(searching(tmp_path)), 40)
    overridden = drawn(ground(searching(tmp_path, block="{attention.position: rope, attention.key.bias: true}")), 40)
    told = {field: attention_of(overridden[0])[field] for field in ("position", "key")}
    assert [getattr(value, "name", None) for value in told.values()] == ["rope", "dense"]
    assert overridden == [changed(block, "attention", **told) for block in plain]
    assert all(one != other for one, other in zip(plain, overridden, strict=True))


BARE = {
    "blocks": "{bare: [residual: [attention], residual: [mlp]]}",
    "judge": "{against: bare, metrics: {eval_loss: {}}}",
}


@pytest.mark.full
def test_constraints_are_asked_of_what_the_overrides_make(tmp_path: Path) -> None:
    """The override brings a norm of queries and keys, and with it the constraint on another before attention."""
    overridden = ground(searching(tmp_path, "design.search.from=bare", block="{attention.pre_qk: rms_norm}", **BARE))
    plain = ground(searching(tmp_path))
    why = "a norm before attention already normalises what pre_qk would; say one of them"
    before = sum(why in plain.refusals(block) for block in drawn(plain, 60))
    blocks = drawn(overridden, 60)
    normed = [block for block in blocks if _normed_before(block)]
    assert [block for block in blocks if why in overridden.refusals(block)] == normed
    assert before < len(normed) < len(blocks)


def _normed_before(block: Block) -> bool:
    return any(name.startswith("attention_norm") for name, _ in parts_by_name(block, CATALOGUE))


def test_what_cannot_take_an_override_is_refused_and_is_no_error(tmp_path: Path) -> None:
    leaky = {
        "blocks": "{leaky: [residual: [attention], residual: [mlp: {activation: leaky_relu}]]}",
        "judge": "{against: leaky, metrics: {eval_loss: {}}}",
    }
    here = ground(searching(tmp_path, "design.search.from=leaky", block="{mlp.activation.slope: 0.3}", **leaky))
    blocks = drawn(here, 150)
    for block in blocks:
        first = next(node for name, node in parts_by_name(block, CATALOGUE) if name == "mlp")["activation"]
        assert isinstance(first, Node)
        if first.name == "leaky_relu":
            assert first["slope"] == 0.3
        else:
            misfit = f"an override of the space does not fit: {first.name} has no field 'slope'"
            assert here.refusals(block) == (misfit,)
    assert any(not here.refusals(block) for block in blocks)


@pytest.mark.full
def test_what_cannot_be_built_at_these_sizes_is_refused(tmp_path: Path) -> None:
    """Rotations go in pairs, and a head of 9 has an odd one out."""
    here = ground(searching(tmp_path, "model.width=36", block="{attention.matrix: softmax}"))
    blocks = drawn(here, 30)
    unbuilt = {one for block in blocks for one in here.refusals(block) if one.startswith(UNBUILT)}
    assert len(unbuilt) == 1
    assert "\n" not in next(iter(unbuilt))
    rotated = [block for block in blocks if attention_of(block)["position"] is not None]
    assert all(here.refusals(block) for block in rotated)
    fitting = ground(searching(tmp_path, block="{attention.matrix: softmax}"))
    assert not any(one.startswith(UNBUILT) for block in blocks for one in fitting.refusals(block))


@pytest.mark.full
def test_what_shows_only_when_weights_are_filled_is_refused(tmp_path: Path) -> None:
    """No declaration tells that an MLP that widens has no inverse; one that does not is filled."""
    undone = "mlp.down.init: {inverse: {of: up, init: {normal: 0.02}}}"
    here = ground(searching(tmp_path, block=f"{{{undone}}}"))
    # Two MLPs in a block have names of their own, and the override speaks of the first alone.
    blocks = [block for block in drawn(here, 40) if not here.space.grammar.refusals(block)]
    assert blocks
    for block in blocks:
        assert here.models.cost(block).parameters
        why = "inverse: layers.1.mlp.down maps a width of 128 to one of 32, and has no inverse"
        assert here.refusals(block) == (UNBUILT + why,)
    square = ground(searching(tmp_path, block=f"{{{undone}, mlp.hidden: 1x}}"))
    assert any(not square.refusals(block) for block in drawn(square, 40))


def test_a_component_that_breaks_refuses_its_block_and_stops_no_search(tmp_path: Path, monkeypatch: Any) -> None:
    here = ground(searching(tmp_path))
    block = pre_ln(here)
    assert here.refusals(block) == ()
    monkeypatch.setattr(implementation(CATALOGUE["layer_norm"]), "__init__", _broken)
    again = ground(here.space)
    assert again.refusals(block) == (f"{UNBUILT}ZeroDivisionError: in a component",)


def _broken(*_: object) -> None:
    raise ZeroDivisionError("in a component")


LACKS = {
    "Python's": MemoryError("no room"),
    "the CPU's": RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
    "a GPU's": torch.OutOfMemoryError("CUDA out of memory"),
    "a file's": OSError("[Errno 24] Too many open files"),
}


@pytest.mark.parametrize("lack", LACKS)
@pytest.mark.parametrize(("made", "method"), [(ground, "__init__"), (starting, "forward")])
def test_what_this_machine_lacks_is_no_refusal(
    tmp_path: Path, monkeypatch: Any, lack: str, made: Any, method: str
) -> None:
    """The twin of what breaks in a component, above: it goes by, so the block is not refused for good."""
    here = made(searching(tmp_path)) if made is ground else made(tmp_path)
    block = pre_ln(here)
    with monkeypatch.context() as patched:
        patched.setattr(implementation(CATALOGUE["layer_norm"]), method, _raising(LACKS[lack]))
        with pytest.raises(RefusedError, match="this machine could not build a block of the search: ") as raised:
            here.refusals(block)
    assert raised.value.__cause__ is LACKS[lack]
    assert here.refusals(block) == ()


def _raising(error: Exception) -> Any:
    def method(*_: object) -> None:
        raise error

    return method


def test_what_cannot_be_computed_at_its_start_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    here = starting(tmp_path)
    layer_norm = implementation(CATALOGUE["layer_norm"])
    monkeypatch.setattr(layer_norm, "forward", _raising(RuntimeError("shapes")))
    assert here.refusals(pre_ln(here)) == ("cannot be computed at its start: RuntimeError: shapes",)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("settings", "why", "way"),
    [
        (
            ("design.search.beforehand.veto={flops: 1}",),
            "veto: flops, at most 1",
            "raise that bound in design.search.beforehand.veto, or remove it",
        ),
        (
            ("model.width=36", "block={attention.position: {rope: {base: 10000}}}"),
            "cannot be built at these sizes: ",
            "change the sizes in `model:`, or remove from the rules what needs other sizes",
        ),
        (
            ("block={mlp.activation.slope: 0.3}", "design.search.from=leaky"),
            "an override of the space does not fit: ",
            "remove that override from `block:`, or remove from the rules what cannot take it",
        ),
    ],
)
def test_the_way_out_is_of_what_refused(tmp_path: Path, settings: tuple[str, ...], why: str, way: str) -> None:
    leaky = {
        "blocks": "{leaky: [residual: [attention], residual: [mlp: {activation: {leaky_relu: {slope: 0.1}}}]]}",
        "judge": "{against: leaky, metrics: {eval_loss: {}}}",
    }
    here = ground(searching(tmp_path, "grammar=derived.yaml", *settings, **_derived(tmp_path, leaky, settings)))
    with pytest.raises(InputError) as raised:
        draw(here, random.Random(0))
    first, *notes = str(raised.value).splitlines()
    assert first == "grammar small: 10,000 blocks in a row were refused"
    assert notes[0].startswith("  = ") and f" of them because {why}" in notes[0] and notes[0].endswith(f": {way}")
    assert not any("constraints" in note for note in notes)


KINDS = {
    "mlp": (
        ("model={kind: mlp, layers: 2, width: 32, heads: 1, context: 1, position: none}", "data.corpus=digits"),
        "[residual: [$norm, {one_of: [attention, mlp]}]]",
        {
            "blocks": "{from: [residual: [mlp]]}",
            "recipe": "{objective: classification, steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
        },
        "attention mixes the tokens of a sequence",
    ),
    "encoder_decoder": (
        ("model.kind=encoder_decoder", "model.source=24"),
        "[residual: [$norm, attention], residual: [attention: {source: {one_of: [none, encoder]}}]]",
        {
            "blocks": "{from: [residual: [attention], residual: [attention: {source: encoder}]]}",
            "recipe": "{objective: {span_filling: {spans: 4}}, steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
        },
        "model.kind is encoder_decoder, but no part of the block reads encoder",
    ),
    "encoder_decoder, whole": (
        ("model.kind=encoder_decoder", "model.source=24"),
        "[{one_of: [residual: [$norm, attention], mlp]}, residual: [attention: {source: encoder}, mlp]]",
        {
            "blocks": "{from: [residual: [attention], residual: [attention: {source: encoder}]]}",
            "recipe": "{objective: {span_filling: {spans: 4}}, steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
        },
        "the encoder's layers are the block without what reads encoder, but the residual around it contains mlp too",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_that_other_sizes_would_help_is_not_said_of_what_no_size_helps(tmp_path: Path, kind: str) -> None:
    settings, block, sections, why = KINDS[kind]
    _derived(tmp_path, {}, (), block)
    sections = {**sections, "judge": "{against: from, metrics: {eval_loss: {}}}"}
    here = ground(searching(tmp_path, "grammar=derived.yaml", "design.search.from=from", *settings, **sections))
    refusals = {here.refusals(here.derive(k)) for k in range(here.count)}
    admitted = {()} & refusals
    (refused,) = {reason for reasons in refusals for reason in reasons}
    assert refused.startswith(f"it does not fit the kind of model: {why}")
    assert here.way_out(refused) == "search rules of your own whose blocks fit it (grammar), or set another model.kind"
    assert bool(admitted) == (kind != "encoder_decoder, whole")


def _derived(folder: Path, sections: dict[str, str], settings: tuple[str, ...], block: str = "") -> dict[str, str]:
    """The small grammar, in this folder, with another rule for blocks if one is given; the sections if they are for
    these settings."""
    text = (ROOT / "tests" / "errors" / "grammars" / "small.yaml").read_text(encoding="utf-8")
    plain = "[residual: [$norm, attention], residual: [$norm, mlp]]"
    assert plain in text
    (folder / "derived.yaml").write_text(text.replace(plain, block or plain), encoding="utf-8")
    return sections if "design.search.from=leaky" in settings else {}


@pytest.mark.parametrize("inside", [False, True])
def test_rows_longer_than_may_be_written_are_refused(tmp_path: Path, inside: bool) -> None:
    """One norm more or less decides, in the block or in a branch of it."""
    row = "$norm, " * MOST_PARTS + "mlp"
    block = f"[attention, residual: [{row}]]" if inside else f"[{row}]"
    here = ground(searching(tmp_path, "grammar=derived.yaml", **_derived(tmp_path, {}, (), block)))
    blocks = [here.derive(0), here.derive(1), here.derive(here.count - 1)]
    rows = [
        max(len(found), *(len(node["branch"]) for node in walk(found) if node.name == "residual"), 0)
        for found in blocks
    ]
    assert rows == [2 if inside else 1, 2, MOST_PARTS + 1]
    assert [here.refusals(found) for found in blocks] == [(), (), (TOO_LONG,)]
    shorter = f"[attention, residual: [{row[7:]}]]" if inside else f"[{row[7:]}]"
    again = ground(searching(tmp_path, "grammar=derived.yaml", **_derived(tmp_path, {}, (), shorter)))
    assert again.refusals(again.derive(again.count - 1)) == ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("share", ["100%", "99.9%", "57%", "140%"])
def test_a_veto_by_share_against_a_count_of_the_weights(tmp_path: Path, share: str) -> None:
    here = vetoing(tmp_path, f"{{parameters: {share}}}")
    reason = f"{VETO}parameters, at most {share} of pre_ln's"
    whole = Fraction(counted(here, pre_ln(here))) * Fraction(share[:-1]) / 100
    plain = ground(searching(tmp_path, file="plain.yaml"))
    blocks = [pre_ln(here), *admitted(plain, 15)]
    assert [here.refusals(block) == (reason,) for block in blocks] == [counted(here, b) > whole for b in blocks]
    assert all(here.refusals(block) in ((), (reason,)) for block in blocks)


def counted(here: SpaceGround, block: Block) -> int:
    return sum(p.numel() for p in compile_model(here.models.architecture(block), CATALOGUE, device="meta").parameters())


def test_some_are_vetoed_and_some_are_not(tmp_path: Path) -> None:
    """So that the test above can fail."""
    here, plain = vetoing(tmp_path, "{parameters: 100%}"), ground(searching(tmp_path, file="plain.yaml"))
    blocks = admitted(plain, 15)
    assert 0 < sum(not here.refusals(block) for block in blocks) < len(blocks)


def test_a_draw_says_how_many_were_vetoed(tmp_path: Path) -> None:
    here = vetoing(tmp_path, "{parameters: 120%, flops: 1000}")
    reference = size_report(here.models.architecture(pre_ln(here)), CATALOGUE)
    assert here.measure("parameters", pre_ln(here)) == reference.parameters
    assert here.measure("flops", pre_ln(here)) == reference.flops
    both = f"{VETO}parameters, at most 120% of pre_ln's", f"{VETO}flops, at most 1,000"
    assert both in [here.refusals(block) for block in drawn(here, 20)]
    draws = draw(vetoing(tmp_path, "{parameters: 100%}"), random.Random(3))
    vetoed = {reason: n for reason, n in draws.refused.items() if reason.startswith(VETO)}
    assert list(vetoed) == [f"{VETO}parameters, at most 100% of pre_ln's"]
    assert max(draws.refused.values()) < draws.tried <= 1 + sum(draws.refused.values())
    assert counted(here, draws.block) <= reference.parameters


def test_a_constraint_speaks_before_a_veto(tmp_path: Path) -> None:
    here = vetoing(tmp_path, "{flops: 1}")
    for block in drawn(here, 40):
        assert here.refusals(block) == (here.space.grammar.refusals(block) or (f"{VETO}flops, at most 1",))


def test_the_start_is_the_first_step_of_the_trial(tmp_path: Path) -> None:
    """`train_loss` and `gradient_norm` at step 0 of the first seed, to the bit; another seed has others."""
    here = starting(tmp_path, "seeds=[7, 3]")
    plan = build_plan(here.space, vocab_size=VOCABULARY, corpus="none")
    rows = {trial.seed: first_rows(trial) for trial in plan.trials if trial.variant == plan.baseline}
    start = {by: here.measure(by, pre_ln(here)) for by in ("start_loss", "start_gradient_norm")}
    assert start == {"start_loss": rows[7]["train_loss"], "start_gradient_norm": rows[7]["gradient_norm"]}
    assert start["start_loss"] != rows[3]["train_loss"]


@dataclass
class Fixed:
    def at(self, step: int) -> Batch:
        return batch()


def first_rows(trial: Trial) -> dict[str, float]:
    before = torch.get_num_threads()
    pin_threads(trial.work.threads)
    model = compile_model(
        trial.work.architecture, CATALOGUE, seed=trial.seed, dtype=parameter_type(trial.work.recipe.dtype)
    )
    events = train(model, trial, Fixed(), Examples(*batch(), bytes=None), should_stop=lambda: False)
    rows = (event for event in events if isinstance(event, Row) and event.step == 0)
    found = {row.metric: row.value for row in takewhile(lambda row: row.metric != "learning_rate", rows)}
    torch.set_num_threads(before)
    return found


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_the_start_is_in_the_dtype_of_the_recipe(tmp_path: Path, dtype: str) -> None:
    """Against the same model in float64: to its last digits in float64, to bfloat16's and no more in bfloat16."""
    single = starting(tmp_path).measure("start_loss", pre_ln(starting(tmp_path)))
    here = starting(tmp_path, f"recipe.dtype={dtype}")
    found = here.measure("start_loss", pre_ln(here))
    assert found != single
    assert found == pytest.approx(single, rel=1e-5 if dtype == "float64" else 3e-2)


def test_dropout_is_off_at_the_start(tmp_path: Path) -> None:
    here = starting(tmp_path)
    dropping = starting(tmp_path, "model.embedding.dropout=0.5", file="dropping.yaml")
    assert dropping.mark(pre_ln(here)) != here.mark(pre_ln(here))
    assert dropping.measure("start_loss", pre_ln(here)) == here.measure("start_loss", pre_ln(here))


def test_measuring_leaves_this_process_as_it_was(tmp_path: Path) -> None:
    def state() -> tuple[object, ...]:
        return torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.random.get_rng_state().tolist()

    torch.set_num_threads(2)
    try:
        before = state()
        here = starting(tmp_path)
        here.measure("start_loss", pre_ln(here))
        assert state() == before
    finally:
        torch.set_num_threads(1)


@pytest.mark.full
def test_a_veto_on_the_start(tmp_path: Path) -> None:
    here = vetoing(tmp_path, "{start_gradient_norm: 200%}")
    limit = 2 * here.measure("start_gradient_norm", pre_ln(here))
    reason = f"{VETO}start_gradient_norm, at most 200% of pre_ln's"
    blocks = admitted(ground(searching(tmp_path, file="plain.yaml")), 12)
    vetoed = [here.refusals(block) == (reason,) for block in blocks]
    assert vetoed == [here.measure("start_gradient_norm", block) > limit for block in blocks]
    assert 0 < sum(vetoed) < len(blocks)


def test_a_start_that_is_no_number_is_above_every_bound(tmp_path: Path) -> None:
    """Embeddings of 1e45 overflow float32."""
    here = vetoing(tmp_path, "{start_loss: 1000000}", "model.embedding.scale=1e45")
    bare = Sequence(())
    assert not math.isfinite(here.measure("start_loss", bare))
    assert here.refusals(bare) == (f"{VETO}start_loss, at most 1,000,000",)


def test_a_share_of_what_is_no_number_is_an_error(tmp_path: Path) -> None:
    none = {"blocks": "{nothing: []}", "judge": "{against: nothing, metrics: {eval_loss: {}}}"}
    settings = ("model.embedding.scale=1e45", "design.search.from=nothing")
    with pytest.raises(InputError, match=r"start_loss of nothing is (nan|inf), so 110% of it is no bound"):
        vetoing(tmp_path, "{start_loss: 110%}", *settings, **none)


@pytest.mark.full
def test_a_ground_without_a_batch(tmp_path: Path) -> None:
    counted_only = searching(tmp_path, "design.search.beforehand.veto={flops: 110%}")
    here = space_ground(counted_only, vocab_size=VOCABULARY, repetition=None)
    assert here.refusals(pre_ln(here)) == ()
    for said in ("veto={start_loss: 110%}", "order={by: start_gradient_norm, of: 4}"):
        space = searching(tmp_path, f"design.search.beforehand.{said}")
        with pytest.raises(ValueError, match="needs a batch"):
            space_ground(space, vocab_size=VOCABULARY, repetition=None)
    with pytest.raises(ValueError, match="is no search"):
        ground(small(tmp_path))


def test_marks_fold_what_is_the_same_model_at_these_sizes(tmp_path: Path) -> None:
    """1/sqrt(2*depth) is a quarter at depth 8, and no other number; at depth 2 it is a half."""
    here = ground(searching(tmp_path, "model.layers=8"))
    told = {text: gained(pre_ln(here), text) for text in ("1/sqrt(2*depth)", "0.25", "1/4", "0.5", "1")}
    marks = {text: here.mark(block) for text, block in told.items()}
    assert marks["1/sqrt(2*depth)"] == marks["0.25"] == marks["1/4"]
    assert len({marks["0.25"], marks["0.5"], marks["1"]}) == 3
    assert marks["1"] == here.mark(pre_ln(here))
    shallow = ground(searching(tmp_path, "model.layers=2"))
    assert shallow.mark(told["1/sqrt(2*depth)"]) == shallow.mark(told["0.5"]) != shallow.mark(told["0.25"])


def gained(block: Block, text: str) -> Block:
    return changed(block, "residual", gain=Gain(parse(text)))


def test_training_is_thrice_the_forward_pass_of_every_sequence(tmp_path: Path) -> None:
    here = ground(searching(tmp_path, "recipe.steps=20", "recipe.batch=4"))
    counted = size_report(here.models.architecture(pre_ln(here)), CATALOGUE)
    assert here.flops(pre_ln(here)) == counted.training_flops * 4 * 20 == 3 * counted.flops * 4 * 20


def test_a_proposal_may_name_the_repetition(tmp_path: Path) -> None:
    text = (ROOT / "tests" / "errors" / "grammars" / "small.yaml").read_text(encoding="utf-8")
    plain = "residual: [$norm, mlp]]"
    assert plain in text
    gains = "residual: {gain: {one_of: [1, 1-repetition]}, branch: [$norm, mlp]}]"
    (tmp_path / "repeating.yaml").write_text(text.replace(plain, gains), encoding="utf-8")
    space = searching(tmp_path, "grammar=repeating.yaml")
    assert space.names_repetition
    here = space_ground(space, vocab_size=VOCABULARY, repetition=0.25)
    repeating = gained(pre_ln(here), "1-repetition")
    assert here.refusals(repeating) == ()
    assert here.mark(repeating) == here.mark(gained(pre_ln(here), "3*repetition"))
    assert here.mark(repeating) != here.mark(gained(pre_ln(here), "repetition"))
    assert any("repetition" in sizes_named(block) for block in drawn(here, 20))
    assert any("repetition" not in sizes_named(block) for block in drawn(here, 20))


@given(
    share=st.sampled_from([f"{n}%" for n in (1, 4, 5, 10, 25, 33.4, 50, 75, 94, 95, 99)]) | st.floats(0.001, 0.999),
    factor=st.integers(2, 10),
    steps=st.integers(1, 400),
    every=st.integers(1, 450),
    kind=st.sampled_from(["asha", "hyperband"]),
)
@example(share="29%", factor=2, steps=100, every=29, kind="asha")  # 0.29 * 100 is less than 29
@settings(max_examples=examples_of(300), deadline=None)
def test_rungs_fit_where_the_first_is_at_an_evaluation_between_start_and_end(
    share: str | float, factor: int, steps: int, every: int, kind: str
) -> None:
    """By going through the evaluations one by one; a space and a ladder say the same."""
    rungs = Rungs.model_validate({"first": share, "factor": factor})
    first = max(step for step in range(0, steps + 1, every) if step <= rungs.first * steps + 1e-6)
    wrong = misplaced(rungs, steps, every)
    pruner = Pruner.model_validate({kind: rungs})
    if 0 < first < steps - 1:
        assert wrong is None
        assert ladder_of(pruner, steps, every).rungs[0] == first
        return
    assert wrong is not None
    with pytest.raises(InputError) as raised:
        ladder_of(pruner, steps, every)
    assert str(raised.value) == "\n  = ".join(wrong)
