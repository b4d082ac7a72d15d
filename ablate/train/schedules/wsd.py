"""WSD, warm-up, stable, decay: the peak until the last share of all steps, and then down to the floor.

    q = (done - (steps - D)) / D, at least 0        D = round(over · total), at least 1 and at most `steps`

    linear    r = 1 - (1 - floor) q
    sqrt      r = 1 - (1 - floor) sqrt(q)                       the shape that Hägele et al. find best
    cosine    r = floor + (1 - floor) (1 + cos(π q)) / 2

A decay that is longer than the steps after warm-up and hold begins where they end.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from ablate.train.schedules.declare import Behind, Document, Share, schedule


@schedule(
    "wsd", source="Hu et al. 2024, arXiv:2404.06395, Sec. 4; Hägele et al. 2024, arXiv:2405.18392, Sec. 3", version=1
)
class WSD(Document):
    """The decay takes the last share `over` of all steps, and has a `shape`."""

    over: Annotated[Share, Field(gt=0, description="a share of all steps such as 20%")]
    shape: Literal["linear", "sqrt", "cosine"]

    def share(self, at: Behind) -> float:
        start = max(at.steps - max(round(self.over * at.total), 1), 0)
        q = max(at.done - start, 0) / max(at.steps - start, 1)
        match self.shape:
            case "linear":
                return 1 - (1 - at.floor) * q
            case "sqrt":
                return 1 - (1 - at.floor) * math.sqrt(q)
            case "cosine":
                return at.floor + (1 - at.floor) * (1 + math.cos(math.pi * q)) / 2
