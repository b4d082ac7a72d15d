"""Recipes for tests: every setting has a plain value unless the test gives one."""

from __future__ import annotations

from typing import Any

from ablate.space.documents import AdamW, Optimizer, Recipe, Schedule


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


def recipe(*, steps: int, batch: int, **schedule: Any) -> Recipe:
    """So many steps in float32, clipped at 1, with a linear decay after a warmup of 5% unless the schedule differs."""
    plain: dict[str, Any] = {"warmup": 0.05, "decay": "linear", "floor": 0.0, "from_zero": False}
    return Recipe(
        steps=steps,
        batch=batch,
        clip=1.0,
        optimizer=Optimizer(adamw=adamw()),
        schedule=Schedule(**{**plain, **schedule}),
        dtype="float32",
    )
