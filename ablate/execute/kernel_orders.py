"""Which attention backends each variant of a plan will try, and in which order: each is built on the meta device.

Which of them is used is decided on the machine that trains, before its first trial (see `execute.attention`). This
loads torch, which planning itself does not, so it is imported only when requested.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ablate.block.catalogue import Catalogue
from ablate.compiler import compile_model
from ablate.compiler.size import inputs_of
from ablate.execute.device import device
from ablate.kernels import asked_of, choose, order
from ablate.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class KernelOrder:
    """The kernels that the attentions at `address` (`layers.*.attention` where layers agree) try, best first.

    `reason` is why the first comes first.
    """

    address: str
    kernels: tuple[str, ...]
    reason: str


def kernel_orders(
    plan: Plan, catalogue: Catalogue, *, device_type: str | None = None
) -> Mapping[str, tuple[KernelOrder, ...]]:
    """Return the orders of each variant, by its id, on this machine's device or another of `device_type`."""
    where, orders = device_type or device(), {}
    for id, trial in {trial.variant: trial for trial in plan.trials}.items():
        model = compile_model(trial.architecture, catalogue, device="meta")
        needed = asked_of(model, inputs_of(trial.architecture, trial.recipe.batch), dtype=trial.recipe.dtype)
        sites = {(re.sub(r"^(layers|encoder|ahead)\.\d+\.", r"\1.*.", at), n): None for at, n in needed.items()}
        orders[id] = tuple(KernelOrder(at, order(n, where), choose(n, where).reason) for at, n in sites)
    return orders


def described(plan: Plan, orders: Mapping[str, tuple[KernelOrder, ...]]) -> str:
    """Return a line for each order, with the variants that have it."""
    users: dict[KernelOrder, list[str]] = {}
    for variant in plan.variants:
        for kernel_order in orders.get(variant.id, ()):
            users.setdefault(kernel_order, []).append(variant.name)
    lines = [f"  {o.address}  {', then '.join(o.kernels)}: {o.reason}  ({', '.join(v)})" for o, v in users.items()]
    return "\n".join(["attention kernels:", *lines] if lines else ["attention kernels: none needed"])
