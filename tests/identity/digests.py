"""What each thing computes, as digests: parameters, gradients and rows of a few steps of a small model that uses it.

`python tests/identity/digests.py NAME …` prints, for each case of the named things, the SHA-256 of every bit in float32
(the same on one machine, and nowhere else), and a few numbers in float64 (the same everywhere to 1e-9). Each commit has
a script of its own, so that an old commit says what it computes by its own code.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from altered_trials import altered
from builders import node
from component_contract import costs, hosts, settings
from objective_worlds import OBJECTIVES, PLUGINS
from recipes import written as written_optimizer
from tiny_spaces import write_world

from ablate import api
from ablate.block.expression import Block, Node
from ablate.components.registry import declarations
from ablate.execute.work import compute
from ablate.extension.declaration import COMPONENT, OBJECTIVE, OPTIMIZER, PROBE, SCHEDULE
from ablate.plan.models import Models
from ablate.plan.plan import Trial
from ablate.plan.versions import SHARED
from ablate.space.recipe import NEXT_TOKEN
from ablate.space.space import Space
from ablate.train.events import Checkpoint, Outcome, Row

STEPS = 4
MEASURE = """\
measure: {every: 1, probes: [gradient_norm], evaluation: {every: 2, windows: 6}, checkpoint_every: 1}
judge: {against: pre_ln, metrics: {eval_loss: {margin: 1%}}}
"""
"""Every step is measured, and its parameters are kept."""
SCHEDULES = {
    "polynomial": "{polynomial: {power: 2}}",
    "wsd": "{wsd: {over: 50%, shape: sqrt}}",
    "inverse_sqrt": "{inverse_sqrt: {}}",
}
"""How a schedule is asked for that has settings; the others by their name."""
OPTIMIZERS = {"soap": "soap: {lr: 1e-2, max_precond_dim: 16}"}
"""How an optimiser is asked for whose numbers are others on another machine otherwise: where gradients reach fewer
dimensions than a side has units, Adam divides what rounding leaves in the others by its eps."""
WORLDS: dict[str, tuple[str, ...]] = {
    "pre_ln": (),
    "op": ("design={compare: [op, pre_ln]}",),
    "sas_p": ("design={compare: [sas_p, pre_ln]}",),
    "learned positions, tied": ("model.position={learned: 0.02}", "model.head=tied", "model.embedding.dropout=0.1"),
    "a cosine, no clipping": ("recipe.schedule.decay=cosine", "recipe.clip=null", "recipe.schedule.from_zero=true"),
    "norms around": ("model.entry_norm=rms_norm", "model.final_norm=layer_norm", "model.logit_scale=0.5"),
    "dropout in attention": ("block.attention.dropout=0.1",),
    "a softcap": ("block.attention.entropy={softcap: 30}",),
    "t5": ("block.attention.bias=t5",),
    "e_spa": ("block.attention.matrix={e_spa: 0.2}", "block.attention.query={dense: {init: zero}}"),
}
"""Models and recipes that between them go through every shared part."""
NOT_HERE = ("kernel flex", "kernel xformers")
"""Parts that compute on a GPU alone: without one their numbers cannot be shown to be the same."""


@dataclass
class World:
    """A folder with a corpus, and spaces over it."""

    folder: Path

    @cached_property
    def path(self) -> Path:
        """The file of the space."""
        path = write_world(self.folder, steps=STEPS, seeds=1, lr="1e-2")
        text = path.read_text(encoding="utf-8")
        path.write_text(text[: text.index("measure:")] + MEASURE, encoding="utf-8")
        return path

    def space(self, *more: str) -> Space:
        """The space with settings on top."""
        return api.load_space(self.path, settings=more, plugins=PLUGINS)

    def trial(self, space: Space, block: Block | None = None) -> Trial:
        """A trial of the first block of a space, or of another block."""
        from ablate.data.streams import prepare

        streams = prepare(space.data, space.folder, self.folder / "cache", space.grammar.catalogue)
        models = Models(space, streams.vocab_size, streams.fingerprint, 0.05)
        name = space.design.blocks[0]
        variant = models.variant([name], space.blocks[name], (), models.cost(space.blocks[name]))
        trial = next(models.trials([variant], [3]))
        return trial if block is None else altered(trial, architecture=models.architecture(block))


def names() -> tuple[str, ...]:
    """Everything that has cases; a pattern over layers computes nothing of its own."""
    known = declarations()
    kinds = ((kind, known.others.get(kind.plural, {})) for kind in (PROBE, OPTIMIZER, SCHEDULE))
    every = [f"{COMPONENT.name} {name}" for name, spec in known.components.items() if spec.chooses is None]
    every += [f"{kind.name} {name}" for kind, found in kinds for name in found]
    every += [f"{OBJECTIVE.name} {name}" for name in known.others[OBJECTIVE.plural] if name != NEXT_TOKEN.name]
    return (*every, *(part for part in SHARED if part not in NOT_HERE))


def small(component: Node) -> Node:
    """A weight that starts small: a large one blows up the last digits, in which machines differ."""
    fields = dict(component.fields)
    init = fields.get("init")
    if not isinstance(init, Node) or init.name != "normal":
        return component
    return node(component.name, **{**fields, "init": node("normal", std=0.2)})


def cases(name: str, world: World) -> Iterator[tuple[str, Trial]]:
    """The trials that show what a thing computes."""
    kind, _, of = name.partition(" ")
    if name in SHARED:
        for label, more in WORLDS.items():
            yield f"all: {label}", world.trial(world.space(*more))
    elif kind == COMPONENT.name:
        spec, space = declarations()[of], world.space()
        written = [small(component) if "weight" in spec.slots else component for component in settings(spec)]
        blocks = [block for component in (written[0], *written[1:][-1:]) for block in hosts(component, spec)]
        for number, block in enumerate(block for block in blocks if costs(block)):
            yield f"{name}: {number}", world.trial(space, block)
    elif kind == PROBE.name:
        probes = "gradient_norm" if of == "gain" else f"gradient_norm, {of}" if of != "gradient_norm" else of
        yield name, world.trial(world.space(f"measure.probes=[{probes}]", "design={compare: [sas_p, pre_ln]}"))
    elif kind == OPTIMIZER.name:
        told = OPTIMIZERS.get(of, written_optimizer(of))
        yield name, world.trial(world.space(f"recipe.optimizer={{{told}}}"))
    elif kind == OBJECTIVE.name:
        yield name, world.trial(world.space(*OBJECTIVES[of]))
    else:
        decay = SCHEDULES.get(of, of)
        yield name, world.trial(world.space(f"recipe.schedule.decay={decay}", "recipe.schedule.warmup=25%"))


def digest(trial: Trial, cache: Path) -> str:
    """SHA-256 of every parameter after every step, and of every row, in float32."""
    running = hashlib.sha256()
    for event in compute(trial, cache=cache, plugins=PLUGINS, resume=None, should_stop=lambda: False):
        if isinstance(event, Row):
            running.update(f"{event.step} {event.metric} {event.address}".encode() + struct.pack("<d", event.value))
        elif isinstance(event, Checkpoint):
            for name, tensor in parameters(event).items():
                running.update(name.encode() + tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
        elif isinstance(event, Outcome):
            running.update(f"{event.kind} {event.step}".encode())
    return running.hexdigest()


def numbers(trial: Trial, cache: Path) -> dict[str, float]:
    """In float64: of each metric the sum over its rows, weighed by step and place, and of parameters two sums."""
    sums: dict[str, list[float]] = {}
    recipe = trial.work.recipe.model_copy(update={"dtype": "float64"})
    for event in compute(
        altered(trial, recipe=recipe), cache=cache, plugins=PLUGINS, resume=None, should_stop=lambda: False
    ):
        if isinstance(event, Row) and math.isfinite(event.value):
            seen = sums.setdefault(event.metric, [])
            seen.append(event.value * math.cos(len(seen)))
        elif isinstance(event, Checkpoint):
            for tensor in parameters(event).values():
                flat = tensor.double().flatten()
                sums.setdefault("parameters", []).append((flat * torch.arange(flat.numel()).cos()).sum().item())
                sums.setdefault("squares", []).append(flat.square().sum().item())
    return {name: math.fsum(found) for name, found in sorted(sums.items())}


def parameters(event: Checkpoint) -> dict[str, Any]:
    """The parameters that a checkpoint holds."""
    state = torch.load(io.BytesIO(event.state), weights_only=True)
    return {name: tensor for name, tensor in sorted(state["model"].items()) if isinstance(tensor, torch.Tensor)}


def collect(wanted: Sequence[str], folder: Path, *, bits: bool = True, wide: bool = True) -> dict[str, dict[str, Any]]:
    """For every case of what is `wanted` its digest and its numbers."""
    world, found = World(folder), {}
    for name in wanted:
        for label, trial in cases(name, world):
            if label not in found:
                case: dict[str, Any] = {"bits": digest(trial, folder / "cache")} if bits else {}
                found[label] = case | ({"numbers": numbers(trial, folder / "cache")} if wide else {})
    return found


def main(arguments: Sequence[str]) -> None:
    """Print the cases of the things that are named, or of all; with --names, the names that there are."""
    if list(arguments) == ["--names"]:
        print(json.dumps(names()))
        return
    torch.set_num_threads(1)
    unknown = sorted(set(arguments) - set(names()))
    if unknown:
        raise SystemExit(f"there are no {unknown}")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(collect(arguments or names(), Path(folder), wide=False)))


if __name__ == "__main__":
    main(sys.argv[1:])
