"""The contract of executors, over those that ship, and over one for Slurm that is a plugin."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from ablate.extension.declaration import EXECUTOR
from ablate.extension.loader import shipped
from ablate.testing import ExecutorContract


class TestInline(ExecutorContract):
    executor = "inline"
    kills = False


class TestLocal(ExecutorContract):
    executor = "local"
    options = MappingProxyType({"workers": 1})


@pytest.mark.full
class TestRay(ExecutorContract):
    executor = "ray"
    options = MappingProxyType({"workers": 1})


def test_every_one_that_ships_is_tested():
    tested = {cls.executor for cls in (TestInline, TestLocal, TestRay)}
    assert tested == {spec.name for spec in shipped(EXECUTOR)}
