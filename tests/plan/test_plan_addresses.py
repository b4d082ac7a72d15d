"""A mixer of one's own that replaces attention shares its addresses by `role`, or the plan says that it does not."""

from __future__ import annotations

import pytest
from own_fixtures import write_own_world

import ablate

pytestmark = pytest.mark.fast


def notes(tmp_path, *, role="", block="residual: [layer_norm, plain: {norm: none}]", mlp="residual: [layer_norm, mlp]"):
    space, plugin = write_own_world(tmp_path, "pre_ln, mine")
    text = space.read_text(encoding="utf-8")
    space.write_text(f"{text}  mine: [{block}, {mlp}]\n", encoding="utf-8")
    plugin.write_text(plugin.read_text(encoding="utf-8").replace('"weight"), source', f'"weight"), {role}source'))
    return [note for note in ablate.check(ablate.load_space(space, plugins=[plugin])).notes if "address" in note]


def test_one_that_replaces_attention_under_its_own_address_is_told(tmp_path):
    (note,) = notes(tmp_path)
    assert note.startswith("plain has an address of its own in mine, where pre_ln has attention: ")
    assert note.endswith(f'set role="attention" in its @component, in {tmp_path / "plain.py"}')


def test_with_the_role_it_is_paired_and_nothing_is_told(tmp_path):
    """The space gives attention a position; what stands in its place has none, and is left as it is."""
    assert notes(tmp_path, role='role="attention", ') == []


def test_beside_attention_it_takes_no_place(tmp_path):
    assert notes(tmp_path, block="residual: [attention], residual: [plain: {norm: none}]") == []


def test_what_ships_has_the_addresses_it_should(tmp_path):
    assert notes(tmp_path, block="residual: [mlp]", mlp="residual: [mlp]") == []
