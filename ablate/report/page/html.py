"""The page of a space as one HTML file that needs no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.output.escape import for_html as escape
from ablate.output.words import plural, spoken
from ablate.plan.plan import Variant
from ablate.report.html.document import (
    beware,
    bullets,
    document,
    figure,
    figures,
    folded,
    heading,
    paragraphs,
    section,
    slug,
    table,
    untitled,
    with_code,
)
from ablate.report.html.grid import Grid
from ablate.report.page import answer, cost, curves, forest, gains, glossary, heatmaps, pareto, token_kernels, verdicts
from ablate.report.page.record import PageRecord

COURSES = 8
"""Courses of losses and probes that are shown at once; those of others are folded."""
OPEN = 4
"""Probes whose maps are shown at once; those of the others are folded."""


def to_html(record: PageRecord) -> str:
    """The page. The same record gives the same text."""
    parts = list(_parts(record))
    return document(record.title, [*_top(record, [title for title, _ in parts]), *(text for _, text in parts)])


def _top(record: PageRecord, titles: Sequence[str]) -> Iterator[str]:
    """The answer, what it does not say, and where everything else is."""
    yield f'<p class="dim">{escape(" · ".join(answer.headline(record)))}</p>'
    if record.partial:
        yield f'<p class="partial" role="status">{escape(answer.unfinished(record))}</p>'
    said = answer.answers(record) or ["Nothing is decided yet." if answer.leading(record.summary) else _NOTHING]
    yield f'<div class="answer">{paragraphs(said)}</div>'
    if left := answer.undecided(record):
        yield f'<h2 id="undecided">Undecided</h2>{bullets(left)}'
    if warned := [*record.beside, *verdicts.caveats(record.summary)]:
        yield f'<h2 id="notes">Notes</h2>{beware(warned)}'
    links = "".join(f'<li><a href="#{slug(title)}">{escape(title)}</a></li>' for title in titles)
    yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


_NOTHING = "The design compares nothing."


def _parts(record: PageRecord) -> Iterator[tuple[str, str]]:
    """Each part with its title, in order."""
    found = (
        ("Changes", _changes(record)),
        ("Verdicts", _verdicts(record)),
        ("Factorial", _factorial(record)),
        ("Training", _training(record)),
        ("Layers", _layers(record)),
        ("Kernels", _kernels(record)),
        ("Gains", _gains(record)),
        ("Trade-offs", _trade_offs(record)),
        ("Cost", untitled(cost.cost(record))),
        ("Equal terms", _unequal(record)),
        ("Noise and power", untitled(cost.noise(record))),
        ("What did not help", _negatives(record)),
        ("Repeat it", _repeat(record)),
        ("What the numbers mean", iter([bullets(glossary.definitions(record))])),
    )
    for title, pieces in found:
        text = "\n".join(pieces)
        if text:
            yield title, f"{heading(title)}\n{text}"


def _changes(record: PageRecord) -> Iterator[str]:
    """The edits of each variant from the baseline, and the blocks."""
    yield f'<p class="note">Each variant against {escape(record.summary.baseline)}; open one for its block.</p>'
    for shown in record.blocks:
        variant = record.variant(shown.variant)
        names = "; ".join(f"<code>{escape(name)}</code>" for name, _ in shown.edits) or "no edit"
        if variant.id == record.plan.baseline:
            names = "the baseline"
        edits = "".join(f"<li><code>{escape(name)}</code> {escape(detail)}</li>" for name, detail in shown.edits)
        listed = f"<ul>{edits}</ul>" if edits else ""
        setting = "".join(f"<p>{escape(line)}</p>" for line in cost.own(variant))
        yield (
            f"<details><summary><b>{escape(variant.name)}</b> {names}</summary>{setting}{listed}"
            f'<pre class="wrap">{escape(shown.block)}</pre></details>'
        )


def _verdicts(record: PageRecord) -> Iterator[str]:
    for grid in verdicts.verdicts(record):
        yield from section(grid, level=3)
    yield figures((figure(svg, caption) for svg, caption in forest.forests(record)), small=True)
    compared = {effect.metric for effect in record.summary.effects if effect.estimate is not None}
    if without := [metric.name for metric in record.summary.metrics if metric.name not in compared]:
        yield f'<p class="note">No plot of {escape(", ".join(without))}: no seed has a result on both sides.</p>'
    yield from section(verdicts.variants(record), level=3)


def _factorial(record: PageRecord) -> Iterator[str]:
    for terms, factors in verdicts.factorials(record):
        yield figures(
            (figure(svg, caption) for svg, caption in pareto.interactions(record, factors, terms)), small=True
        )
        yield from section(verdicts.runs(record, terms, factors), level=3)
        found = verdicts.aliases(terms, factors)
        if found is not None:
            yield from section(found, level=3)
        for metric in record.summary.metrics:
            lines = verdicts.anova(record, terms, metric)
            if lines is not None:
                yield from section(lines, level=3)


def _training(record: PageRecord) -> Iterator[str]:
    """Losses at once, of probes the first group of variants; the rest folded, and said."""
    names = curves.names(record)
    salted = [variant.name for variant in record.plan.variants if variant.setting.salt]
    if names and salted:
        yield f'<p class="note">Of {escape(", ".join(salted))} only the tables above and below have numbers.</p>'
    texts = [
        _figure_with_table(curves.plots(record, metric), curves.table(record, metric), spoken(metric))
        for metric in names
    ]
    yield figures(texts[:COURSES], small=True)
    if left := names[COURSES:]:
        named = ", ".join(map(spoken, left))
        yield folded(f"{plural(len(left), 'more probe')}: {named}", figures(texts[COURSES:], small=True))


def _figure_with_table(drawn: Sequence[tuple[str, str, Sequence[Variant]]], grid: Grid, what: str) -> str:
    """The plot of the first variants; those of the others are folded, under their names."""
    shown = "".join(figure(svg, caption) for svg, caption, _ in drawn[:1])
    if rest := drawn[1:]:
        inside = "".join(figure(svg, caption) for svg, caption, _ in rest)
        first = {variant.id for variant in drawn[0][2]}
        others = ", ".join(v.name for *_, group in rest for v in group if v.id not in first)
        shown += folded(f"{what} of {others}", inside)
    return f"<div>{shown}{folded(f'numbers of {what}', table(grid))}</div>"


def _layers(record: PageRecord) -> Iterator[str]:
    names = heatmaps.names(record)
    every = [(metric, heatmaps.maps(record, metric)) for metric in names]
    texts = [_of_metric(record, metric, found) for metric, found in every if found is not None]
    if texts:
        yield '<p class="note">Layers from the first (below) to the last, steps from left to right.</p>'
        yield figures(texts[:OPEN], small=True)
    if texts[OPEN:]:
        inside = figures(texts[OPEN:], small=True)
        left = [spoken(metric) for metric, found in every if found is not None][OPEN:]
        yield folded(f"maps of {plural(len(left), 'more probe')}: {', '.join(left)}", inside)


def _of_metric(record: PageRecord, metric: str, found: heatmaps.Maps) -> str:
    shades = "".join(
        f'<span><i style="background:var(--shade{shade})"></i>{escape(text)}</span> '
        for shade, text in heatmaps.key(found)
    )
    measured, shown = found.steps
    steps = f" Drawn at {shown} of {measured:,} measured steps." if shown < measured else ""
    about = f"{spoken(metric).capitalize()}, means over seeds; {heatmaps.combined(metric)}.{steps}"
    first, *rest = [svg for svg, _ in found.plots]
    more = ""
    if rest:
        left = sum(len(group) for _, group in found.plots[1:])
        names = ", ".join(variant.name for _, group in found.plots[1:] for variant in group)
        inside = "".join(f"<figure>{svg}</figure>" for svg in rest)
        more = folded(f"maps of {plural(left, 'more variant')}: {names}", inside)
    numbers = folded(f"numbers of {spoken(metric)} by layer", table(heatmaps.table(record, metric)))
    return (
        f"<div><figure>{first}<figcaption>{escape(about)}"
        f'<div class="key">{shades}</div></figcaption></figure>{more}{numbers}</div>'
    )


def _kernels(record: PageRecord) -> Iterator[str]:
    if drawn := token_kernels.plots(record):
        yield figures((figure(svg, caption) for svg, caption in drawn), small=True)


def _gains(record: PageRecord) -> Iterator[str]:
    drawn = gains.plots(record)
    if drawn:
        yield figures((figure(svg, caption) for svg, caption, _ in drawn[: gains.FIRST]), small=True)
        if rest := drawn[gains.FIRST :]:
            names = ", ".join(dict.fromkeys(name for *_, name in rest))
            inside = figures((figure(svg, caption) for svg, caption, _ in rest), small=True)
            yield folded(f"{plural(len(rest), 'more plot')} of gains: {names}", inside)
        grid = gains.table(record)
        yield folded(f"numbers of {plural(len(grid.rows), 'gain')}: {grid.note}", table(grid))


def _trade_offs(record: PageRecord) -> Iterator[str]:
    shown = figures((figure(svg, caption) for svg, caption in pareto.fronts(record)), small=True)
    if shown:
        yield shown


def _unequal(record: PageRecord) -> Iterator[str]:
    for grid in cost.unequal(record):
        yield from section(grid, level=3)


def _negatives(record: PageRecord) -> Iterator[str]:
    if lines := answer.negatives(record):
        yield bullets(lines)


def _repeat(record: PageRecord) -> Iterator[str]:
    yield f"<pre>{escape(chr(10).join(record.again))}</pre>"
    yield f'<h3 id="text">Text</h3>{bullets(record.corpus)}'
    yield f'<h3 id="ran-with">Ran with</h3>{bullets(cost.ran_with(record) or ["nothing has run yet"])}'
    yield from section(cost.fingerprints(record), level=3)
    listed = cost.trials(record)
    remarks = "".join(f"<p>{with_code(line)}</p>" for line in listed.remarks)
    yield folded(f"{plural(len(record.plan.trials), 'trial')}, {listed.note}", table(listed) + remarks)
    yield folded("the space's file", f"<pre>{escape(record.source)}</pre>")
    yield folded(
        "the whole of what it meant, with nothing left out", f'<pre class="long">{escape(record.resolved)}</pre>'
    )
