"""What a model reads of its data, as a forecast begins with it: how often tokens are the same, kernels of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.data.corpus import corpus_of
from ablate.data.input_kernels import measure_inputs, measure_targets
from ablate.data.repetition import measure_repetition
from ablate.space.documents import Data


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """How likely two tokens are the same, one number or [T, T], and the `kernel` of what is read besides, [P, P].

    Each is None where it is not measured: nothing is read so.
    """

    repetition: float | Any | None
    kernel: Any | None

    def of_first(self, tokens: int, places: int | None) -> ModelInputs:
        """Return that of the first tokens of a sequence, and the first places of a source, if it has more."""
        repetition, kernel = self.repetition, self.kernel
        if isinstance(repetition, np.ndarray):
            repetition = repetition[:tokens, :tokens]
        if kernel is not None and places is not None:
            kernel = kernel[:places, :places]
        return ModelInputs(repetition, kernel)


def measure_model_inputs(
    architecture: Architecture, data: Data, folder: Path, cache: Path, catalogue: Catalogue
) -> ModelInputs:
    """Measure what a model reads of its training split; RefusedError where the data are missing or too small.

    Texts are counted in windows as long as what the model reads: sources and targets are taken to fill up all places.
    """
    length = architecture.sizes.seq_len
    if corpus_of(data, catalogue).layout(data.corpus.settings) is None:
        repetition = measure_repetition(data, folder, cache, length, catalogue).value
        source = architecture.sizes.source_len
        if architecture.kind != "encoder_decoder" or source is None:
            return ModelInputs(repetition, None)
        of_source = measure_repetition(data, folder, cache, source, catalogue).value
        return ModelInputs(repetition, np.where(np.eye(source, dtype=bool), 1.0, of_source))
    if not architecture.input_shape:
        return ModelInputs(None, None)
    kernel = measure_inputs(data, folder, cache, architecture.patch, catalogue)
    if architecture.kind != "encoder_decoder":
        return ModelInputs(None, kernel)
    return ModelInputs(measure_targets(data, folder, cache, length, catalogue), kernel)
