"""Identity: the work of trials, what of it decides their numbers, and which variants are the same treatment.

A trial's identity is the hash of everything that decides its numbers, and of nothing else: layers in normal form with
arithmetic evaluated, recipe, measures, fingerprint of the corpus, seed, threads, and the versions of the code that the
trial uses (`versions.py`). Names, notes, folders, the order of keys and source text do not enter, so that a probe that
is not used, or a better name in the code, retrains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ablate.block.architecture import CLASSIFIERS, Architecture, encoder_block
from ablate.block.catalogue import Catalogue, Flag, additions_at_default, identity_fields, without_added
from ablate.block.expression import Block, Gain, Node, Sequence, walk
from ablate.block.normal_form import Canonical, canonical, digest, effective, effective_component, normalise, resolve
from ablate.block.sizes import Sizes
from ablate.extension.declaration import PACKAGE
from ablate.plan.versions import ALWAYS, model_versions, probe_versions, recipe_versions, shared_versions
from ablate.space.data import Data
from ablate.space.judge import Measure
from ablate.space.recipe import PARAMETER_KINDS, EndRate, OptimizerSpec, ParameterKind, Recipe, Schedule
from ablate.space.schedule import ramp_of, share_of_peak

ID_DIGITS = 16
SCHEME = 2
"""The version of the identity scheme; 1 hashed source text. Trials of earlier schemes stay, and are not reused."""


# The work of a trial: what of it decides the numbers, and what of it trials of other blocks share.

BY_CONTENT = ("data", "folder", "architecture", "measure")
"""The folder, a mere name, and fields that enter a hash by their content: the text by the corpus's fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraining:
    """A model, the text that it is trained on, how it is trained, and what is measured.

    `corpus` is the fingerprint of the token streams, and `folder` the start of relative corpus paths (not hashed).
    `threads` is pinned on CPU.
    """

    architecture: Architecture
    data: Data
    corpus: str
    folder: str
    recipe: Recipe
    measure: Measure
    threads: int

    @property
    def steps(self) -> int:
        return self.recipe.steps

    def identity(self, catalogue: Catalogue) -> dict[str, Canonical]:
        """Everything that decides the numbers of a trial, but for its seed, salt and split."""
        return {
            **self._fields(),
            "measure": measured(self.measure),
            "computed": computed(self.architecture, catalogue),
            "trained_by": trained_by(self.recipe, self.measure, catalogue),
        }

    def conditions(self, catalogue: Catalogue) -> dict[str, Canonical]:
        """The conditions that a trial is trained and measured under: all but its block, seed, salt and split.

        These are recipe, corpus, measure, threads, the model around the blocks, its sizes, and the versions of what any
        such trial uses.
        """
        versions = canonical([shared_versions(ALWAYS), trained_by(self.recipe, self.measure, catalogue)])
        return {**self.terms(), "threads": self.threads, "measure": measured(self.measure), "versions": versions}

    def terms(self) -> dict[str, Canonical]:
        """How a model is trained, apart from its block, and on which text.

        As the conditions, without measures, threads and code versions: another of these does not make a new question.
        """
        fields = self._fields()
        del fields["threads"]
        return {**fields, "around": around(self.architecture)}

    def _fields(self) -> dict[str, Canonical]:
        names = (name for name in self.__dataclass_fields__ if name not in BY_CONTENT)
        return {name: canonical(getattr(self, name)) for name in names}


def trained_by(recipe: Recipe, measure: Measure, catalogue: Catalogue) -> str:
    """Hash the versions of what trains and measures a model: its optimiser, schedule and probes."""
    return digest([recipe_versions(recipe, catalogue), probe_versions(measure, catalogue)], 64)


def measured(measure: Measure) -> Canonical:
    left_out = {"checkpoint_every", *additions_at_default(measure)}
    described = measure.model_dump(mode="python", exclude=left_out)
    return canonical({**described, "probes": sorted(described["probes"])})


def around(architecture: Architecture) -> dict[str, Canonical]:
    """Return the parts and numbers of a model around its blocks, and which layers share theirs."""
    names = (name for name in identity_fields(architecture) if name not in ("block", "share"))
    fields = {name: canonical(getattr(architecture, name)) for name in names}
    # Which layers share is told by the layers themselves, as two ways of saying it may come to the same.
    shared = {} if architecture.share is None else {"sources": canonical(architecture.sources())}
    return {**fields, **shared, **{name: canonical(number) for name, number in architecture.numbers().items()}}


def computed(architecture: Architecture, catalogue: Catalogue) -> str:
    """Hash a model by what it computes, and by the versions of the code that computes it."""
    return digest([model_identity(architecture, catalogue), model_versions(architecture, catalogue)], 64)


def model_identity(architecture: Architecture, catalogue: Catalogue) -> dict[str, Canonical]:
    """Return a model by what it computes: layers in normal form, expressions evaluated, equal layers in a row once."""
    described = {**around(architecture), "layers": layers_of(architecture, catalogue)}
    if architecture.kind == "encoder_decoder":
        described["encoder"] = layers_of(architecture.of_encoder(), catalogue, encoder_block)
    return described


def layers_of(
    architecture: Architecture,
    catalogue: Catalogue,
    of_layer: Callable[[Block, Sizes, Catalogue], Block] = lambda block, sizes, catalogue: block,
    form: Callable[[Block, Sizes], Block] = lambda block, sizes: block,
    *,
    every: bool = False,
) -> list[tuple[int, Canonical]]:
    """Return the layers of a stack, resolved, and how many in a row are equal.

    `of_layer` gives the block of a layer, and `form` the form in which it is compared once it is resolved. That may be
    another for the same block in layer 1 than in all others, or in `every` layer.
    """
    block = normalise(architecture.block, catalogue)
    layers: list[tuple[int, Canonical]] = []
    before, form_before = None, None
    for layer in range(1, architecture.sizes.n_layers + 1):
        here = architecture.sizes.at(layer)
        resolved = resolve(of_layer(block, here, catalogue), here, catalogue)
        # Most layers are as the one before, and their forms take the most time.
        if resolved != before or layer == 2 or every:
            before = resolved
            form_before = canonical(without_added(normalise(form(resolved, here), catalogue), catalogue))
        if layers and layers[-1][1] == form_before:
            layers[-1] = (layers[-1][0] + 1, form_before)
        else:
            layers.append((1, form_before))
    return layers


# Equal treatments: variants that differ only in what has no effect on a model and its training are one.
#
# A trial's identity holds a model and a recipe as they are written, in normal form. Variants are compared by the
# effective form of each layer (`block/normal_form.py`), by the rate and the batch of each step in place of the words
# for them, and by a weight decay of the parameters that it reaches. The first of equal variants is trained, as it is
# written, so that no identity of a trial follows from this.


def effective_model(architecture: Architecture, catalogue: Catalogue) -> dict[str, Canonical]:
    """Return a model by what it computes at its sizes: equal for two descriptions of one."""
    described = around(architecture)
    if architecture.encoder_layers == architecture.sizes.n_layers:
        del described["encoder_layers"]
    outside = architecture.sizes.at(None)
    for name in ("entry_norm", "final_norm", "init", "head_init"):
        part = _effective_outside(getattr(architecture, name), outside, catalogue)
        described[name] = canonical(part)
    if described["head_init"] == described["init"]:
        described["head_init"] = None

    own = _effective_outside(architecture.init, outside, catalogue)  # one scheme fills decoder and encoder

    def form(block: Block, sizes: Sizes) -> Block:
        return effective(block, sizes, catalogue, own)

    every = not _all_shipped(walk(architecture.block), catalogue)  # what a plugin comes to may be another in each layer
    described["layers"] = layers_of(architecture, catalogue, form=form, every=every)
    if architecture.kind == "encoder_decoder":
        described["encoder"] = layers_of(architecture.of_encoder(), catalogue, encoder_block, form, every=every)
    return described


def _all_shipped(nodes: Iterable[Node], catalogue: Catalogue) -> bool:
    return all(catalogue[node.name].path.is_relative_to(PACKAGE) for node in nodes)


def _effective_outside(part: Node | None, sizes: Sizes, catalogue: Catalogue) -> Node | None:
    if part is None:
        return None
    resolved = resolve(normalise(Sequence((part,)), catalogue), sizes, catalogue).parts[0]
    return effective_component(resolved, sizes, catalogue)


def effective_recipe(recipe: Recipe, architecture: Architecture, catalogue: Catalogue) -> dict[str, Canonical]:
    """Return a recipe by what it does to a model: equal for two that train it alike."""
    as_written = recipe.model_dump(
        mode="json", exclude=additions_at_default(recipe) | {"schedule", "optimizer", "batch_ramp"}
    )
    return {
        **as_written,
        "ramp": ramp_of(recipe),
        "rates": _effective_rates(recipe, catalogue),
        "optimizer": _effective_optimizer(recipe, architecture, catalogue),
    }


def _effective_optimizer(recipe: Recipe, architecture: Architecture, catalogue: Catalogue) -> dict[str, Canonical]:
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


def _effective_rates(recipe: Recipe, catalogue: Catalogue) -> str:
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
    nodes = tuple(_nodes_of_model(architecture, catalogue))
    values = [value for node in nodes for _, value in node.fields]
    if not any(isinstance(value, Gain) and value.trainable for value in values):
        lacking.add("gains")
    if plain and _all_shipped(nodes, catalogue):
        shifts = (node for node in nodes if isinstance(catalogue[node.name].fields.get("bias"), Flag))
        if not any(node["bias"] for node in shifts):
            lacking.add("biases")
    return frozenset(kind for kind in PARAMETER_KINDS if kind not in lacking)


def _nodes_of_model(architecture: Architecture, catalogue: Catalogue) -> Iterator[Node]:
    yield from (node for part in architecture.around() for node in walk(part))
    for stack in (architecture, *([architecture.of_encoder()] if architecture.kind == "encoder_decoder" else [])):
        for layer in range(1, stack.sizes.n_layers + 1):
            sizes = stack.sizes.at(layer)
            yield from walk(effective(resolve(architecture.block, sizes, catalogue), sizes, catalogue))
