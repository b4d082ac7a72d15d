"""Options, profiles and fixtures of all tests; what tests share besides stands in support/."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Trials pin their own threads; what tests compute besides must not fight the other test processes for cores. It is read
# when torch is loaded, which is after this.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Bytecode is kept, whatever the environment says of it: half of the time in which tests are collected goes by in
# rewriting their asserts, and hundreds of processes that are started here would each compile the package anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How many examples a property is tried with where it does not say so itself (example_counts.py): few in a plain
# `pytest`, all that were meant with `--hypothesis-profile full`, which the gate gives.
settings.register_profile("few", max_examples=20)
settings.register_profile("full", max_examples=100)
settings.load_profile("few")


TIMES, LEAST = 3, 24
"""How many cases of a sampled test the gate runs, unless the mark says: so many times those of a plain `pytest`, or
this many if that is more. `gate="all"` is for what must not break anywhere, such as the named blocks."""


def pytest_addoption(parser):
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write anew what tests hold results to; tests/identity proves first that no undeclared number moved",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Hold a text to the golden file of a path; with `--update-goldens` the file is written first."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked full
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark full or slow the cases that `sampled` leaves out; refuse a test that is both fast and full."""
    for cases in _sampled(items).values():
        sampled = cases[0].get_closest_marker("sampled")
        plain = sampled.args[0]
        gate = sampled.kwargs.get("gate", max(TIMES * plain, LEAST))
        gate = len(cases) if gate == "all" else gate
        for place, case in enumerate(cases):
            if place not in _spread(plain, len(cases)):
                case.add_marker("full" if place in _spread(gate, len(cases)) else "slow")
    both = [item.nodeid for item in items if {"fast", "full"} <= {mark.name for mark in item.iter_markers()}]
    if both:
        raise pytest.UsageError(f"marked fast and full: {', '.join(both)}")


def _spread(share: int, cases: int) -> set[int]:
    """The places of a share of some cases, evenly spread from the first to the last."""
    return {round(k * (cases - 1) / max(1, share - 1)) for k in range(share)}


def _sampled(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The cases of each function that has the mark `sampled`, but those that are full themselves."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("full"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return functions
