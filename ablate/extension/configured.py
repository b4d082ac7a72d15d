"""Things whose settings are a document of their own: optimisers, schedules, samplers, corpora."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ablate.extension.declaration import Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured(Declaration):
    """A thing with `settings`: the class that its file declares, with which what a space says of it is read."""

    settings: type[BaseModel]

    def read(self, values: Any) -> Any:
        """The settings of which `values` are the plain form, as a Choice keeps them."""
        return self.settings.model_validate(values)
