"""Statistics of a few noisy runs: numbers in, numbers out; nothing here knows what a block or a trial is."""

from ablate.statistics.paired import (
    MOST_SEEDS,
    POWER,
    SD_LEVEL,
    Paired,
    holm,
    paired,
    sd_upper,
    seeds_for_margin,
    seeds_for_power,
    seeds_for_signs,
    spread,
    wilson,
)

__all__ = [
    "MOST_SEEDS",
    "POWER",
    "SD_LEVEL",
    "Paired",
    "holm",
    "paired",
    "sd_upper",
    "seeds_for_margin",
    "seeds_for_power",
    "seeds_for_signs",
    "spread",
    "wilson",
]
