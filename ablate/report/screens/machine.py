"""What `machine` prints: devices, versions, and for each kind of attention what is used and why the rest is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table

from ablate.execute.machine import Machine, Tried
from ablate.output.terminal import Text


def as_json(machine: Machine) -> str:
    """The whole of it."""
    return json.dumps(asdict(machine), indent=2, ensure_ascii=False)


def screen(machine: Machine) -> RenderableType:
    """What there is, and a row for each kind of attention in each type."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(machine):
        facts.add_row(Text(name), Text(value))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for heading in ("type", "attention", "used", "works too", "does not work, and why"):
        table.add_column(heading)
    for (dtype, attention), tried in groupby(machine.tried, key=lambda one: (one.dtype, one.attention)):
        first, others, refused = _sorted(tuple(tried))
        table.add_row(Text(dtype), Text(attention), Text(first), Text(others), Text(refused))
    return Group(facts, Text(), table)


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    for gpu in machine.gpus or ("none",):
        yield "GPU", gpu
    yield "cores", str(machine.cores)
    for name, version in machine.versions.items():
        if name != "device":
            yield name, version


def _sorted(tried: tuple[Tried, ...]) -> tuple[str, str, str]:
    """What is used, what works too, and what does not."""
    works = [f"{one.kernel} ({one.operator})" if one.operator else one.kernel for one in tried if one.works]
    refused = "\n".join(one.why for one in tried if not one.works)
    return works[0] if works else "nothing", ", ".join(works[1:]), refused
