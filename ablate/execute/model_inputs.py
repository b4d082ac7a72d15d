"""What a model reads of its data, as a forecast begins with it: how often tokens are the same, kernels of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.data.corpus import corpus_of
from ablate.data.input_kernels import measure_inputs, measure_targets
from ablate.data.repetition import measure_repetition
from ablate.data.typical_windows import Windows, typical_windows
from ablate.space.documents import Data

if TYPE_CHECKING:
    from ablate.theory.initial_state import InitialModel

SEQUENCES = 4
"""Of how many typical windows of a text a forecast is the mean; a quick one is of one window."""


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """How likely two tokens are the same, one number or [T, T], and the `kernel` of what is read besides, [P, P].

    A model of one stack that reads text has `windows` of it instead, [N, T]. Each is None where it is not measured:
    nothing is read so.
    """

    repetition: float | Any | None
    kernel: Any | None
    windows: Windows | None = None

    def of_first(self, tokens: int, places: int | None) -> ModelInputs:
        """Return that of the first tokens of a sequence, and the first places of a source, if it has more."""
        repetition, kernel = self.repetition, self.kernel
        if isinstance(repetition, np.ndarray):
            repetition = repetition[:tokens, :tokens]
        if kernel is not None and places is not None:
            kernel = kernel[:places, :places]
        return ModelInputs(repetition, kernel, self.windows)


def measure_model_inputs(
    architecture: Architecture,
    data: Data,
    folder: Path,
    cache: Path,
    catalogue: Catalogue,
    *,
    sequences: int = SEQUENCES,
    most: int | None = None,
    known: str | None = None,
) -> ModelInputs:
    """Measure what a model reads of its training split; RefusedError where the data are missing or too small.

    The files of the data are not looked at where their fingerprint is `known` and the same was measured before. Of a
    text these are `sequences` windows, of `most` tokens if the model reads more. Texts of models of two stacks are
    counted in windows as long as what the model reads: sources and targets are taken to fill up all places.
    """
    length = architecture.sizes.seq_len
    if corpus_of(data, catalogue).layout(data.corpus.settings) is None:
        if architecture.kind != "encoder_decoder":
            tokens = length if most is None else min(length, most)
            return ModelInputs(None, None, typical_windows(data, folder, cache, tokens, sequences, catalogue, known))
        repetition = measure_repetition(data, folder, cache, length, catalogue, known).value
        source = architecture.sizes.source_len
        if source is None:
            return ModelInputs(repetition, None)
        of_source = measure_repetition(data, folder, cache, source, catalogue, known).value
        return ModelInputs(repetition, np.where(np.eye(source, dtype=bool), 1.0, of_source))
    if not architecture.input_shape:
        return ModelInputs(None, None)
    kernel = measure_inputs(data, folder, cache, architecture.patch, catalogue, known)
    if architecture.kind != "encoder_decoder":
        return ModelInputs(None, kernel)
    return ModelInputs(measure_targets(data, folder, cache, length, catalogue, known), kernel)


def forecast_on(architecture: Architecture, catalogue: Catalogue, inputs: ModelInputs) -> InitialModel:
    """Forecast a model that reads these inputs; raises InputError as `ablate.theory.models.forecast` does."""
    from ablate.theory.models import forecast
    from ablate.theory.sequences import forecast_sequences

    if inputs.windows is None:
        return forecast(architecture, catalogue, inputs.repetition, inputs.kernel)
    return forecast_sequences(architecture, catalogue, inputs.windows)
