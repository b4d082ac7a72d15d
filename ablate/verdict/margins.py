"""Equivalence margins: as a space states them, and as numbers on the scale of their metric."""

from __future__ import annotations

import math

import numpy as np

from ablate.space.documents import Judged
from ablate.verdict.pairing import Side
from ablate.verdict.summary import Metric


def absolute_margin(margin: str | float, *, log: bool, baseline_mean: float | None) -> float | None:
    """Convert a margin to its metric's scale: a number stays, `5%` is of the baseline's mean, log 1.05 on the log
    scale.

    None for `none`, for a margin relative to a mean that does not exist, and for a margin of zero.

    >>> absolute_margin("1%", log=False, baseline_mean=-2.5)
    0.025
    """
    if isinstance(margin, float):
        return margin
    if not margin.endswith("%"):
        return None
    share = float(margin[:-1]) / 100
    return (math.log1p(share) if log else share * abs(baseline_mean or 0.0)) or None


def _no_mean(baseline: str, side: Side) -> str:
    if side.lost:
        return f"is undefined, {baseline} diverged at every seed"
    return "is undefined, none of its values is usable" if side.finished else "has no value yet"


def judged_metric(name: str, judged: Judged, baseline: str, side: Side) -> Metric:
    """Return a metric with its margin, which may be a share of the baseline's mean over its finished seeds."""
    log = judged.scale == "log"
    values = side.values(name, log=log)
    mean = float(np.mean(list(values.values()))) if values else None
    margin = absolute_margin(judged.margin, log=log, baseline_mean=mean)
    stated = f"{judged.margin:g}" if isinstance(judged.margin, float) else judged.margin.replace("%", " %")
    reason = ""
    if margin is None:
        declared = stated.endswith("%")
        value = "gives a margin of 0" if mean is not None else _no_mean(baseline, side)
        reason = f"{stated} of {baseline}'s mean {value}" if declared else "no margin declared"
    return Metric(
        name=name, scale=judged.scale, better=judged.better, margin=margin, stated=stated, why_no_margin=reason
    )
