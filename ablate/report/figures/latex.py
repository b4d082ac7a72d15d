"""The verdicts as a LaTeX table in the style of booktabs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output.escape import for_latex, numbers_for_latex
from ablate.report.comparisons import effects_once, ends, subject
from ablate.report.effect_columns import cells, headings
from ablate.verdict.summary import Effect, Summary


def table(summary: Summary) -> str:
    """Return a `tabular` of every comparison on every metric, for use within a `table`; each name is given once."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield "% \\usepackage{booktabs}; letters beyond Latin and Greek need XeLaTeX or LuaLaTeX"
    yield "\\begin{tabular}{lllrlr}"
    yield "\\toprule"
    yield _row([for_latex(heading) for heading in headings(("change", *COLUMNS), summary)])
    yield "\\midrule"
    for place, effects in enumerate(_comparisons(summary)):
        if place:
            yield "\\addlinespace"
        for number, effect in enumerate(effects):
            yield _row([for_latex(subject(effect, summary)) if number == 0 else "", *_cells(effect)])
    yield "\\bottomrule"
    yield "\\end{tabular}"


def _comparisons(summary: Summary) -> list[list[Effect]]:
    """Return the effects of each comparison, in the order in which they are judged."""
    comparisons: dict[tuple[str, ...], list[Effect]] = {}
    for effect in effects_once(summary.effects):
        comparisons.setdefault(ends(effect), []).append(effect)
    return list(comparisons.values())


COLUMNS = ("metric", "difference", "n", "verdict", "p")
NUMBERS = ("difference", "p")


def _cells(effect: Effect) -> Iterator[str]:
    for name, cell in zip(COLUMNS, cells(COLUMNS, effect), strict=True):
        yield numbers_for_latex(cell) if name in NUMBERS else for_latex(cell)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
