"""Models before a single step: a forecast of a block, or of each variant of a space, beside sampled initialisations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.block.architecture import Architecture, plain_decoder, reads_encoder
from ablate.block.catalogue import Catalogue
from ablate.block.expression import Block
from ablate.block.reader import read_component
from ablate.block.sizes import Sizes
from ablate.data.corpus_statistics import Windows
from ablate.errors import InputError
from ablate.execute.executor import cache_of
from ablate.execute.forecaster import forecast_on, measure_model_inputs, reason
from ablate.output.words import plural
from ablate.session.planning import PathLike, corpus_located, plan_space
from ablate.space.space import Space
from ablate.theory.diagnostics import collapse_layer, dangers
from ablate.theory.initial_state import InitialModel
from ablate.theory.sequences import FORECAST, READ, SAMPLED, SOURCE, draw_tokens, forecast_patterns, patterns

if TYPE_CHECKING:
    import pandas
    from torch import Tensor

    from ablate.data.batch import Tensors

SEQUENCES, RECORDS = 8, 64
"""The sequences of two texts, or the images and other records, that pass through a sampled initialisation."""
AROUND = "embedding N(0, 1), weights N(0, 1/d), a LayerNorm behind the last layer"
"""The surroundings of a block that is forecast alone."""


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The forecast of each model by its name, of those without one the reason, and the measures of sampled ones."""

    models: Mapping[str, InitialModel]
    refused: Mapping[str, str]
    sampled: Mapping[str, tuple[InitialModel, ...]]

    def __repr__(self) -> str:
        warned = sum(bool(dangers(model)) for model in self.models.values())
        refused = f", {len(self.refused)} not forecast" if self.refused else ""
        return f"<Forecasts of {plural(len(self.models), 'model')}: {warned} in danger{refused}>"

    @property
    def table(self) -> pandas.DataFrame:
        """A row for each model, those that are not forecast last.

        model         its name: that of the block, or of the variant
        growth        root mean square of the stream behind the last layer over that in front of the first
        cosine        mean cosine of two tokens of one sequence behind the last layer; at 1 all are the same
        gradient      root mean square of the gradient in front of the first layer over that behind the last
        logits        root mean square of the logits; NaN behind an encoder's transform
        collapses_at  the first layer behind which tokens are nearly one and stay so; missing if there is none
        dangers       a sentence for each danger
        refused       why it is not forecast, with the way out; empty if it is
        """
        import pandas

        rows: list[tuple[object, ...]] = [
            (name, math.sqrt(each.growth), each.streams[-1].correlation, math.sqrt(each.gradient_ratio),
             math.sqrt(each.logits), collapse_layer(each), tuple(map(str, dangers(each))), "")
            for name, each in self.models.items()
        ]  # fmt: skip
        rows += [(name, *[math.nan] * 4, None, (), why) for name, why in self.refused.items()]
        names = ["model", "growth", "cosine", "gradient", "logits", "collapses_at", "dangers", "refused"]
        return pandas.DataFrame(rows, columns=names).astype({"collapses_at": "Int64"})

    @property
    def layers(self) -> pandas.DataFrame:
        """A row for each layer of each model that is forecast, and of each initialisation that was sampled.

        model     its name
        sample    number of the initialisation, from 1; 0 for the forecast
        layer     the stream behind this layer; 0 in front of the first
        size      root mean square of the stream over channels and tokens
        cosine    mean cosine of two tokens of one sequence
        gradient  root mean square of the gradient over that behind the last layer
        """
        import pandas

        models = [(name, n, each) for name in self.models
                  for n, each in enumerate((self.models[name], *self.sampled.get(name, ())))]  # fmt: skip
        rows = [(name, n, stream.layer, *stream.shown()) for name, n, each in models for stream in each.streams]
        return pandas.DataFrame(rows, columns=["model", "sample", "layer", "size", "cosine", "gradient"])


def forecast_block(name: str, block: Block, sizes: Sizes, catalogue: Catalogue, *, samples: int = 0) -> Forecasts:
    """Forecast a decoder of a block that reads random tokens, which repeat as often as the sizes say.

    It is the mean over a few such sequences; `samples` initialisations are measured beside it, each on others. A block
    with cross-attention is a model of two stacks: its encoder has as many layers and, without the length of a source,
    reads as many tokens. InputError for a component without a token kernel in closed form.
    """
    sizes = sizes_alone(block, sizes)
    model = plain_decoder(
        block,
        sizes,
        init=read_component("normal: 1/sqrt(width)", "init", catalogue),
        embedding_std=1,
        final_norm=read_component("layer_norm: {eps: 1e-5, scale: true, bias: true}", "norm", catalogue),
    )
    drawn = partial(draw_tokens, sizes.repetition, sizes.vocab_size)
    count = patterns(sizes.n_layers)
    tokens, sources = drawn(sizes.seq_len, count, FORECAST), None
    if sizes.source_len is not None:
        model = replace(model, kind="encoder_decoder")
        sources = drawn(sizes.source_len, count, FORECAST + SOURCE)

    def read(seed: int) -> Tensors:
        own = _tensor(drawn(sizes.seq_len, READ, SAMPLED, seed))
        if sizes.source_len is None:
            return own
        return _tensor(drawn(sizes.source_len, READ, SAMPLED + SOURCE, seed)), own

    made = forecast_patterns(model, catalogue, tokens, READ, sources)
    starts = tuple(_sampled(model, catalogue, read(k), k, apart=True, of_logs=True) for k in range(samples))
    forecasts, sampled = {name: made}, {name: starts}
    _add_encoder(name, forecasts, sampled)
    return Forecasts(forecasts, {}, sampled)


def sizes_alone(block: Block, sizes: Sizes) -> Sizes:
    """The sizes at which a block is forecast alone: with a source as long as its sequences if it reads one."""
    if not reads_encoder(block):
        return replace(sizes, source_len=None)
    return sizes if sizes.source_len else replace(sizes, source_len=sizes.seq_len)


def _add_encoder(name: str, forecasts: dict[str, InitialModel], sampled: dict[str, tuple[InitialModel, ...]]) -> None:
    if (encoder := forecasts[name].encoder) is not None:
        forecasts[f"{name}, encoder"] = encoder
        sampled[f"{name}, encoder"] = tuple(start.encoder for start in sampled[name] if start.encoder is not None)


def forecast_space(space: Space, *, results: PathLike, samples: int = 0) -> Forecasts:
    """Forecast the model of each variant of a space; nothing is trained.

    It is the mean over a few typical windows of its training text; of other data, how alike inputs are is measured.
    `samples` initialisations read the same. A model of two stacks has its encoder under its name with `, encoder`
    behind it. Raises InputError and RefusedError as planning does; a model that is not forecast is no error, but has
    its reason.
    """
    planned = plan_space(space, results=results, forecasts="none")
    catalogue, cache = space.grammar.catalogue, cache_of(Path(results))
    forecasts: dict[str, InitialModel] = {}
    refused: dict[str, str] = {}
    sampled: dict[str, tuple[InitialModel, ...]] = {}
    for variant in planned.plan.variants:
        model = planned.models.architecture(variant.block, variant.setting)
        varied = planned.models.at(variant.setting.changes)
        with corpus_located(varied):
            known = planned.models.text(variant.setting.changes).fingerprint
            inputs = measure_model_inputs(model, varied.data, varied.folder, cache, catalogue, known=known)
        try:
            made = forecast_on(model, catalogue, inputs)
        except InputError as error:
            refused[variant.name] = reason(error)
            continue
        given = (_read(model, varied, cache, seed, inputs.windows) for seed in range(samples))
        apart = inputs.windows is not None
        starts = tuple(_sampled(model, catalogue, read, seed, apart=apart) for seed, read in enumerate(given))
        forecasts[variant.name], sampled[variant.name] = made, starts
        _add_encoder(variant.name, forecasts, sampled)
    return Forecasts(forecasts, refused, sampled)


def _sampled(
    architecture: Architecture,
    catalogue: Catalogue,
    inputs: Tensors,
    seed: int,
    *,
    apart: bool = False,
    of_logs: bool = False,
) -> InitialModel:
    from ablate.execute.start import sampled_initialisation  # loads torch, which forecasts do not need

    return sampled_initialisation(architecture, catalogue, inputs, seed=seed, apart=apart, of_logs=of_logs)


def _read(architecture: Architecture, space: Space, cache: Path, seed: int, windows: Windows | None) -> Tensors:
    if windows is not None:
        return _tensor(windows)
    from ablate.data.batch import Batches, first
    from ablate.data.records import RecordBatches
    from ablate.data.streams import prepare
    from ablate.train.objective import first_batch, objective_for

    sizes, catalogue = architecture.sizes, space.grammar.catalogue
    with corpus_located(space):
        streams = prepare(space.data, space.folder, cache, catalogue)
        if streams.standard is None:
            assert sizes.source_len is not None
            lengths = (sizes.source_len, sizes.seq_len)
            drawn = [Batches(streams.train, length, SEQUENCES, seed).at(step) for step, length in enumerate(lengths)]
            return tuple(first(each.inputs) for each in drawn)
        batch = RecordBatches(streams.records("train"), streams.standard, RECORDS, seed).at(0)
    return first_batch(objective_for(space.recipe, sizes, catalogue), batch, seed).inputs


def _tensor(tokens: Windows) -> Tensor:
    import torch

    return torch.from_numpy(tokens)
