"""Declarations of samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from ablate.extension.configured import Configured
from ablate.extension.kinds import SAMPLER, Kind

Objectives: TypeAlias = Literal["one", "several"]
"""How many objectives a sampler supports in one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerSpec(Configured):
    """A sampler; `design.search.sampler` chooses one. `objectives` says whether a search with it may have several."""

    kind: ClassVar[Kind] = SAMPLER
    objectives: Objectives = "one"
