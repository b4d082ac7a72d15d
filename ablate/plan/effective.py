"""Equality of treatments: variants that differ only in what has no effect on a model and its training are one.

A trial's identity (`identity.py`) holds a model and a recipe as they are written, in normal form. Two variants of a
plan are compared by more: by the effective form of each layer (`block/effective.py`), by the rate and the batch of each
step in place of the words for them, and by a weight decay of the parameters that it reaches. The first of equal
variants is trained, as it is written, so that no identity of a trial follows from this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from ablate.block.added import untold
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue, Flag
from ablate.block.classifier import CLASSIFIERS
from ablate.block.cross import encoder_block
from ablate.block.effective import effective, effective_component
from ablate.block.expression import Block, Gain, Node, Sequence, walk
from ablate.block.fingerprint import canonical, digest
from ablate.block.normal_form import normalise, resolve
from ablate.block.sizes import Sizes
from ablate.extension.kinds import PACKAGE
from ablate.plan.identity import around, layers_of
from ablate.space.batch_ramp import ramp_of
from ablate.space.documents import EndRate, Recipe, Schedule
from ablate.space.optimizers import PARAMETER_KINDS, OptimizerSpec, ParameterKind
from ablate.space.rate_schedule import share_of_peak


def effective_model(architecture: Architecture, catalogue: Catalogue) -> dict[str, Any]:
    """Return a model by what it computes at its sizes: equal for two descriptions of one."""
    described = {name: canonical(value) for name, value in around(architecture).items()}
    if architecture.encoder_layers == architecture.sizes.n_layers:
        del described["encoder_layers"]
    outside = architecture.sizes.at(None)
    for name in ("entry_norm", "final_norm", "init", "head_init"):
        part = _outside(getattr(architecture, name), outside, catalogue)
        described[name] = canonical(part)
    if described["head_init"] == described["init"]:
        described["head_init"] = None

    own = _outside(architecture.init, outside, catalogue)  # one scheme fills decoder and encoder

    def form(block: Block, sizes: Sizes) -> Block:
        return effective(block, sizes, catalogue, own)

    every = not _shipped(walk(architecture.block), catalogue)  # what a plugin comes to may be another in each layer
    described["layers"] = layers_of(architecture, catalogue, form=form, every=every)
    if architecture.kind == "encoder_decoder":
        described["encoder"] = layers_of(architecture.of_encoder(), catalogue, encoder_block, form, every=every)
    return described


def _shipped(nodes: Iterable[Node], catalogue: Catalogue) -> bool:
    """Return whether all of these components ship with `ablate`."""
    return all(catalogue[node.name].path.is_relative_to(PACKAGE) for node in nodes)


def _outside(part: Node | None, sizes: Sizes, catalogue: Catalogue) -> Node | None:
    """Return a component outside the layers in its effective form."""
    if part is None:
        return None
    resolved = resolve(normalise(Sequence((part,)), catalogue), sizes, catalogue).parts[0]
    return effective_component(resolved, sizes, catalogue)


def effective_recipe(recipe: Recipe, architecture: Architecture, catalogue: Catalogue) -> dict[str, Any]:
    """Return a recipe by what it does to a model: equal for two that train it alike."""
    described = recipe.model_dump(mode="json", exclude=untold(recipe) | {"schedule", "optimizer", "batch_ramp"})
    described["ramp"] = ramp_of(recipe)
    described["rates"] = _rates(recipe, catalogue)
    described["optimizer"] = _optimizer(recipe, architecture, catalogue)
    return described


def _optimizer(recipe: Recipe, architecture: Architecture, catalogue: Catalogue) -> dict[str, Any]:
    """Return the settings of an optimiser without those that have no effect in so many steps, on this model."""
    spec = catalogue.of_kind(OptimizerSpec)[recipe.optimizer.name]
    settings = spec.read(recipe.optimizer.settings)
    comes_to = getattr(settings, "effective", None)
    if comes_to is not None:
        settings = comes_to(recipe.steps)
    described = settings.model_dump(mode="json")
    there = trained_kinds(architecture, catalogue)
    if "head_lr" in described and "head" not in there:
        described["head_lr"] = None
    if "decays" in described and "weight_decay" in described:
        reached = [kind for kind in described["decays"] if kind in there] if described["weight_decay"] else []
        described |= {"decays": reached, "weight_decay": described["weight_decay"] if reached else 0.0}
    return {recipe.optimizer.name: described}


def _rates(recipe: Recipe, catalogue: Catalogue) -> str:
    """Return a hash of the exact rate of every step, as a share of the peak."""
    ends_at_rate = isinstance(recipe.schedule.floor, EndRate)
    peak = recipe.optimizer.settings["lr"] if ends_at_rate else 1.0  # else the same for every peak
    return _hash_of_rates(recipe.schedule, recipe.steps, peak, catalogue)


@lru_cache(maxsize=1_000)
def _hash_of_rates(schedule: Schedule, steps: int, lr: float, catalogue: Catalogue) -> str:
    share = share_of_peak(schedule, steps, lr, catalogue)
    return digest([float(share(step)).hex() for step in range(steps)])


def trained_kinds(architecture: Architecture, catalogue: Catalogue) -> frozenset[ParameterKind]:
    """Return the kinds of parameters that a model may have: all but those that it surely has none of.

    What a component that is not shipped with `ablate` trains is not known before it is built.
    """
    plain = architecture.kind not in CLASSIFIERS and architecture.transform == "none" and not architecture.classes
    lacking: set[ParameterKind] = set()
    if plain and architecture.tied:
        lacking.add("head")
    if plain and architecture.positions != "learned":
        lacking.add("positions")
    nodes = tuple(_nodes(architecture, catalogue))
    values = [value for node in nodes for _, value in node.fields]
    if not any(isinstance(value, Gain) and value.trainable for value in values):
        lacking.add("gains")
    if plain and _shipped(nodes, catalogue):
        shifts = (node for node in nodes if isinstance(catalogue[node.name].fields.get("bias"), Flag))
        if not any(node["bias"] for node in shifts):
            lacking.add("biases")
    return frozenset(kind for kind in PARAMETER_KINDS if kind not in lacking)


def _nodes(architecture: Architecture, catalogue: Catalogue) -> Iterator[Node]:
    """Yield the components of a model, of each layer of decoder and encoder those that stand there."""
    yield from (node for part in architecture.around() for node in walk(part))
    for stack in (architecture, *([architecture.of_encoder()] if architecture.kind == "encoder_decoder" else [])):
        for layer in range(1, stack.sizes.n_layers + 1):
            sizes = stack.sizes.at(layer)
            yield from walk(effective(resolve(architecture.block, sizes, catalogue), sizes, catalogue))
