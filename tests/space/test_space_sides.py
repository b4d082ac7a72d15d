"""Which side of a metric is better: by its declaration, unless a space says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import CATALOGUE
from space_fixtures import space

from ablate.space.metrics import SITES, direction, directions, judgeable, known_probes

pytestmark = pytest.mark.fast

SIDE = {name: each.better for name, each in judgeable(CATALOGUE).items()}
LOWER = (
    *("eval_loss", "eval_bits_per_byte", "perplexity", "mean_eval_loss", "train_loss", "mean_train_loss"),
    *("train_loss_ema", "eval_loss_averaged_weights", "eval_bits_per_byte_averaged_weights", "step_seconds"),
    *("kurtosis", "kurtosis_as_released", "kurtosis_centred", "max_median_ratio", "max_median_ratio_median"),
    *("max_median_ratio_max", "max_median_ratio_as_released", "max_median_ratio_centred", "token_correlation_mean"),
    *("token_correlation", "token_correlation_rms", "token_correlation_rms_as_released", "token_cosine"),
)
HIGHER = ("eval_accuracy", "eval_accuracy_averaged_weights", "tokens_per_second")
NEITHER = (
    *("attention_entropy", "gradient_norm", "activation_rms", "activation_rms_as_released", "stream_gradient"),
    *("gain", "gain_mean", "gain_rms", "gain_sd", "gain_ratio", "gain_of_head", "moment_update_2_1"),
    *("moment_update_4_4", "one_step_sensitivity", "normality", "gradient_normality", "feature_correlation_rms"),
    *("feature_correlation_rms_as_released", "token_norm_kurtosis"),
)


@pytest.mark.parametrize(("side", "names"), [("lower", LOWER), ("higher", HIGHER), ("none", NEITHER)])
def test_each_metric_has_the_side_of_the_literature(side: str, names: tuple[str, ...]) -> None:
    assert {name: SIDE[name] for name in names} == dict.fromkeys(names, side)


def test_peaks_means_and_sites_have_the_side_of_their_metric() -> None:
    assert {SIDE[f"{form}_attention_entropy"] for form in ("peak", "mean")} == {"none"}
    assert {SIDE[f"peak_activation_rms_{site}"] for site in SITES} == {"none"}
    assert {SIDE[f"mean_kurtosis_{site}"] for site in SITES} == {"lower"}
    own = {metric.metric: metric.better for spec in known_probes(CATALOGUE).values() for metric in spec.metrics}
    assert {SIDE[name] == side for name, side in own.items() if name in SIDE} == {True}


def test_a_direction_has_a_word_for_each_side() -> None:
    for better in ("lower", "higher", "none"):
        assert {direction(True, better), direction(False, better)} == set(directions(better))


MEASURE = "{every: 5, probes: [attention_entropy], evaluation: {every: 10, windows: 8}}"
EACH = "{against: pre_ln, metrics: {eval_loss: {}, attention_entropy: {}, tokens_per_second: {}}%s}"


def sides(folder: Path, judge: str) -> list[str]:
    return [judged.better for judged in space(folder, judge=judge, measure=MEASURE).judge.metrics.values()]


def test_a_space_that_leaves_it_out_has_that_of_the_metric(tmp_path: Path) -> None:
    assert sides(tmp_path, EACH % "") == ["lower", "none", "higher"]


def test_what_a_space_writes_stands(tmp_path: Path) -> None:
    written = EACH.replace("{}", "{better: lower}") % ""
    assert sides(tmp_path, written) == ["lower"] * 3
    of_loss = EACH.replace("eval_loss: {}", "eval_loss: {better: none}") % ""
    assert sides(tmp_path, of_loss) == ["none", "none", "higher"]
    assert sides(tmp_path, EACH % ", each: {better: lower}") == ["lower"] * 3
