"""Expressions for tests, built without a grammar: every field has a plain value unless the test gives one.

`node("attention", entropy=(node("softcap", cap=30.0),))` fills the fields left out, in declared order.
"""

from __future__ import annotations

import functools
from typing import Any

from ablate.block.architecture import ARITHMETIC, Architecture
from ablate.block.arithmetic import parse
from ablate.block.catalogue import (
    Arithmetic,
    Branches,
    ComponentSpec,
    FieldType,
    Flag,
    GainField,
    Number,
    Part,
    Parts,
    Sequenced,
    ValueField,
    Width,
    Word,
    value_before,
)
from ablate.block.expression import Block, Gain, Node, Sequence, Size, ValueAddress
from ablate.block.sizes import Sizes
from ablate.components.registry import declarations

CATALOGUE = declarations()
SIZES = Sizes(n_layers=2, d_model=16, n_heads=2, seq_len=12, vocab_size=11)

PLAIN: dict[tuple[str, str], Any] = {
    ("attention", "scale"): "1/sqrt(head_width)",
    ("attention", "dropout"): 0.0,
    ("dropout", "p"): 0.0,
    ("sigmoid_gate", "inputs"): Size(multiple=1.0),
    ("mlp", "activation"): "relu",
    ("mlp", "input_scale"): "1",
    ("mlp", "hidden"): Size(multiple=4.0),
    ("moe", "experts"): 4.0,
    ("moe", "active"): 2.0,
    ("moe", "shared"): 1.0,
    ("moe", "balance"): 0.01,
    ("moe", "z"): 0.001,
    ("moe", "bias_rate"): 0.001,
    ("e_spa", "skip"): 0,
    ("e_spa", "repetition"): 0,
    ("u_spa", "skip"): 0,
    ("u_spa", "initial"): 0,
    ("u_spa", "power"): 1.0,
    ("window", "size"): 4.0,
    ("prefix", "length"): 9.0,
    ("learned_sink", "init"): 0,
    ("qk_clip", "tau"): 100.0,
    ("qk_clip", "alpha"): 0.5,
    **{(name, "of"): "tokens" for name in ("document", "lookup", "padding")},
    ("t5", "buckets"): 8.0,
    ("t5", "max_distance"): 10.0,
    ("residual", "skip"): 1,
    ("parallel", "skip"): 1,
    ("dks", "zeta"): 5.0,
    ("dks_leaky_relu", "zeta"): 5.0,
    ("tat", "tau"): 0.3,
    ("tat_leaky_relu", "eta"): 0.9,
    **{(name, "network"): "stack" for name in ("dks", "dks_leaky_relu", "tat", "tat_leaky_relu")},
    **{(name, "q_slope"): 1.0 for name in ("dks", "dks_leaky_relu", "tat")},
    **{(name, "skip"): "0" for name in ("dks", "dks_leaky_relu", "tat", "tat_leaky_relu")},
    **{(name, "layers"): "24" for name in ("dks", "dks_leaky_relu", "tat", "tat_leaky_relu")},
}
SLOT_EXAMPLES = {
    "weight": "dense",
    "norm": "rms_norm",
    "activation": "gelu",
    "init": "normal",
    "position": "rope",
    "matrix": "softmax",
}


def node(name: str, **fields: Any) -> Node:
    """A node with all of its fields; numbers stand for gains and arithmetic, names and nodes for parts."""
    spec = CATALOGUE[name]
    unknown = set(fields) - set(spec.fields)
    assert not unknown, f"{name} has no field {unknown}"
    values = {field: fields.get(field, plain(spec, field)) for field in spec.fields}
    return Node(name, tuple((field, read(values[field], kind)) for field, kind in spec.fields.items()))


def plain(spec: ComponentSpec, field: str) -> Any:
    """A value for a field that the test does not care about."""
    if (spec.name, field) in PLAIN:
        return PLAIN[spec.name, field]
    if field in spec.added:
        return value_before(spec, field)
    match spec.fields[field]:
        case Number(at_least=low, above=above, at_most=high, below=below):
            if field == "eps":
                return 1e-5
            low = next((bound for bound in (low, above) if bound is not None), 0.0)
            high = next((bound for bound in (high, below) if bound is not None), low + 1.0)
            return (low + high) / 2
        case Flag():
            return field == "scale"
        case Word(choices=choices):
            return choices[0]
        case Arithmetic() | GainField():
            return 1
        case ValueField(several=several):
            return "layers.*.in" if several else "layers.first.in"
        case Width():
            return Size(multiple=2.0)
        case Part(optional=True):
            return None
        case Part(slot=slot):
            return SLOT_EXAMPLES.get(slot) or CATALOGUE.of_slot(slot)[0]
        case Parts():
            return ()
        case Sequenced():
            return ["mlp"]
        case Branches():
            return [["mlp"], ["attention"]]
    raise AssertionError(f"no plain value for {spec.name}.{field}")


def read(value: Any, kind: FieldType) -> Any:
    """What a test writes, as the expression holds it."""
    match kind, value:
        case Arithmetic(), int() | float() | str():
            return parse(value)
        case ValueField(), str():
            return ValueAddress(value)
        case GainField(), int() | float() | str():
            return gain(value)
        case Part(), str():
            return node(value)
        case Part(several=True), tuple():
            return read(value, Parts(kind.slot))
        case Parts(), _:
            return tuple(node(part) if isinstance(part, str) else part for part in value)
        case Sequenced(), _:
            return sequence(*value)
        case Branches(), _:
            return tuple(branch if isinstance(branch, Sequence) else sequence(*branch) for branch in value)
    return value


def gain(value: float | str, *, trainable: bool = False, per: str = "scalar") -> Gain:
    """A gain of a number or an expression."""
    return Gain(parse(value), trainable, per)


def sequence(*parts: Node | str) -> Sequence:
    """Parts in order; a name is a plain node."""
    return Sequence(tuple(node(part) if isinstance(part, str) else part for part in parts))


def residual(*branch: Node | str, skip: Any = 1, gain: Any = 1) -> Node:
    """A residual around `branch`."""
    return node("residual", skip=skip, gain=gain, branch=branch)


def pre_ln(norm: str | Node = "layer_norm", *, attention: Any = "attention", mlp: Any = "mlp") -> Block:
    """Norms inside the residuals, before attention and MLP."""
    return sequence(residual(norm, attention), residual(norm, mlp))


def post_ln(norm: str | Node = "layer_norm") -> Block:
    """Norms after the residuals."""
    return sequence(residual("attention"), norm, residual("mlp"), norm)


def op(eps: float = 1e-8, *, mlp: Any = "mlp", gain: Any = "1/sqrt(2*depth)") -> Block:
    """The Outlier Protected block of arXiv:2405.19279: no norms but QK-norm, residual branches scaled down."""
    attention = node("attention", entropy=(node("qk_norm", norm=node("rms_norm", eps=eps)),))
    return sequence(residual(attention, gain=gain), residual(mlp, gain=gain))


def parallel() -> Block:
    """Attention and MLP side by side behind norms of their own."""
    return sequence(node("parallel", branches=[["layer_norm", "attention"], ["layer_norm", "mlp"]]))


def many_blocks() -> dict[str, Block]:
    """Blocks of every shape, by name."""
    trained, channels = gain("0.5", trainable=True), gain(0, trainable=True, per="channel")
    regulated = node(
        "attention",
        pre_qk="rms_norm",
        pre_v="layer_norm",
        position="rope",
        entropy=(node("qk_norm", norm="layer_norm"), node("softcap", cap=30.0), node("clamp", bound=8.0)),
    )
    biased = node("dense", bias=True)
    gated = node("mlp", gate="dense", activation="silu", hidden=Size(units=24), up=biased, down=biased)
    return {
        "pre_ln": pre_ln(),
        "post_ln": post_ln("rms_norm"),
        "op": op(),
        "parallel": parallel(),
        "regulated": sequence(residual(regulated, gain=trained), residual("mlp", gain=channels, skip=trained)),
        "gated": pre_ln("simple_rms_norm", mlp=gated),
        "sandwich": sequence(residual("rms_norm", "attention", "rms_norm"), residual("mlp", gain=channels)),
        "macaron": sequence(residual("mlp", gain=0.5), residual("attention"), residual("mlp", gain=0.5)),
        "skipless": sequence("attention", "rms_norm", "mlp"),
        "nested": sequence(residual(residual("rms_norm", "attention", gain=trained), "mlp", skip=0)),
        "empty": sequence(residual(), residual("layer_norm")),
    }


def architecture(block: Block, **changes: Any) -> Architecture:
    """A small decoder around `block`."""
    plain_values: dict[str, Any] = {
        "kind": "decoder",
        "sizes": SIZES,
        "block": block,
        "positions": "none",
        "embedding_std": 0.02,
        "embedding_scale": 50.0,
        "embedding_dropout": 0.0,
        "position_std": 0.02,
        "logit_scale": 1,
        "tied": False,
        "entry_norm": None,
        "final_norm": None,
        "init": node("normal", std=0.02),
    }
    values = {**plain_values, **changes}
    rows = values["sizes"].seq_len if values["positions"] == "learned" else None
    for name in ARITHMETIC:
        if isinstance(values[name], int | float | str):
            values[name] = parse(values[name])
    return Architecture(**{"position_rows": rows, **values})


@functools.cache
def default_init() -> Node:
    """The init that blocks in tests are compiled with: large enough that no branch is negligible."""
    return node("normal", std=0.3)
