"""Reading a block: what may be written, and each mistake at its place."""

import pytest
from builders import gain, node, residual, sequence
from reading import read_block

from ablate.block.expression import Size
from ablate.errors import InputError

REFUSED = [
    ("[attension]", "unknown component 'attension' for slot part", "attension"),
    ("[rope]", "rope does not fit slot part: it is for slot position", "rope"),
    ("[attention: {entropy: {rope: 1}}]", "rope does not fit slot entropy: it is for slot position", "rope"),
    ("[attention: {pre_qk: qk_norm}]", "qk_norm does not fit slot norm", "qk_norm"),
    ("[attention: {querry: dense}]", "attention has no field 'querry'", "querry"),
    ("[attention: {query: none}]", "slot weight cannot be empty here", "none"),
    ("[attention: dense]", "attention takes a mapping of fields", "dense"),
    ("[residual: {brnach: [mlp]}]", "residual has no field 'brnach'", "brnach"),
    ("[attention: {entropy: {softcap: {cpa: 30}}}]", "softcap has no field 'cpa'", "cpa"),
    ("[attention: {entropy: [{softcap: 30}, {softcap: 40}]}]", "softcap is listed twice", "{softcap: 40}"),
    ("[attention: {entropy: {softcap: 0}}]", "expected a number above 0, got 0", "0"),
    ("[attention: {entropy: {softcap: thirty}}]", "expected a number, got 'thirty'", "thirty"),
    ("[attention: {entropy: {softcap: true}}]", "expected a number, got true", "true"),
    ("[attention: {entropy: {softcap: .inf}}]", "expected a finite number, got .inf", ".inf"),
    ("[attention: {entropy: {softcap: [30]}}]", "expected a number, got a list", "[30]"),
    ("[layer_norm: {eps: -1}]", "expected a number of at least 0, got -1", "-1"),
    ("[layer_norm: {bias: 1}]", "expected true or false, got 1", "1"),
    ("[mlp: {hidden: 4y}]", "expected a width, got '4y'", "4y"),
    ("[mlp: {hidden: 0}]", "expected a width, got 0", "0"),
    ("[mlp: {hidden: -2x}]", "expected a width, got '-2x'", "-2x"),
    *(
        (f"[mlp: {{hidden: {text}}}]", f"expected a width, got '{text}'", text)
        for text in ("8/0x", "0/3x", "8/3", "8/-3x", "-8/3x", "8//3x", "8/3.0x", "x", "99999999/3x", "9999999/1x")
    ),
    ("[mlp: {input_scale: {init: 1}}]", "expected a number or an expression, got a mapping", "{init: 1}"),
    ("[residual: {gain: 1/sqrt(2*dept)}]", "unknown size 'dept'", "dept"),
    ("[residual: {gain: true}]", "expected a number or an expression, got true", "true"),
    ("[residual: {gain: {trainable: true}}]", "a gain needs `init`", "{trainable: true}"),
    ("[residual: {gain: {init: 1, trained: true}}]", "a gain has no 'trained'", "trained"),
    ("[residual: {gain: {init: 1, per: head}}]", "unknown word 'head'", "head"),
    ("[residual: {gain: [1]}]", "a gain is a number, an expression, or {init: …, trainable: true}", "[1]"),
    ("[parallel: attention]", "expected a list of branches", "attention"),
    ("[$norm]", "'$norm' is only allowed in the rules of a grammar", "$norm"),
    ("[{let: {n: attention}, in: [mlp]}]", "this is only allowed in the rules", "{let: {n: attention}, in: [mlp]}"),
    ("[{attention: {}, mlp: {}}]", "expected one component for slot part, got a mapping of 2 keys", "{attention"),
    ("[attention: {position: [rope]}]", "expected one component for slot position, got a list", "[rope]"),
]


@pytest.mark.fast
@pytest.mark.parametrize(("text", "said", "at"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_a_mistake_is_shown_at_its_place(text: str, said: str, at: str) -> None:
    with pytest.raises(InputError) as refused:
        read_block(text)
    message = str(refused.value)
    assert said in message.splitlines()[0]
    column = message.splitlines()[1].rsplit(":", 1)[1]
    assert text[int(column) - 1 :].startswith(at)


@pytest.mark.fast
def test_all_mistakes_are_shown_at_once() -> None:
    with pytest.raises(InputError) as refused:
        read_block("[attension, residual: {gain: foo, branch: [mlp: {hidden: 0, activation: relo}]}]")
    assert str(refused.value).count("error: ") == 4


@pytest.mark.fast
def test_hints() -> None:
    for text, hint in [
        ("[attension]", "attention"),
        ("[layer_norm: {epss: 1}]", "eps"),
        ("[residul: [mlp]]", "residual"),
    ]:
        with pytest.raises(InputError, match=f"did you mean '{hint}'"):
            read_block(text)


@pytest.mark.fast
def test_without_a_default_a_field_must_be_said() -> None:
    with pytest.raises(InputError, match="layer_norm needs a value for bias"):
        read_block("[layer_norm: {eps: 1e-5, scale: true}]", defaults=False)
    assert read_block("[layer_norm: {eps: 1e-5, scale: true, bias: false}]", defaults=False)


@pytest.mark.fast
def test_a_block_reads_as_it_is_built() -> None:
    assert read_block(
        "[residual: {gain: {init: 0.5, trainable: true}, branch: [rms_norm, mlp: {hidden: 24, activation: relu}]}]"
    ) == sequence(
        residual(
            node("rms_norm", eps=1e-8),
            read_block("[mlp: {activation: relu}]").parts[0].replace({"hidden": Size(units=24)}),
            gain=gain(0.5, trainable=True),
        )
    )


@pytest.mark.fast
def test_a_gain_with_a_start_is_trained_unless_it_says_otherwise() -> None:
    assert read_block("[residual: {gain: {init: 2}}]").parts[0]["gain"] == gain(2, trainable=True)
    assert read_block("[residual: {gain: {init: 2, trainable: false}}]").parts[0]["gain"] == gain(2)
