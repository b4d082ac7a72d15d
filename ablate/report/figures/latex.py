"""The verdicts as a table of LaTeX, in the style of booktabs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output import numbers
from ablate.output.latex import for_latex, numbers_for_latex
from ablate.report import wording
from ablate.report.once import effects_once, ends
from ablate.report.page.answer import subject
from ablate.report.parts import difference_heading
from ablate.verdict.summary import Effect, Summary


def table(summary: Summary) -> str:
    """A `tabular` of every comparison on every metric, to stand in a table of one's own; a name is said once."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield "% \\usepackage{booktabs}; letters beyond Latin and Greek need XeLaTeX or LuaLaTeX"
    yield "\\begin{tabular}{lllrlr}"
    yield "\\toprule"
    headings = ("change", "metric", difference_heading(summary), "n", "verdict", "p (Holm)")
    yield _row([for_latex(heading) for heading in headings])
    yield "\\midrule"
    for place, effects in enumerate(_comparisons(summary)):
        if place:
            yield "\\addlinespace"
        for number, effect in enumerate(effects):
            yield _row([for_latex(subject(effect, summary)) if number == 0 else "", *_cells(effect)])
    yield "\\bottomrule"
    yield "\\end{tabular}"


def _comparisons(summary: Summary) -> list[list[Effect]]:
    """The effects of each comparison, in the order in which they are judged."""
    found: dict[tuple[str, ...], list[Effect]] = {}
    for effect in effects_once(summary.effects):
        found.setdefault(ends(effect), []).append(effect)
    return list(found.values())


def _cells(effect: Effect) -> Iterator[str]:
    yield for_latex(effect.metric)
    yield numbers_for_latex(wording.difference(effect))
    yield for_latex(wording.pairs(effect))
    yield for_latex(wording.verdict(effect))
    yield numbers_for_latex(numbers.chance(effect.p_adjusted) or "–")


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
