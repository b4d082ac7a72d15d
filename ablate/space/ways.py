"""Ways out of what a document refuses: beside its complaint, what would be accepted there."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from ablate.source.document import validate
from ablate.source.located import Located
from ablate.source.problems import Problems

T = TypeVar("T", bound=BaseModel)

WAYS: Map[str, str] = {
    "fair": "such as fair: {budget: flops}, or fair: {match: {parameters: 1%, by: width}}",
    "fair.budget": "wallclock is equal time; steps and tokens are the same, since batches are equally large",
    "fair.match": "such as match: {parameters: 1%, by: width}",
    "fair.tune": "such as tune: {lr: [1e-3, 3e-3, 1e-2], seeds: 2}",
    "fair.tune.lr": "list what to choose from: lr: [1e-3, 3e-3, 1e-2]",
    "fair.tune.weight_decay": "list what to choose from: weight_decay: [0, 0.1]",
    "fair.under": "name the terms: under: {equal steps: {}, equal FLOPs: {budget: flops}}",
    "noise": "such as noise: {seeds: 5}",
    "design.fractional.resolution": (
        "III mixes edits with pairs, IV pairs with each other, V neither; where no mixing at all is wanted: factorial"
    ),
}
"""By the name of the value, where the words of the complaint alone do not show what to write."""


def validated(model: type[T], located: Located, problems: Problems, where: str) -> T | None:
    """As `validate`; a value of the wrong kind is told with the way out that there is for it."""
    own = Problems()
    found = validate(model, located, own, where)
    for problem in own:
        way = WAYS.get(problem.message.partition(": expected")[0])
        problems.append(problem if way is None or problem.notes else replace(problem, notes=(way,)))
    return found
