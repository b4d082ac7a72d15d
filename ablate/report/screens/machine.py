"""The output of `machine`: devices, versions, and for each kind of attention the kernel used and why others are not."""

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
    """Return everything as JSON."""
    return json.dumps(asdict(machine), indent=2, ensure_ascii=False)


def screen(machine: Machine) -> RenderableType:
    """Return the facts, and a row for each kind of attention and each type."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(machine):
        facts.add_row(Text(name), Text(value))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for heading in ("type", "attention", "used", "also works", "does not work, and why"):
        table.add_column(heading)
    for (dtype, attention), tried in groupby(machine.tried, key=lambda each: (each.dtype, each.attention)):
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
    """Return what is used, what also works, and what does not."""
    works = [f"{each.kernel} ({each.operator})" if each.operator else each.kernel for each in tried if each.works]
    refused = "\n".join(each.why for each in tried if not each.works)
    return works[0] if works else "nothing", ", ".join(works[1:]), refused
