"""Which attention backend each variant of a plan will use, and why: each is built on the meta device, and asked.

This loads torch, which planning itself does not: it is imported only where someone wants to know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ablate.block.catalogue import Catalogue
from ablate.compiler import compile_model
from ablate.execute.device import device
from ablate.kernels import explain
from ablate.plan.plan import Plan
from ablate.plan.trial import Trial


@dataclass(frozen=True, slots=True)
class KernelUse:
    """The attentions at `address` (`layers.*.attention` where layers agree) use `kernel`, because of `reason`."""

    address: str
    kernel: str
    reason: str


def kernel_uses(
    plan: Plan, catalogue: Catalogue, *, device_type: str | None = None
) -> Mapping[str, tuple[KernelUse, ...]]:
    """What each variant uses, by its id, on this machine's device or another of `device_type`."""
    one_of_each = {trial.variant: trial for trial in plan.trials}
    where = device_type or device()
    return {id: _uses(trial, catalogue, where) for id, trial in one_of_each.items()}


def described(plan: Plan, uses: Mapping[str, tuple[KernelUse, ...]]) -> str:
    """A line for each thing that is used, with the variants that use it."""
    users: dict[KernelUse, list[str]] = {}
    for variant in plan.variants:
        for use in uses.get(variant.id, ()):
            users.setdefault(use, []).append(variant.name)
    lines = [f"  {u.address}  {u.kernel}: {u.reason}  ({', '.join(names)})" for u, names in users.items()]
    return "\n".join(["attention kernels:", *lines] if lines else ["attention kernels: none needed"])


def _uses(trial: Trial, catalogue: Catalogue, device_type: str) -> tuple[KernelUse, ...]:
    model = compile_model(trial.architecture, catalogue, device="meta")
    tokens = torch.zeros(trial.recipe.batch, trial.architecture.sizes.seq_len, dtype=torch.int64, device="meta")
    found = explain(model, tokens, device_type=device_type, dtype=trial.recipe.dtype)
    said = ((re.sub(r"^layers\.\d+\.", "layers.*.", address), choice) for address, choice in found.items())
    return tuple(KernelUse(address, choice.name, choice.reason) for address, choice in dict.fromkeys(said))
