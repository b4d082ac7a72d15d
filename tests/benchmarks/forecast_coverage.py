"""How often sampled starts lie within the interval that `ablate forecast BLOCK` prints, block by block.

    PYTHONPATH=tests/support python tests/benchmarks/forecast_coverage.py FILE --width 512 --layers 4 --starts 16

Appends a row for each named block (of a block that reads an encoder one for each stack), or with `--derived 50` for
derivations of the grammar. Blocks of which the file has a row at these sizes, by this version of the theory, are left
out: so it goes on where it was stopped. `--page` prints all rows of the file as a table. Per quantity (mean square,
cosine, mean square of the gradient) a row has the layers of starts that lie within and above the middle of the
interval, of how many, and half the width of the interval of each layer (of squares relative, of the cosine absolute).
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sampled_coverage import GRAMMAR, QUANTITIES, Within

from ablate.block.expression import Block
from ablate.plan.plan import THEORY
from ablate.store.machines import installed

Row = dict[str, Any]
LEAST = 0.85


def blocks(derived: int) -> Iterator[tuple[str, Block]]:
    if derived:
        yield from ((f"derivation {k}", GRAMMAR.sample(random.Random(k))) for k in range(derived))
    else:
        yield from ((name, GRAMMAR.blocks[name].block) for name in sorted(GRAMMAR.blocks))


def rows_of(within: Within, name: str, sizes: Row, seconds: float) -> Iterator[Row]:
    """Yield the rows of what was sampled of a block, or one with the reason for which it is refused."""
    about = {"block": name, **sizes, "theory": THEORY, "seconds": round(seconds, 1)}
    for refused in within.refused.values():
        yield {**about, "refused": refused.splitlines()[0]}
    for stack, places in within.places.items():
        known = ~np.isnan(places)
        yield {
            **about,
            "stack": stack,
            "n": known.sum((0, 1)).tolist(),
            "inside": (np.abs(places) <= 1).sum((0, 1)).tolist(),
            "above": (places > 0).sum((0, 1)).tolist(),
            "half_widths": [[_rounded(x) for x in layer] for layer in within.widths[stack].tolist()],
            "danger": stack in within.in_danger,
        }


def _rounded(x: float) -> float | None:
    return float(f"{x:.4g}") if np.isfinite(x) else None


def page(rows: list[Row]) -> Iterator[str]:
    """Yield a table of all settings, and of the stacks of which fewer than 85 % lie within in some quantity."""
    settings = dict.fromkeys((row["set"], row["layers"], row["width"], row["starts"], row["theory"]) for row in rows)
    for chosen in settings:
        of = [r for r in rows if (r["set"], r["layers"], r["width"], r["starts"], r["theory"]) == chosen]
        kept = [row for row in of if "refused" not in row]
        n, inside, above = (np.sum([row[key] for row in kept], 0) for key in ("n", "inside", "above"))
        calm = [np.array(row["half_widths"], dtype=float) for row in kept if not row["danger"]]
        widths = np.nanmedian(np.concatenate(calm), 0)
        kind, layers, width, starts, theory = chosen
        yield f"\n## {kind} blocks, {layers} layers, width {width}, {starts} starts, theory {theory}\n"
        yield f"{len(kept)} stacks of {len(of) - len(kept) + len({r['block'] for r in kept})} blocks, of which "
        yield f"{len(of) - len(kept)} are refused; {sum(r['seconds'] for r in of):.0f} s of one core.\n"
        yield "| quantity | within | above the middle | median half-width, blocks without a danger |\n|---|---|---|---|"
        for place, name in enumerate(QUANTITIES):
            share, up = inside[place] / n[place], above[place] / n[place]
            yield f"| {name} | {share:.3f} of {n[place]:,} | {up:.3f} | {widths[place]:.3f} |"
        yield f"\nBelow {LEAST:.0%}:\n"
        for row in kept:
            shares = [
                f"{q} {k / m:.3f}" for q, k, m in zip(QUANTITIES, row["inside"], row["n"], strict=True) if k < LEAST * m
            ]
            if shares:
                yield f"- {row['stack']}: {', '.join(shares)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--starts", type=int, default=16)
    parser.add_argument("--derived", type=int, default=0)
    parser.add_argument("--memory", type=int, default=16, help="GiB that a block may need")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    rows = [json.loads(line) for line in asked.file.read_text().splitlines()] if asked.file.exists() else []
    if asked.page:
        print("\n".join(page(rows)))
        return
    sizes = {
        "set": "derived" if asked.derived else "named",
        "width": asked.width,
        "layers": asked.layers,
        "starts": asked.starts,
    }
    done = {row["block"] for row in rows if {**sizes, "theory": THEORY}.items() <= row.items()}
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (asked.memory << 30, asked.memory << 30))
    for name, block in blocks(asked.derived):
        if name in done:
            continue
        within, began = Within(), time.monotonic()
        try:
            within.add(name, block, asked.width, asked.layers, asked.starts)
        except (MemoryError, RuntimeError) as error:  # PyTorch raises the second
            if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
                raise
            # Of blocks that read all layers before, the joint kernel has layers times tokens a side.
            within.refused[name] = f"needs more than {asked.memory} GiB of memory"
        about = {
            "device": platform.machine(),
            "date": datetime.now(UTC).date().isoformat(),
            "torch": installed()["torch"],
        }
        with asked.file.open("a") as file:
            for row in rows_of(within, name, sizes, time.monotonic() - began):
                file.write(json.dumps({**row, **about}) + "\n")


if __name__ == "__main__":
    main()
