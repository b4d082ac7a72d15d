"""Pairing by seed: at which addresses two treatments differ so that, at one seed, they see other batches.

Runs of one seed share their batches, in the same order, and the initial values of every address that both models have,
whatever else differs. With another batch size, context or text they do not: their difference varies as that of two
independent runs, and is not judged as if it were paired.
"""

from __future__ import annotations

from ablate.plan.models import Models
from ablate.plan.setting import Setting


def unpaired_by(before: Setting, after: Setting, models: Models) -> tuple[str, ...]:
    """Return the addresses that keep two treatments from seeing the same batches; empty where they see the same."""
    x, y = (models.at(setting.changes) for setting in (before, after))
    differs = {
        "recipe.batch": x.recipe.batch != y.recipe.batch,
        "model.context": x.model.context != y.model.context,
        "data.corpus": x.data.corpus != y.data.corpus,
        "data.tokenizer": x.data.tokenizer != y.data.tokenizer,
    }
    return tuple(address for address, different in differs.items() if different)
