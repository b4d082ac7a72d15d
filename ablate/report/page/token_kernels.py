"""Kernels of tokens within a sequence: snapshots over training for each variant, at a middle and the last place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ablate.plan.plan import Variant
from ablate.report.html.drawn import shown
from ablate.report.page import panels
from ablate.report.page.record import PageRecord
from ablate.report.plot import Plot

if TYPE_CHECKING:
    from ablate.store.pages import Kernel

FIRST = 6
"""Maximum number of variants whose kernels are drawn; those of the others are in the view kernels."""
STEPS = 3
"""Number of snapshots of a variant, from the first to the last."""


COLUMNS = ("variant", "place", "step", "n", "i", "j", "value")
"""The numbers behind a plot: the cells on and below the diagonal, of which those above are the mirror image."""


def plots(record: PageRecord) -> list[tuple[str, str]]:
    """Return a plot as SVG with its caption for each of the first variants with snapshots; the last names the rest."""
    drawn = [(shown(plot, panels.WIDTH), plot.caption) for plot in kernel_plots(record)]
    if left := left_out(record):
        svg, about = drawn[-1]
        drawn[-1] = (svg, f"{about} Not drawn: {', '.join(left)}; the view kernels has them.")
    return drawn


def left_out(record: PageRecord) -> list[str]:
    """Return the names of the variants whose snapshots are not drawn."""
    return [variant.name for variant in _with_some(record)[FIRST:]]


def _with_some(record: PageRecord) -> list[Variant]:
    there = {kernel.variant for kernel in record.kernels}
    return [variant for variant in record.plan.variants if variant.id in there]


def kernel_plots(record: PageRecord) -> Iterator[Plot]:
    """Yield a plot for each of the first variants with snapshots."""
    for place, variant in enumerate(_with_some(record)[:FIRST]):
        snapshots = _chosen([kernel for kernel in record.kernels if kernel.variant == variant.id])
        yield Plot(
            name=f"kernels-{variant.name}",
            id=f"kernel-{place}",
            draw=tuple(panels.matrix(k.cells, f"{k.address}, step {k.step:,}") for k in snapshots),
            about=f"Normalised kernel matrices of {variant.name}: rows and columns are positions. "
            "The view kernels has them.",
            caption=f"{variant.name}: cosine similarity of tokens within a sequence, by position, mean over sequences "
            f"and over {snapshots[0].n} seeds; from 0 or less (light) to 1 (dark); 1 everywhere is rank collapse.",
            height=1.7,
            panels_across=len({kernel.step for kernel in snapshots}),
            legend=False,
            key_title=f"cosine similarity of tokens of {panels.short(variant.name, 24)}, by position",
            key=panels.shades(),
            columns=COLUMNS,
            rows=tuple(
                (variant.name, kernel.address, kernel.step, kernel.n, *cell)
                for kernel in snapshots
                for cell in kernel.cells
            ),
        )


def _chosen(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels at a middle and the last place, row by row, at up to three steps from first to last."""
    places = list(dict.fromkeys(kernel.address for kernel in kernels))
    steps = sorted({kernel.step for kernel in kernels})
    some = sorted({steps[round(k * (len(steps) - 1) / (STEPS - 1))] for k in range(STEPS)})
    by = {(kernel.address, kernel.step): kernel for kernel in kernels}
    rows = dict.fromkeys((places[len(places) // 2], places[-1]))
    return [by[place, step] for place in rows for step in some if (place, step) in by]
