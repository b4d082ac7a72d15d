"""Gains: where the trained factors of residuals, skips and matrices go.

    gain = g                                                  a single number
    gain_mean = mean_c g_c,  gain_rms = sqrt(mean_c g_c²)     one number a channel or a head

Read at the address of the gain, in every measured step, before the update; gains that are not trained are not read.

    Bachlechner et al. 2020 (ReZero), arXiv:2003.04887; Touvron et al. 2021 (LayerScale), arXiv:2103.17239
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from ablate.compiler.scale import Scale
from ablate.probes.probe import ParameterProbe, Reading
from ablate.space.metrics import Definition

SINGLE = "Bachlechner et al. 2020, arXiv:2003.04887"
SEVERAL = "Touvron et al. 2021, arXiv:2103.17239"


def gains(model: nn.Module) -> Iterator[Reading]:
    """The value of every trainable gain."""
    for address, module in model.named_modules():
        if not isinstance(module, Scale) or not isinstance(module.factor, nn.Parameter):
            continue
        factor = module.factor.detach().double()
        if factor.numel() == 1:
            yield Reading("gain", address, factor.squeeze())
        else:
            yield Reading("gain_mean", address, factor.mean())
            yield Reading("gain_rms", address, factor.square().mean().sqrt())


PROBE = ParameterProbe(
    definitions=(
        Definition("gain", "value of a trainable gain that is a single number", SINGLE),
        Definition("gain_mean", "mean of a trainable gain with a number for each channel or head", SEVERAL),
        Definition("gain_rms", "root mean square of a trainable gain with a number for each channel or head", SEVERAL),
    ),
    measure=gains,
)
