"""Start: models before their first step: built, measured at their initialisation, and compared.

Some errors only show when weights are initialised; some variants start alike; a search may order its proposals by
what a model is at its start; and a forecast has a second opinion in one pass of a sampled model. Nothing here is
trained beyond one update, and torch is loaded when a model is built, not before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.normal_form import digest
from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.output.escape import visible
from ablate.output.words import listed
from ablate.plan.identity import effective_recipe
from ablate.plan.plan import Plan, Trial
from ablate.source.problems import Problems
from ablate.space.design import ZeroCost
from ablate.space.recipe import Recipe
from ablate.space.schedule import smallest_batch
from ablate.space.space import Space, place_of_block

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor, nn

    from ablate.data.batch import Batch, Tensors
    from ablate.data.streams import TokenStreams
    from ablate.theory.initial_state import InitialModel, InitialStream

# Blocks built without training them, since some errors only show when weights are initialised: the first two layers and
# the last, at full size.


def rehearse(plan: Plan, space: Space, trials: Iterable[Trial], plugins: tuple[Path, ...]) -> None:
    """Build and fill the blocks of these trials; InputError, with every mistake at its place in the space: an init
    without an inverse, or a zero weight that is to be divided by its norm, is not in the declarations, and would end a
    worker."""
    problems, catalogue = Problems(), declarations(plugins)
    for variant, architecture in {trial.variant: trial.work.architecture for trial in trials}.items():
        name = plan.variant(variant).name
        try:
            build_layers(architecture, catalogue)
        except InputError as error:
            message, *way_out = (line.strip(" =") for line in str(error).removeprefix("error: ").splitlines())
            place = place_of_block(space.located, name) or space.origins.section("design")
            space.origins.add_in_block(problems, message, place, (f"block: {name}", *way_out))
    problems.raise_if_any()


def build_layers(architecture: Architecture, catalogue: Catalogue) -> None:
    """Build and initialise layers of a model on the CPU, and discard them; InputError if that is not possible."""
    from ablate.compiler import compile_block

    depth = architecture.sizes.n_layers
    for layer in sorted({1, min(2, depth), depth}):
        compile_block(
            architecture.block, architecture.sizes, catalogue, init=architecture.init, layer=layer, alone=False
        )


# Variants that start alike: the same parameters, outputs, gradients and first update, on one batch, in float64.
#
# Two variants that a plan does not fold (`plan/identity.py`) may still be one model that is written in two ways, or
# differ only in what acts later, such as a bound that no number reaches yet. Variants of one recipe, text and number of
# parameters are built at the first seed, on two examples of the first batch: sums over the logits of each token must
# agree to 1e-9 of the largest, and over each parameter, its gradient and its change to 1e-6.

MOST_NUMBERS = 2e8
"""The most numbers, parameters and activations together, of a model built for this: in float64 some 2 GB."""
EXAMPLES = 2


def starting_alike(
    plan: Plan, catalogue: Catalogue, cache: Path, to_run: Collection[Trial] | None = None
) -> tuple[str, ...]:
    """A line for each set of variants that start alike, and one for those that could not be compared, and why. Sets of
    which no variant has a trial `to_run` are left out (None: none is). Nothing is raised."""
    earliest: dict[str, Trial] = {}
    for trial in plan.trials:
        earliest.setdefault(trial.variant, trial)
    waiting = earliest.keys() if to_run is None else {trial.variant for trial in to_run}
    sets: dict[tuple[object, ...], list[Trial]] = {}
    for variant in plan.variants:
        if variant.id in earliest and variant.setting.salt == 0:
            trial = earliest[variant.id]
            recipe = digest(effective_recipe(trial.work.recipe, trial.work.architecture, catalogue))
            sets.setdefault((recipe, trial.work.corpus, trial.seed, variant.parameters), []).append(trial)
    candidates = [trials for trials in sets.values() if len(trials) > 1 and any(t.variant in waiting for t in trials)]
    name = {variant.id: variant.name for variant in plan.variants}
    lines: list[str] = []
    failed: dict[str, list[str]] = {}
    texts: dict[str, TokenStreams] = {}
    for trials in candidates:
        starts: list[tuple[Start, list[str]]] = []
        for trial in trials:
            try:
                start = start_of(trial, catalogue, cache, texts)
            except Exception as error:  # noqa: BLE001  a component may raise anything, and training may still work
                failed.setdefault(visible(str(error).partition("\n")[0]) or type(error).__name__, []).append(
                    name[trial.variant]
                )
                continue
            same = next((names for other, names in starts if start.like(other)), None)
            if same is None:
                starts.append((start, [name[trial.variant]]))
            else:
                same.append(name[trial.variant])
        lines += [
            f"{listed(names)} start alike: the same parameters, logits, gradients and first update, in float64; they "
            "are one model unless something acts later"
            for _, names in starts
            if len(names) > 1
        ]
    lines += [f"not asked whether they start alike: {listed(names)} ({why})" for why, names in failed.items()]
    return tuple(lines)


def numbers_of(trial: Trial) -> float:
    """The approximate number of values in a pass over the examples: parameters, and activations of every layer."""
    sizes = trial.work.architecture.sizes
    length = max(sizes.seq_len, sizes.source_len or 0)
    pairs, streams = sizes.n_heads * length, 20 * sizes.d_model
    each = sizes.n_layers * (pairs + streams + 12 * sizes.d_model**2 / (EXAMPLES * length)) + 3 * sizes.vocab_size
    return EXAMPLES * length * each + 2 * sizes.vocab_size * sizes.d_model


def start_of(trial: Trial, catalogue: Catalogue, cache: Path, texts: dict[str, TokenStreams]) -> Start:
    """Build the model of a trial in float64, and make its first update; `texts` caches the token streams. InputError
    for a model that is too large, and whatever building and training it raise."""
    if numbers_of(trial) > MOST_NUMBERS:
        raise InputError("too large")
    import torch

    from ablate.compiler import compile_model
    from ablate.compiler.initialise import profile, seeded, stream_seed
    from ablate.data.batch import Batch, first
    from ablate.data.streams import prepare
    from ablate.execute.work import drawing_of
    from ablate.space.schedule import rate_schedule
    from ablate.train.loop import WHOLE
    from ablate.train.loss import forward
    from ablate.train.microbatches import Passes
    from ablate.train.objective import chosen_objective, first_batch, first_of, objective_of
    from ablate.train.optimizer import build_optimizer, clip_gradients, gradient_norm, set_rates

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    if trial.work.corpus not in texts:
        texts[trial.work.corpus] = prepare(trial.work.data, Path(trial.work.folder), cache, catalogue)
    spec, settings = chosen_objective(trial.work.recipe, catalogue)
    sizes = trial.work.architecture.sizes
    drawn = drawing_of(texts[trial.work.corpus], spec, settings, sizes, trial.work.recipe, trial.seed).at(0)
    objective = objective_of(trial, catalogue)
    batch = first_batch(objective, first_of(Batch(*drawn), EXAMPLES), trial.seed).each(wide)
    with seeded(stream_seed(trial.seed, trial.salt, "before training")):
        model = compile_model(trial.work.architecture, catalogue, seed=trial.seed, dtype=torch.float64)
        profile(model, batch.inputs)
        with torch.no_grad():
            outputs = first(forward(model.eval(), batch.inputs, "float64"))
        optimizer = build_optimizer(model.train(), trial.work.recipe.optimizer, catalogue)
        set_rates(optimizer, rate_schedule(trial.work.recipe, catalogue)(0) or 1.0)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        Passes(model, "float64", WHOLE, objective).backward(WHOLE.of(batch, torch.device("cpu"), objective))
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]
        clip_gradients(model, trial.work.recipe.clip, gradient_norm(model))
        optimizer.step()
        changes = [after.detach() - then for after, then in zip(model.parameters(), before, strict=True)]
    rows = ([value for each in of for value in _sums(each)] for of in zip(before, gradients, changes, strict=True))
    tokens = outputs.flatten(0, -2) if outputs.ndim > 1 else outputs[None]
    return Start(
        outputs=torch.tensor([_sums(token) for token in tokens], dtype=torch.float64),
        sums=torch.tensor(sorted(rows), dtype=torch.float64),
    )


def _sums(tensor: Tensor) -> tuple[float, float, float]:
    import torch

    flat = tensor.detach().flatten()
    weights = torch.arange(1, flat.numel() + 1, dtype=torch.float64).sqrt().sin()
    return float(flat.square().sum()), float(flat.sum()), float(flat @ weights)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The start of a training: sums over the logits of each token, [N, 3], and over each parameter, its gradient and
    its change, [P, 9]."""

    outputs: Tensor
    sums: Tensor

    def like(self, other: Start) -> bool:
        """True if two models start alike but for the order of their parameters and for rounding."""
        if self.outputs.shape != other.outputs.shape or self.sums.shape != other.sums.shape:
            return False
        pairs = ((self.outputs, other.outputs, 1e-9), (self.sums, other.sums, 1e-6))  # of the largest in a column
        return all(bool(((a - b).abs() <= tolerance * a.abs().amax(0)).all()) for a, b, tolerance in pairs)


# Zero-cost measures of a model before training: counted, or measured on one batch at initialisation.
#
#     parameters           trained, of the whole model
#     flops                of matrix products in one forward pass over one sequence
#     start_loss           L(θ_0), the loss of the objective on the first training batch
#     start_gradient_norm  |∂L/∂θ| at θ_0 on the same batch, the 2-norm over all parameters
#
# The start is that of the space's first seed, in the recipe's dtype, computed on the CPU with the space's threads, so
# that a search that is resumed elsewhere orders its proposals as before. The model is in evaluation mode. If it has no
# dropout and no running state, these are the first `train_loss` and `gradient_norm` of that trial on CPU, to the bit.
#
# Ranking architectures by their gradients at initialisation: Abdelfattah et al. 2021, arXiv:2101.08134 (`grad_norm`).

MEASURED: tuple[ZeroCost, ...] = ("start_loss", "start_gradient_norm")


@dataclass(frozen=True, slots=True)
class StartMeasures:
    """The loss and gradient norm of a model at initialisation. A non-finite number is a property of the model, not an
    error."""

    loss: float
    gradient_norm: float


def measure_start(
    architecture: Architecture,
    catalogue: Catalogue,
    recipe: Recipe,
    drawn: Batch,
    *,
    seed: int,
    threads: int,
) -> StartMeasures:
    """The loss and gradient norm of a model at `seed`, on a batch made of the examples `drawn` for the first step.
    InputError if the model cannot be built."""
    import torch

    from ablate.compiler import compile_model
    from ablate.compiler.initialise import profile, seeded, stream_seed
    from ablate.execute.machine import settings_restored
    from ablate.train.data_parallel import pin_threads
    from ablate.train.loss import forward, loss_scaling, parameter_type, unscale
    from ablate.train.objective import first_batch, first_of, objective_for
    from ablate.train.optimizer import gradient_norm

    objective = objective_for(recipe, architecture.sizes, catalogue)
    batch = first_batch(objective, first_of(drawn, smallest_batch(recipe)), seed)
    with settings_restored(), seeded(stream_seed(seed, 0, "before training")):
        pin_threads(threads)
        model = compile_model(architecture, catalogue, seed=seed, dtype=parameter_type(recipe.dtype))
        profile(model, batch.inputs)
        model.eval()
        loss = next(iter(objective.terms(forward(model, batch.inputs, recipe.dtype), batch))).mean
        scaling = loss_scaling(recipe)
        scale = 1.0 if scaling is None else scaling.scale
        torch.autograd.backward(loss if scale == 1 else loss * scale)
        unscale((p.grad for p in model.parameters() if p.grad is not None), scale)
        return StartMeasures(loss.item(), gradient_norm(model).item())


# A sampled initialisation, one forward and backward pass before a single step: the second opinion on a forecast
# (`ablate/theory/models.py`), with its numbers: the streams behind each layer, and the gradient of a loss whose
# gradient behind the final norm is independent from entry to entry. Weights, dropout and that gradient follow from the
# seed.


def sampled_initialisation(
    architecture: Architecture,
    catalogue: Catalogue,
    inputs: Tensors,
    *,
    seed: int,
    apart: bool = False,
    of_logs: bool = False,
) -> InitialModel:
    """Sample the weights of a model and pass its inputs through it, in training, in float32.

    The inputs are tokens [B, T], images or features [B, …], or a source and tokens. The numbers are those of the mean
    kernel of all inputs, as `forecast` has them of tokens that repeat by chance; or, if sequences are to be `apart`,
    means of the numbers of each, as `forecast_sequences` has them, with `of_logs` geometric ones, as in
    `forecast_patterns`. The two differ: in a mean kernel, sequences of larger tokens count for more. Raises InputError
    as `compile_model` does.
    """
    import torch
    from torch import Tensor, nn

    from ablate.compiler import compile_model
    from ablate.compiler.initialise import profile
    from ablate.theory.sequences import mean_of

    encoder = architecture.kind == "encoder_decoder"
    with torch.random.fork_rng():
        model = compile_model(architecture, catalogue, seed=seed)
        profile(model, inputs)
        model.train()
        torch.manual_seed(seed)
        with _streams_of(model.encoder if encoder else nn.ModuleDict()) as encoded:
            streams, behind, logits = pass_through(model, inputs)
        gradients = torch.autograd.grad(behind, [*streams, *encoded], torch.randn_like(behind))
    given, layers = (inputs,) if isinstance(inputs, Tensor) else inputs, len(streams)
    squares = torch.linalg.vector_norm(logits.flatten(1), dim=1, dtype=torch.float64).square() / logits[0].numel()

    def state(rows: slice) -> InitialModel:
        backward = [g[rows] for g in gradients]
        decoder = _initial_model([x[rows] for x in streams], backward[:layers], given[-1][rows], squares[rows])
        if not encoder:
            return decoder
        return replace(
            decoder, encoder=_initial_model([x[rows] for x in encoded], backward[layers:], given[0][rows], None)
        )

    if not apart:
        return state(slice(None))
    return mean_of([state(slice(k, k + 1)) for k in range(len(squares))], of_logs=of_logs)


def _initial_model(
    streams: Sequence[Tensor], gradients: Sequence[Tensor], inputs: Tensor, squared_logits: Tensor | None
) -> InitialModel:
    from ablate.theory.initial_state import InitialModel

    reference = float(gradients[-1].double().square().mean())
    return InitialModel(
        tuple(
            _initial_stream(layer, x.detach(), g, reference)
            for layer, (x, g) in enumerate(zip(streams, gradients, strict=True))
        ),
        logits=math.nan if squared_logits is None else float(squared_logits.mean()),
        repetition=math.nan if inputs.is_floating_point() else _repetition(inputs),
        computed=frozenset(range(len(streams))),
    )


@contextmanager
def _streams_of(stack: Tensor | nn.Module) -> Iterator[list[Tensor]]:
    """A list that has, after a pass, the stream in front of the first layer and behind each."""
    from torch import nn

    assert isinstance(stack, nn.ModuleDict)
    layers = list(stack.values())
    streams: list[Tensor] = []
    hooks = [layer.register_forward_pre_hook(lambda _, given: streams.append(given[0])) for layer in layers]
    hooks += [layer.register_forward_hook(lambda _, given, behind: streams.append(behind)) for layer in layers[-1:]]
    try:
        yield streams
    finally:
        for hook in hooks:
            hook.remove()


def pass_through(model: nn.Module, inputs: Tensors) -> tuple[list[Tensor], Tensor, Tensor]:
    """The stream in front of the first layer and behind each, the stream behind the final norm, and the logits."""
    from torch import Tensor, nn

    ends: list[Tensor] = []

    def leaves(_: nn.Module, given: object, output: Tensor) -> None:
        ends.append(output)

    with _streams_of(model.layers) as streams, ExitStack() as attached:
        if isinstance(model.final_norm, nn.Module):
            attached.callback(model.final_norm.register_forward_hook(leaves).remove)
        output = model(*((inputs,) if isinstance(inputs, Tensor) else inputs))
    logits: Tensor = output[0] if isinstance(output, tuple) else output
    return streams, ends[-1] if ends else streams[-1], logits.detach()


def _initial_stream(
    layer: int, x: Float[Tensor, "B T D"], g: Float[Tensor, "B T D"], reference: float
) -> InitialStream:
    from ablate.theory.initial_state import InitialStream, mean_cosine

    kernel, gradient = _mean_kernel(x), _mean_kernel(g)
    return InitialStream(
        layer=layer,
        mean_square=float(kernel.diagonal().mean()),
        correlation=mean_cosine(kernel.numpy()),
        gradient=float(gradient.diagonal().mean()) / reference if reference else math.nan,
        gradient_correlation=mean_cosine(gradient.numpy()),
        kernel=kernel.numpy(),
    )


def _mean_kernel(x: Float[Tensor, "B T D"]) -> Float[Tensor, "T T"]:
    """The mean over sequences of x xᵀ / d, in float64."""
    import torch

    wide = x.double()
    return torch.einsum("btd,bsd->ts", wide, wide) / (len(x) * x.shape[-1])


def _repetition(tokens: Int[Tensor, "B T"]) -> float:
    length = tokens.shape[1]
    same = (tokens[:, :, None] == tokens[:, None]).sum() - tokens.numel()
    return float(same) / (len(tokens) * length * (length - 1)) if length > 1 else 0.0
