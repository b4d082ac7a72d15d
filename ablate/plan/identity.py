"""The identity of a trial: the hash of everything that decides its numbers, and of nothing else.

Names, notes and the order of keys do not enter, nor does any source text. The code enters by the versions of what the
trial uses (`versions.py`): its components, probes, optimiser and schedule, the shared parts, and the kernels where it
has attention. A probe that is not used, or a better name in the code, retrains nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ablate.block.added import told, untold, without_added
from ablate.block.architecture import Architecture
from ablate.block.catalogue import Catalogue
from ablate.block.cross import encoder_block
from ablate.block.expression import Block
from ablate.block.fingerprint import canonical, digest
from ablate.block.normal_form import normalise, resolve
from ablate.block.sizes import Sizes
from ablate.plan.trial import Trial
from ablate.plan.versions import ALWAYS, model_versions, probe_versions, recipe_versions, shared_versions

ID_DIGITS = 16
NOT_IDENTITY = ("id", "conditions", "variant", "data", "folder", "architecture", "measure")
"""Fields of a trial that are mere names, or enter by their content: the text by the corpus's fingerprint."""
NOT_CONDITIONS = (*NOT_IDENTITY, "seed", "salt")
"""Fields that may differ between trials whose metrics are assumed to have the same noise."""


SCHEME = 2
"""The version of the identity scheme; 1 hashed source text. Trials of an earlier scheme stay in the results, and are
not reused by a plan."""


def trial_id(trial: Trial, catalogue: Catalogue) -> str:
    """Return the identity of a trial, 16 hex digits, whatever `id` it has."""
    return trial_id_of(trial, computed(trial.architecture, catalogue), trained_by(trial, catalogue))


def trial_id_of(trial: Trial, computed: str, trained_by: str) -> str:
    """Return the identity of a trial from the hashes of its model, `computed`, and of its training, `trained_by`, so
    that they are not computed again for each seed.
    """
    fields = {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name not in NOT_IDENTITY}
    whole = {**fields, "measure": _measured(trial), "computed": computed, "trained_by": trained_by, "scheme": SCHEME}
    return digest(whole, ID_DIGITS)


def trained_by(trial: Trial, catalogue: Catalogue) -> str:
    """Hash the versions of what trains and measures a trial: its optimiser, schedule and probes."""
    return digest([recipe_versions(trial.recipe, catalogue), probe_versions(trial.measure, catalogue)], 64)


def conditions_of(trial: Trial, trained_by: str) -> str:
    """Hash the conditions a trial is trained and measured under, 16 hex digits: all but its block, seed and salt.

    These are recipe, corpus, measure, threads, split, the model around the blocks, its sizes, and the versions of what
    any such trial uses. The effect of the initialisation alone on a metric is assumed equal where these are equal.
    """
    fields = {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name not in NOT_CONDITIONS}
    versions = [shared_versions(ALWAYS), trained_by]
    whole = {**fields, "measure": _measured(trial), "around": around(trial.architecture), "versions": versions}
    return digest(whole, ID_DIGITS)


def training_of(trial: Trial) -> str:
    """Hash how a trial is trained, apart from its block, and on which text, 16 hex digits.

    As `conditions_of`, without measurements during training, threads and code versions: another probe, or a newer
    version of this program, does not make it a new question.
    """
    left_out = (*NOT_CONDITIONS, "threads")
    told = {name: getattr(trial, name) for name in Trial.__dataclass_fields__ if name not in left_out}
    return digest({**told, "around": around(trial.architecture)}, ID_DIGITS)


def around(architecture: Architecture) -> dict[str, Any]:
    """Return the parts and numbers of a model around its blocks, and which layers share theirs."""
    fields = {f: getattr(architecture, f) for f in told(architecture) if f not in ("block", "share")}
    # Which layers share is told by the layers themselves, as two ways of saying it may come to the same.
    shared = {} if architecture.share is None else {"sources": architecture.sources()}
    return {**fields, **shared, **architecture.numbers()}


def _measured(trial: Trial) -> dict[str, Any]:
    left_out = {"checkpoint_every", *untold(trial.measure)}
    measured = trial.measure.model_dump(mode="python", exclude=left_out)
    return {**measured, "probes": sorted(measured["probes"])}


def computed(architecture: Architecture, catalogue: Catalogue) -> str:
    """Hash a model by what it computes, and by the versions of the code that computes it."""
    return digest([model_identity(architecture, catalogue), model_versions(architecture, catalogue)], 64)


def model_identity(architecture: Architecture, catalogue: Catalogue) -> dict[str, Any]:
    """Return a model by what it computes: layers in normal form, expressions evaluated, equal layers in a row once."""
    described = {name: canonical(value) for name, value in around(architecture).items()}
    described["layers"] = layers_of(architecture, catalogue)
    if architecture.kind == "encoder_decoder":
        described["encoder"] = layers_of(architecture.of_encoder(), catalogue, encoder_block)
    return described


def whole_block(block: Block, sizes: Sizes, catalogue: Catalogue) -> Block:
    """Return the block of a layer: all of it."""
    return block


def as_resolved(block: Block, sizes: Sizes) -> Block:
    """Return the form of a layer that an identity has: as it is resolved."""
    return block


def layers_of(
    architecture: Architecture,
    catalogue: Catalogue,
    of_layer: Callable[[Block, Sizes, Catalogue], Block] = whole_block,
    form: Callable[[Block, Sizes], Block] = as_resolved,
    *,
    every: bool = False,
) -> list[tuple[int, Any]]:
    """Return the layers of a stack, resolved, and how many in a row are equal.

    `of_layer` gives the block of a layer, and `form` what is told of it once it is resolved, which may be another for
    the same block in layer 1 than in all others, or in `every` layer.
    """
    block = normalise(architecture.block, catalogue)
    layers: list[tuple[int, Any]] = []
    before, told_before = None, None
    for layer in range(1, architecture.sizes.n_layers + 1):
        here = architecture.sizes.at(layer)
        seen = resolve(of_layer(block, here, catalogue), here, catalogue)
        # Most layers are as the one before, and their forms take the most time.
        if seen != before or layer == 2 or every:
            before = seen
            told_before = canonical(without_added(normalise(form(seen, here), catalogue), catalogue))
        if layers and layers[-1][1] == told_before:
            layers[-1] = (layers[-1][0] + 1, told_before)
        else:
            layers.append((1, told_before))
    return layers
