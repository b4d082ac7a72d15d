"""Gains: how the trained factors of residuals, skips and matrices develop.

    gain = g                                                  a single number
    gain_mean = mean_c g_c,  gain_rms = sqrt(mean_c g_c²),  gain_sd = sqrt(gain_rms² - gain_mean²)
                                                              one number per channel or head
    gain_ratio = mean_c β_c / α_c                             if a part trains a gain β and a skip α

Read at the address of the gain, the ratio at that of the part that holds both; in every measured step, before the
update. Gains that are not trained are not read; `gain_by_head` reads those of single heads. For a matrix W = α W_0 + β
ΔW the ratio says how far it has moved from its start.

    Bachlechner et al. 2020 (ReZero), arXiv:2003.04887; Touvron et al. 2021 (LayerScale), arXiv:2103.17239;
    He & Hofmann 2024, arXiv:2311.01906: the ratio in Fig. 4, 16, 21 and 22, the sd over heads in Fig. 17 to 19
"""

from __future__ import annotations

from ablate.probes.declare import implements, metric, probe

SINGLE = "Bachlechner et al. 2020, arXiv:2003.04887"
SEVERAL = "Touvron et al. 2021, arXiv:2103.17239"


@probe("gain", reads="parameters", asked=False, source=SINGLE, version=1)
class Gain:
    gain = metric(
        "value of a trainable gain that is a single number",
        SINGLE,
        better="none",
    )
    gain_mean = metric(
        "mean of a trainable gain with a number for each channel or head",
        SEVERAL,
        better="none",
    )
    gain_rms = metric(
        "root mean square of a trainable gain with a number for each channel or head",
        SEVERAL,
        better="none",
    )
    gain_sd = metric(
        "standard deviation, over all channels or heads, of a trainable gain with a number for each",
        "He & Hofmann 2024, Fig. 17 to 19, arXiv:2311.01906",
        better="none",
    )
    gain_ratio = metric(
        "trainable gain over the trainable skip of the same part, beta / alpha; mean over channels or heads where "
        "there is a number for each",
        "He & Hofmann 2024, Fig. 4, arXiv:2311.01906",
        better="none",
    )


from collections.abc import Iterator

from torch import Tensor, nn

from ablate.compiler.build import Scale
from ablate.probes.reading import Reading


@implements(Gain)
def gains(model: nn.Module) -> Iterator[Reading]:
    for address, module in model.named_modules():
        factor = trained(module)
        if factor is not None and factor.numel() == 1:
            yield Reading("gain", address, factor.squeeze())
        elif factor is not None:
            yield Reading("gain_mean", address, factor.mean())
            yield Reading("gain_rms", address, factor.square().mean().sqrt())
            yield Reading("gain_sd", address, factor.std(correction=0))
        gain, skip = (trained(getattr(module, name, None)) for name in ("gain", "skip"))
        if gain is not None and skip is not None:
            yield Reading("gain_ratio", address, (gain / skip).mean())


def trained(module: object) -> Tensor | None:
    """The numbers of a trained gain, in float64; None for anything else."""
    if not isinstance(module, Scale) or not isinstance(module.factor, nn.Parameter):
        return None
    return module.factor.detach().double()
