"""What a space says of its schedule: lengths in steps or shares, and a decay by name or with its settings."""

from __future__ import annotations

import pytest
from space_fixtures import space

from ablate.errors import InputError
from ablate.space.documents import Choice


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("cosine", Choice("cosine")),
        ("{constant: {}}", Choice("constant")),
        ("{polynomial: {power: 2}}", Choice("polynomial", {"power": 2.0})),
        ("{wsd: {over: 20%, shape: sqrt}}", Choice("wsd", {"over": 0.2, "shape": "sqrt"})),
    ],
)
def test_a_decay_is_a_name_with_its_settings(tmp_path, written, expected):
    assert space(tmp_path, f"recipe.schedule.decay={written}").recipe.schedule.decay == expected


@pytest.mark.fast
def test_another_decay_replaces_the_one_before_and_more_of_the_same_joins_it(tmp_path):
    settings = ("{polynomial: {power: 2}}", "{wsd: {over: 0.3}}", "{wsd: {shape: cosine}}")
    other = space(tmp_path, *(f"recipe.schedule.decay={setting}" for setting in settings))
    assert other.recipe.schedule.decay == Choice("wsd", {"over": 0.3, "shape": "cosine"})


@pytest.mark.parametrize(
    ("written", "kind", "expected"),
    [
        ("4", int, 4),
        ("20%", float, 0.2),
        ("1", int, 1),
        ("1.0", float, 1.0),
        ("100%", float, 1.0),
        ("0", int, 0),
    ],
)
@pytest.mark.parametrize("key", ["warmup", "hold"])
def test_a_length_is_steps_or_a_share(tmp_path, key, written, kind, expected):
    other = "hold" if key == "warmup" else "warmup"
    schedule = space(tmp_path, f"recipe.schedule.{key}={written}", f"recipe.schedule.{other}=0").recipe.schedule
    assert type(getattr(schedule, key)) is kind and getattr(schedule, key) == expected


@pytest.mark.fast
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["recipe.schedule.decay=linaer"], "unknown schedule 'linaer'"),
        (["recipe.schedule.decay=linaer"], "did you mean 'linear'?"),
        (["recipe.schedule.decay=polynomial"], "missing key 'power' in recipe.schedule.decay.polynomial"),
        (["recipe.schedule.decay={wsd: {over: 0, shape: sqrt}}"], "recipe.schedule.decay.wsd.over must be greater"),
        (["recipe.schedule.warmup=30"], "warm-up and hold take 30 of 20 steps"),
        (["recipe.schedule.warmup=60%", "recipe.schedule.hold=10"], "warm-up and hold take 22 of 20 steps"),
        (["recipe.schedule.warmup=120%"], "recipe.schedule.warmup: expected a number of steps such as 100, or a share"),
        (["recipe.schedule.hold=-1"], "recipe.schedule.hold: expected a number of steps"),
        (["recipe.schedule.decay=constant", "recipe.schedule.floor=10%"], "a constant schedule has no floor"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(tmp_path, settings, message):
    with pytest.raises(InputError) as error:
        space(tmp_path, *settings)
    assert message in str(error.value) and str(error.value).count("error:") == 1, str(error.value)
