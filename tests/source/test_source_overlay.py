"""One document over another, and `--set path=value`: values merge, and every value keeps its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.errors import InputError
from ablate.source.compose import MAX_DEPTH
from ablate.source.located import to_python
from ablate.source.yaml import overlay, parse_yaml, read_setting


def set_path(base, argument):
    return overlay(base, read_setting(argument, base))


BASE = """\
recipe: {steps: 300, batch: 16, clip: 1.0}
seeds: 5
block: {attention.position: rope, mlp: {activation: relu}}
"""


@pytest.mark.fast
def test_the_upper_document_wins_key_by_key():
    base = parse_yaml(BASE, "space.yaml")
    over = parse_yaml("recipe: {steps: 20, clip: null}\nseeds: [1, 2]\nquestion: why\n", "smoke.yaml")
    both = overlay(base, over)
    assert to_python(both) == {
        "recipe": {"steps": 20, "batch": 16, "clip": None},
        "seeds": [1, 2],
        "block": {"attention.position": "rope", "mlp": {"activation": "relu"}},
        "question": "why",
    }
    assert list(both) == ["recipe", "seeds", "block", "question"]
    places = {key: both["recipe"][key].span.source.name for key in both["recipe"]}
    assert places == {"steps": "smoke.yaml", "batch": "space.yaml", "clip": "smoke.yaml"}
    assert both["recipe"].key("steps").span.source.name == "smoke.yaml"
    assert both.key("recipe").span.source.name == "space.yaml"
    assert to_python(base)["recipe"]["steps"] == 300  # nothing is changed in place


TREES = st.recursive(
    st.integers() | st.none() | st.text("ab", min_size=1) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


def merged(base, over):
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {key: merged(base.get(key), over[key]) if key in over else base[key] for key in {**base, **over}}


@pytest.mark.fast
@given(TREES, TREES)
def test_overlay_is_the_recursive_merge(lower, upper):
    base, over = (parse_yaml(repr(tree).replace("None", "null")) for tree in (lower, upper))
    assert to_python(overlay(base, over)) == merged(lower, upper)
    assert to_python(overlay(base, base)) == lower


@pytest.mark.fast
def test_of_keys_with_dots_the_longest_is_meant():
    base = parse_yaml("block: {a.b: {c: 1}, a.b.c: 2}")
    assert to_python(set_path(base, "block.a.b.c=3")) == {"block": {"a.b": {"c": 1}, "a.b.c": 3}}
    assert to_python(set_path(base, "block.a.b.d=3")) == {"block": {"a.b": {"c": 1, "d": 3}, "a.b.c": 2}}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("argument", "path", "value"),
    [
        ("seeds=2", ["seeds"], 2),
        ("recipe.steps=20", ["recipe", "steps"], 20),
        ("recipe.optimizer.adamw.lr=3e-4", ["recipe", "optimizer", "adamw", "lr"], 3e-4),
        ("recipe.clip= null", ["recipe", "clip"], None),
        ("data.corpus={hub: a/b, split: train}", ["data", "corpus"], {"hub": "a/b", "split": "train"}),
        ("question='a = b, c: d'", ["question"], "a = b, c: d"),
        ("block.attention.position=none", ["block", "attention.position"], "none"),
        ("block.attention.entropy=none", ["block", "attention", "entropy"], "none"),
        ("block.mlp.activation=gelu", ["block", "mlp", "activation"], "gelu"),
        ("block.'layers.1.mlp'.hidden=4x", ["block", "layers.1.mlp", "hidden"], "4x"),
    ],
)
def test_settings(argument, path, value):
    found = set_path(parse_yaml(BASE), argument)
    for key in path:
        found = found[key]
    assert to_python(found) == value
    assert found.span.source.name == "--set"
    assert argument.endswith(found.span.text) and found.span.text


@pytest.mark.fast
def test_a_setting_leaves_the_rest_alone():
    base = parse_yaml(BASE)
    changed = to_python(set_path(base, "recipe.steps=20"))
    assert changed == {**to_python(base), "recipe": {"steps": 20, "batch": 16, "clip": 1.0}}


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (
            "recipe.steps",
            "expected `path=value`\n --> --set:1:13\n  |\n1 | recipe.steps\n  |             ^ expected '='",
        ),
        ("=20", "expected `path=value`\n --> --set:1:1\n  |\n1 | =20\n  | ^ expected a key here"),
        ("recipe.=20", "expected `path=value`\n --> --set:1:8\n"),
        ("recipe.steps=", "no value is given\n --> --set:1:13\n"),
        (
            "recipe.steps=[1",
            "never closed\n --> --set:1:14\n  |\n1 | recipe.steps=[1\n  |              ^ ']' is missing",
        ),
        ("recipe={steps: 1, steps: 2}", "key 'steps' is written twice\n --> --set:1:19\n"),
        ("a b=1", "expected '='"),
        (".".join("a" * (MAX_DEPTH + 1)) + "=1", "a path has at most 64 keys"),
        (".".join("a" * 50_000) + "=1", "a path has at most 64 keys"),
    ],
)
def test_settings_that_are_wrong(argument, text):
    with pytest.raises(InputError) as caught:
        read_setting(argument)
    assert text in str(caught.value)
