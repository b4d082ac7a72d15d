"""What `plan --full` says of the kernels that each variant will use."""

import json
from pathlib import Path

import pytest

from ablate import api
from ablate.execute.machine import KernelOrder, described_orders, kernel_orders
from ablate.kernels import flex
from ablate.report.json_form import plan_to_json

ROOT = Path(__file__).parents[2]


@pytest.fixture
def loaded():
    def loaded(*settings):
        space = api.load_space(ROOT / "spaces/op_vs_preln.yaml", profile="smoke", settings=settings)
        return api.check(space), space.grammar.catalogue

    return loaded


def test_each_variant_on_cpu_and_in_which_order(loaded):
    plan, catalogue = loaded()
    uses = kernel_orders(plan, catalogue, device_type="cpu")
    sdpa = KernelOrder("layers.*.attention", ("sdpa", "eager"), "first choice on cpu")
    assert uses == {variant.id: (sdpa,) for variant in plan.variants}
    names = ", ".join(variant.name for variant in plan.variants)
    said = described_orders(plan, uses)
    assert said == f"attention kernels:\n  layers.*.attention  sdpa, then eager: first choice on cpu  ({names})"


def test_on_another_device_and_in_another_type(loaded, monkeypatch):
    monkeypatch.setattr(flex, "missing", lambda: "")

    def kernels(*settings):
        plan, catalogue = loaded(*settings)
        return {use.kernels[0] for uses in kernel_orders(plan, catalogue, device_type="cuda").values() for use in uses}

    assert kernels() == {"xformers"}
    assert kernels("recipe.dtype=float64") == {"sdpa"}


@pytest.mark.fast
def test_as_json(loaded):
    plan, catalogue = loaded()
    uses = kernel_orders(plan, catalogue, device_type="cpu")
    document = json.loads(plan_to_json(plan, (), kernels=uses))
    expected = [{"address": "layers.*.attention", "kernels": ["sdpa", "eager"], "reason": "first choice on cpu"}]
    assert [variant["kernels"] for variant in document["variants"]] == [expected] * len(plan.variants)
    assert "kernels" not in json.loads(plan_to_json(plan, ()))["variants"][0]
