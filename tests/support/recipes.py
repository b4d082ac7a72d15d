"""Recipes for tests: every setting has a plain value unless the test gives one."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from torch import nn

from ablate import api
from ablate.block.catalogue import additions_at_default
from ablate.space.documents import Choice
from ablate.space.recipe import Recipe, Schedule, Settings
from ablate.train.optimizer import parameter_kinds, trained_parameters
from ablate.train.optimizers.adamw import AdamW
from ablate.train.optimizers.declare import groups


def adamw(**changes: Any) -> AdamW:
    """AdamW as in PyTorch, at a rate of 1e-2."""
    plain: dict[str, Any] = {
        "lr": 1e-2,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "eps_when": "after_correction",
        "weight_decay": 0.1,
        "decays": ("weights", "embedding", "head"),
        "decay_when": "before_update",
        "embedding_lr": None,
    }
    return AdamW(**{**plain, **changes})


def written(optimizer: str) -> str:
    """An optimiser at a rate of 1e-2 as a space says it, with the settings that the shipped grammar has for it.

    One of which the grammar says nothing is written out: it can have no other settings than those of all.
    """
    shown = "lr: 1e-2" if optimizer in _shown() else "lr: 1e-2, embedding_lr: null, weight_decay: 0, decays: [weights]"
    return f"{optimizer}: {{{shown}}}"


@functools.cache
def _shown() -> frozenset[str]:
    located: Any = api.load_grammar("transformer").space
    return frozenset(key.text for key, _ in located["recipe"]["optimizer"].entries)


def chosen(settings: Settings) -> Choice:
    """The choice of an optimiser with these settings, as a recipe holds it."""
    return Choice(type(settings).spec.name, settings.model_dump(mode="json", exclude=additions_at_default(settings)))


def parameter_groups(model: nn.Module, settings: Settings) -> list[dict[str, Any]]:
    """The groups that an optimiser of one rule has."""
    return groups(trained_parameters(model, settings))


def decaying(model: nn.Module, decays: tuple[str, ...]) -> Iterator[tuple[str, nn.Parameter, bool]]:
    """Every trained parameter, with its address and whether weight decay acts on it."""
    for address, parameter, kind in parameter_kinds(model):
        yield address, parameter, kind in decays


def recipe(*, steps: int, batch: int, **schedule: Any) -> Recipe:
    """So many steps in float32, clipped at 1, with a linear decay after a warmup of 5% unless the schedule differs."""
    plain: dict[str, Any] = {"warmup": 0.05, "hold": 0, "decay": "linear", "floor": 0.0, "from_zero": False}
    return Recipe(
        steps=steps,
        batch=batch,
        clip=1.0,
        optimizer=chosen(adamw()),
        schedule=Schedule(**{**plain, **schedule}),
        dtype="float32",
    )
