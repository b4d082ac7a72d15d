"""The readings of a space's page: curves over its seeds, paired differences, values by layer, gains, endings.

Only the given trials are queried, so that trials of tuning and of other spaces stay out of it. A curve of more steps
than a plot can show is thinned to evenly spaced ones, and says how many there were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ablate.space.metrics import BEFORE_SUBLAYERS, BEHIND_NORMS
from ablate.store.query import Ask, asking

CURVE_STEPS = 150
MAP_STEPS = 32
GAIN_STEPS = 60

Over: TypeAlias = Literal["mean", "largest"]
"""How a seed's values are combined where a metric is measured at several parts of the model."""

TRIALS = "requested AS (SELECT unnest($trials) AS trial_id, unnest($variants) AS variant)"
_DEFINITIONS = "SELECT metric, min(definition) FROM definitions GROUP BY metric ORDER BY metric"
GAINS = "('gain', 'gain_mean', 'gain_rms', 'gain_sd', 'gain_ratio')"
APART = (BEFORE_SUBLAYERS, BEHIND_NORMS)
"""Sites of probes whose metrics are shown for each mixer of a layer, as `3 attention`."""
OF_HEADS = "gain_of_head"  # gains of single heads, which are left to the view curves: a page shows their mean and sd


@dataclass(frozen=True, slots=True)
class MetricCurve:
    """A metric of a variant against the step, over the `n` seeds with a finite value there, `lost` without one.

    `of` is `whole` (the model's own number), `mean` or `largest` over the parts measured, or the address of one part.
    `mean` and `sd` are over seeds; `log_mean` and `log_sd` those of natural logarithms, None where a value is not above
    zero. The sd of one seed is None. `measured` is the number of steps it was measured at.
    """

    variant: str
    metric: str
    of: str
    steps: tuple[int, ...]
    n: tuple[int, ...]
    lost: tuple[int, ...]
    mean: tuple[float | None, ...]
    sd: tuple[float | None, ...]
    log_mean: tuple[float | None, ...]
    log_sd: tuple[float | None, ...]
    measured: int


@dataclass(frozen=True, slots=True)
class LayerCurve:
    """A metric of one layer (`3`, `encoder 3`) or another part (`head`) against the step: means over `n` seeds."""

    variant: str
    metric: str
    part: str
    steps: tuple[int, ...]
    n: tuple[int, ...]
    mean: tuple[float | None, ...]
    measured: int


@dataclass(frozen=True, slots=True)
class DifferenceCurve:
    """A variant's differences in a metric from the baseline against the step: mean and sd over `n` seeds.

    d(seed) = y_variant(seed) - y_baseline(seed), or log(y_variant / y_baseline) if `log`, for seeds where both have a
    finite value at that step (above zero for logarithms). `over` combines a seed's values over parts; `measured` is the
    number of steps.
    """

    variant: str
    metric: str
    over: Over
    log: bool
    steps: tuple[int, ...]
    n: tuple[int, ...]
    mean: tuple[float, ...]
    sd: tuple[float | None, ...]
    measured: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A snapshot of a variant's normalised kernel: cells (i, j, mean over `n` seeds), i >= j, at a part and step."""

    variant: str
    address: str
    step: int
    n: int
    cells: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class StreamReading:
    """A quantity of the stream at an address, over the `n` seeds of a variant, as in the view `streams`.

    It is before the first step or, where trials finished, the last one. `sd` is between seeds, None of one; `values`
    are those of the trials. A value that is not finite does not count.
    """

    variant: str
    quantity: str
    address: str
    step: int
    n: int
    mean: float
    sd: float | None
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """The end of a trial, with the status as in `trials.status`.

    `address` is the first part that was not finite; `seconds` are from its start to its end, None until then; `spaces`
    is how many it belongs to. `at` is when it ended, in seconds since 1970.
    """

    trial_id: str
    status: str
    step: int | None
    address: str | None
    versions_id: str | None
    seconds: float | None
    tokens: int | None
    spaces: int
    at: float | None = None
    processor: str | None = None


Trials = Mapping[str, str]  # trial id → the id of the variant that it stands for


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of a page, in one consistent state.

    `versions` maps `versions_id` to the versions of trials, `definitions` a metric's name to its meaning.
    """

    curves: tuple[MetricCurve, ...]
    layers: tuple[LayerCurve, ...]
    gains: tuple[MetricCurve, ...]
    kernels: tuple[Kernel, ...]
    streams: tuple[StreamReading, ...]
    endings: tuple[TrialEnd, ...]
    versions: Mapping[str, Mapping[str, str]]
    definitions: Mapping[str, str]


def measured(folder: Path, shown: Trials, every: Trials) -> Measured:
    """Read the measurements of the `shown` trials and the status of `every` one. InputError without results."""
    with asking(folder) as ask:
        return Measured(
            curves=tuple(MetricCurve(*of) for of in _grouped(_ask(ask, _CURVES, shown, most=CURVE_STEPS), 3)),
            layers=tuple(LayerCurve(*of) for of in _grouped(_ask(ask, _LAYERS, shown, most=MAP_STEPS), 3)),
            gains=tuple(MetricCurve(*of) for of in _grouped(_ask(ask, _GAINS, shown, most=GAIN_STEPS), 3)),
            kernels=tuple(_kernels(ask, shown)),
            streams=tuple(StreamReading(*[*row[:-1], tuple(row[-1])]) for row in _ask(ask, _STREAMS, shown)),
            endings=_endings(ask, every),
            versions=_versions(ask),
            definitions=dict(ask(_DEFINITIONS, {}).rows),
        )


def differences(
    folder: Path, trials: Trials, baseline: str, metrics: Sequence[tuple[str, Over, bool]]
) -> tuple[DifferenceCurve, ...]:
    """Compute differences from a baseline in `metrics`: name, how parts are combined, whether of logarithms."""
    made = []
    with asking(folder) as ask:
        for metric, over, log in metrics:
            parameters = {"baseline": baseline, "metric": metric, "most": CURVE_STEPS, "largest": over == "largest"}
            for variant, *columns in _grouped(_ask(ask, _DIFFERENCES, trials, log=log, **parameters), 1):
                made.append(DifferenceCurve(variant, metric, over, log, *columns))
    return tuple(made)


def _kernels(ask: Ask, trials: Trials) -> Iterator[Kernel]:
    for (variant, address, step), group in groupby(_ask(ask, _KERNELS, trials), key=lambda row: row[:3]):
        cells, numbers = zip(*((row[3:6], row[6]) for row in group), strict=True)
        yield Kernel(variant, address, step, max(numbers), cells)


def _endings(ask: Ask, trials: Trials) -> tuple[TrialEnd, ...]:
    """Read the status of each trial, in the order of `trials`; trials that the results do not have are left out."""
    ends = {row[0]: TrialEnd(*row) for row in _ask(ask, _ENDINGS, trials)}
    return tuple(ends[id] for id in trials if id in ends)


def _versions(ask: Ask) -> dict[str, dict[str, str]]:
    versions: dict[str, dict[str, str]] = {}
    for id, name, version in ask("SELECT versions_id, name, version FROM versions ORDER BY ALL", {}).rows:
        versions.setdefault(id, {})[name] = version
    return versions


def _ask(ask: Ask, sql: str, trials: Trials, **more: Any) -> tuple[tuple[Any, ...], ...]:
    return ask(sql, {"trials": list(trials), "variants": list(trials.values()), **more}).rows


def _grouped(rows: Sequence[Sequence[Any]], width: int) -> Iterator[Sequence[Any]]:
    """Yield the first `width` values of rows with the columns of all rows that share these, the last as one value."""
    for key, group in groupby(rows, key=lambda row: row[:width]):
        *columns, measured = list(zip(*group, strict=True))[width:]
        yield [*key, *columns, measured[0]]


def thinned(of: str, by: str) -> str:
    """Return SQL for the steps of `of` that are kept: all, or `$most` spread evenly from the first to the last."""
    return f"""
placed AS (
    SELECT {by}, step, row_number() OVER (PARTITION BY {by} ORDER BY step) - 1 AS place,
        count(*) OVER (PARTITION BY {by}) AS measured
    FROM (SELECT DISTINCT {by}, step FROM {of})
),
kept AS (
    SELECT {by}, step, measured FROM placed
    WHERE measured <= $most OR place = 0
        OR place * ($most - 1) // (measured - 1) > (place - 1) * ($most - 1) // (measured - 1)
)"""


_OVER_SEEDS = """
    count(*) FILTER (isfinite(value)) AS n,
    count(*) FILTER (NOT isfinite(value)) AS lost,
    avg(value ORDER BY trial_id) FILTER (isfinite(value)) AS mean,
    stddev_samp(value ORDER BY trial_id) FILTER (isfinite(value)) AS sd,
    CASE WHEN bool_and(value > 0) THEN avg(ln(CASE WHEN value > 0 THEN value END) ORDER BY trial_id)
        FILTER (isfinite(value)) END AS log_mean,
    CASE WHEN bool_and(value > 0) THEN stddev_samp(ln(CASE WHEN value > 0 THEN value END) ORDER BY trial_id)
        FILTER (isfinite(value)) END AS log_sd,
    any_value(measured) AS measured"""

# For each variant every metric but rates and gains: the model's own number where there is one, else the mean and the
# largest value over parts.
_CURVES = f"""
WITH {TRIALS},
mine AS (
    SELECT a.variant, x.trial_id, x.metric, x.step, x.address, x.value
    FROM metrics x JOIN requested a USING (trial_id)
    WHERE x.metric NOT IN ('learning_rate', 'token_kernel', '{OF_HEADS}') AND x.metric NOT IN {GAINS}
),
{thinned("mine", "variant, metric")},
one AS (
    SELECT m.variant, m.trial_id, m.metric, m.step, k.measured,
        max(value) FILTER (address = '') AS whole,
        avg(value ORDER BY address) AS mean,
        max(value) AS largest
    FROM mine m JOIN kept k USING (variant, metric, step) GROUP BY ALL
),
each AS (
    SELECT variant, trial_id, metric, step, measured, 'whole' AS of, whole AS value FROM one WHERE whole IS NOT NULL
    UNION ALL SELECT variant, trial_id, metric, step, measured, 'mean', mean FROM one WHERE whole IS NULL
    UNION ALL SELECT variant, trial_id, metric, step, measured, 'largest', largest FROM one WHERE whole IS NULL
)
SELECT variant, metric, of, step, {_OVER_SEEDS} FROM each GROUP BY variant, metric, of, step ORDER BY ALL
"""

_GAINS = f"""
WITH {TRIALS},
mine AS (
    SELECT a.variant, x.trial_id, x.metric, x.step, x.address, x.value
    FROM metrics x JOIN requested a USING (trial_id) WHERE x.metric IN {GAINS}
),
{thinned("mine", "variant, metric")},
each AS (SELECT m.*, k.measured FROM mine m JOIN kept k USING (variant, metric, step))
SELECT variant, metric, address AS of, step, {_OVER_SEEDS}
FROM each GROUP BY variant, metric, address, step ORDER BY ALL
"""

# The largest over the parts of a layer, for gradient norms the root of the sum of squares. Parts outside layers go by
# the first word of their address; a number of the whole model has no map.
_LAYERS = f"""
WITH {TRIALS},
mine AS (
    SELECT a.variant, x.trial_id, x.metric, x.step, x.value,
        CASE WHEN x.address LIKE 'encoder.%' THEN 'encoder ' ELSE '' END || CASE
            WHEN regexp_matches(x.metric, '_({"|".join(APART)})$')
                THEN split_part(x.address, '.', 2) || ' ' || split_part(x.address, '.', 3)
            WHEN regexp_matches(x.address, '^(layers|encoder)[.]') THEN split_part(x.address, '.', 2)
            ELSE split_part(x.address, '.', 1)
        END AS part
    FROM metrics x JOIN requested a USING (trial_id)
    WHERE x.address <> '' AND x.metric NOT IN ('learning_rate', 'token_kernel', '{OF_HEADS}')
        AND x.metric NOT IN {GAINS}
),
{thinned("mine", "variant, metric")},
each AS (
    SELECT m.variant, m.trial_id, m.metric, m.part, m.step, k.measured,
        CASE WHEN m.metric = 'gradient_norm' THEN sqrt(sum(value * value ORDER BY value)) ELSE max(value) END AS value
    FROM mine m JOIN kept k USING (variant, metric, step)
    GROUP BY m.variant, m.trial_id, m.metric, m.part, m.step, k.measured
)
SELECT variant, metric, part, step, count(*) FILTER (isfinite(value)) AS n,
    avg(value ORDER BY trial_id) FILTER (isfinite(value)) AS mean, any_value(measured) AS measured
FROM each GROUP BY variant, metric, part, step ORDER BY variant, metric, try_cast(part AS INTEGER), part, step
"""

_KERNELS = f"""
WITH {TRIALS}
SELECT a.variant, k.address, k.step, k.i, k.j,
    coalesce(avg(k.value ORDER BY k.trial_id) FILTER (isfinite(k.value)), 'nan') AS mean,
    count(*) FILTER (isfinite(k.value)) AS n
FROM (SELECT DISTINCT trial_id, step, address, i, j, value FROM kernels) k JOIN requested a USING (trial_id)
GROUP BY a.variant, k.address, k.step, k.i, k.j
ORDER BY a.variant, k.address NOT LIKE 'encoder.%', try_cast(split_part(k.address, '.', 2) AS INTEGER) NULLS LAST,
    k.address, k.step, k.i, k.j
"""

_STREAMS = f"""
WITH {TRIALS}
SELECT a.variant, s.quantity, s.address, max(s.step) AS last, count(*) AS n,
    avg(s.value ORDER BY s.trial_id) AS mean, stddev_samp(s.value ORDER BY s.trial_id) AS sd,
    list(s.value ORDER BY s.trial_id) AS values
FROM streams s JOIN requested a USING (trial_id)
GROUP BY a.variant, s.quantity, s.address, s.step = 0 ORDER BY ALL
"""

_ENDINGS = f"""
WITH {TRIALS},
spans AS (
    SELECT trial_id, max(seconds) FILTER (name = 'ended') - max(seconds) FILTER (name = 'began') AS seconds,
        max(seconds) FILTER (name = 'ended') AS at
    FROM timings WHERE name IN ('began', 'ended') AND trial_id IN (SELECT trial_id FROM requested) GROUP BY trial_id
),
wanted AS (SELECT trial_id, count(*) AS spaces FROM memberships GROUP BY trial_id)
SELECT t.trial_id, t.status, t.ended_step, json_extract_string(t.detail, '$.address'), t.versions_id, s.seconds,
    d.tokens, coalesce(w.spaces, 0), s.at, t.processor
FROM trials t
LEFT JOIN trained d USING (trial_id)
LEFT JOIN spans s USING (trial_id)
LEFT JOIN wanted w USING (trial_id)
WHERE trial_id IN (SELECT trial_id FROM requested)
"""

_DIFFERENCES = f"""
WITH {TRIALS},
each AS (
    SELECT a.variant, t.seed, x.step,
        coalesce(
            max(x.value) FILTER (x.address = ''),
            CASE WHEN $largest THEN max(x.value) ELSE avg(x.value ORDER BY x.address) END
        ) AS value
    FROM metrics x JOIN requested a USING (trial_id) JOIN trials t USING (trial_id)
    WHERE x.metric = $metric
    GROUP BY a.variant, t.seed, x.step
),
pairs AS (
    SELECT e.variant, e.seed, e.step,
        CASE WHEN $log THEN CASE WHEN e.value > 0 AND b.value > 0 THEN ln(e.value / b.value) END
            ELSE e.value - b.value END AS value
    FROM each e JOIN each b USING (seed, step)
    WHERE b.variant = $baseline AND e.variant <> $baseline AND isfinite(e.value) AND isfinite(b.value)
),
{thinned("pairs", "variant")}
SELECT variant, step, count(value), avg(value ORDER BY seed), stddev_samp(value ORDER BY seed), any_value(measured)
FROM pairs JOIN kept USING (variant, step)
WHERE value IS NOT NULL
GROUP BY variant, step ORDER BY variant, step
"""
