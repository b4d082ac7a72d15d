"""Numbers of any size are shown to two uncertain digits; none that is not zero is shown as zero."""

from __future__ import annotations

import pytest

from ablate.output.words import deviation, interval, measured

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((-0.0143, -0.0185, -0.0102), "-0.0143 [-0.0185, -0.0102]"),
        ((-1.43e298, -1.85e298, -1.02e298), "-1.43e+298 [-1.85e+298, -1.02e+298]"),
        ((-1.43e-202, -1.85e-202, -1.02e-202), "-1.43e-202 [-1.85e-202, -1.02e-202]"),
        ((3.1e-8, -1e-8, 7.2e-8), "+3.1e-08 [-1.0e-08, +7.2e-08]"),
        ((3.14159e-8, 3.141e-8, 3.1422e-8), "+3.14159e-08 [+3.14100e-08, +3.14220e-08]"),
        ((1e300, 0.0, 2e300), "+1.0e+300 [0, +2.0e+300]"),
        ((1e308, -1.7e308, 1.7e308), "+1.0e+308 [-1.7e+308, +1.7e+308]"),
        ((123456.0, 120000.0, 130000.0), "+123456 [+120000, +130000]"),
        ((2e-5, 1e-5, 3e-5), "+0.000020 [+0.000010, +0.000030]"),
        ((5e10, 5e10, 5e10), "+5e+10 [+5e+10, +5e+10]"),
    ],
)
def test_intervals(values, shown):
    assert interval(*values, log=False) == shown


@pytest.mark.parametrize(
    ("mean", "sd", "shown"),
    [
        (2.31049, 0.0112, "2.310 ± 0.011"),
        (2.31049e300, 1.12e298, "2.310e+300 ± 1.1e+298"),
        (2.31049e-200, 1.12e-202, "2.310e-200 ± 1.1e-202"),
        (2.31049, 1.12e-8, "2.310490 ± 1.1e-08"),
        (0.0, 3e-9, "0 ± 3.0e-09"),
        (0.0, 0.2, "0.00 ± 0.20"),
    ],
)
def test_means_with_their_deviation(mean, sd, shown):
    assert f"{measured(mean, sd)} ± {deviation(sd, mean)}" == shown
