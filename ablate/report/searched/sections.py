"""A search as a document, for the page and for the screen: the answer, the front, the confirmation, the course."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from ablate.output.words import plural
from ablate.report import effect_tables, footnotes, json_form, wording
from ablate.report.document import (
    BulletList,
    Figure,
    Fold,
    Grid,
    Group,
    Lead,
    Part,
    Prose,
    ReportDocument,
    Section,
    TableOf,
    Verbatim,
)
from ablate.report.plot import svg_of
from ablate.report.searched import answer, confirmation, history, plots, rows
from ablate.report.searched.analysis import BEYOND, SearchAnalysis, analyse, edit_counts
from ablate.report.searched.record import Entry, SearchObjective, SearchRecord
from ablate.report.searched.rows import shown_blocks
from ablate.verdict.summary import Summary

if TYPE_CHECKING:
    from ablate.store.durable import JsonValue


def page(record: SearchRecord) -> ReportDocument:
    return _document(record, _parts(record, analyse(record)))


def _document(record: SearchRecord, parts: Iterable[Part]) -> ReportDocument:
    title = record.question.strip() or record.space
    return ReportDocument(title=title, about=answer.headline(record), parts=tuple(parts))


def _parts(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    if record.partial:
        yield Prose(answer.unfinished(record), "warning")
    yield Lead(tuple(answer.answers(record, analysis)))
    if warned := answer.warnings(record, analysis):
        yield BulletList(tuple(warned), "beware")
    if analysis.compared:
        drawn = tuple(Figure(svg_of(plot), plot.caption) for plot in plots.plots(record, analysis))
        yield _section(rows.front(record, analysis).grid, (Group(drawn),) if drawn else ())
        if blocks := tuple(_blocks(record, analysis)):
            yield Section(f"Their edits from {record.reference}", blocks)
    if confirmed := tuple(_confirmed(record)):
        yield Section("Confirmed", confirmed)
    for grid in (
        history.accounts(record),
        history.removed(record),
        history.progress(record, analysis),
        history.rungs(record),
        rows.edits(record, analysis),
    ):
        if grid is not None:
            yield _section(grid)
    yield Section("Cost", (BulletList(tuple(history.cost(record))),))
    yield Section("Next", tuple(_next(record, analysis)))
    everything = rows.everything(record, analysis)
    inside = (Fold(f"{len(everything.rows)} blocks, {everything.note}", (TableOf(everything, bare=True),)),)
    yield Section(everything.title, inside)
    yield Section("What the numbers mean", (BulletList(tuple(definitions(record))),), folded=True)


def _section(grid: Grid, before: tuple[Part, ...] = ()) -> Section:
    return Section(grid.title, (*before, TableOf(grid, titled=False)))


def _blocks(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    for entry in rows.described(record, analysis):
        edits = tuple(f"`{edit}` {detail}" for edit, detail in zip(entry.edits, entry.details, strict=False))
        parts: tuple[Part, ...] = (BulletList(edits), Verbatim(f"{entry.name}: {entry.block}", "yaml"))
        yield Fold("" if entry.edits else "none", parts, name=entry.name, code=entry.edits)


def _confirmed(record: SearchRecord) -> Iterator[Part]:
    summary = record.confirmed
    if summary is None:
        return
    seeds = ", ".join(map(str, record.confirm_seeds))
    yield Prose(f"At seeds {seeds}, on the verdict split of the text: the search has seen neither.", "note")
    if (left := rows.remaining_table(record)).rows:
        yield TableOf(left)
    yield from map(TableOf, effect_tables.tables_of(summary))
    if notes := (*footnotes.peculiarities(summary), *footnotes.in_bits(summary), *summary.notes):
        yield BulletList(tuple(notes), "beware")
    yield Fold("What these numbers mean", (BulletList(tuple(footnotes.definitions(summary, record.defined))),))


def _again(record: SearchRecord) -> Iterator[Part]:
    yield Prose(f"To {'resume' if record.partial else 'repeat'} this search:")
    yield Verbatim(record.again, "sh")


def _next(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    yield from _again(record)
    if record.head:
        yield Prose(f"Head of the records: {record.head}", "note")
    chosen = confirmation.block_to_ask_about(record, analysis)
    if chosen is not None:
        yield Prose(confirmation.how_to_ask(record, chosen))
        yield Verbatim(confirmation.path_snippet(record, chosen.entry), "yaml")


def definitions(record: SearchRecord) -> list[str]:
    seeds = ", ".join(map(str, record.seeds))
    lines = list(map(_objective, record.objectives))
    several = len(record.seeds) > 1
    lines.append(
        f"value: {_mean(record) if several else 'at'} {plural(len(record.seeds), 'seed')} ({seeds}) at the end of "
        f"training, on the tuning split of the text; against {record.reference}: the difference at the same "
        f"{'seeds' if several else 'seed'}"
        + (", × where it is a ratio" if any(objective.log for objective in record.objectives) else "")
        + ", without an interval, since none is valid after selection"
    )
    if record.chosen:
        lines.append(_CONFIRMED.format(record.reference))
    if len(record.objectives) > 1:
        lines.append(
            "Pareto front: finished blocks that no other dominates; to dominate is to be at least as good in every "
            "objective, and better in one"
        )
        lines.append(f"beats: is better than {record.reference} in every objective, by any amount")
    else:
        lines.append(f"beats: is better than {record.reference}, by any amount")
    lines.append(
        f"parameters, FLOPs (of one forward pass over one sequence): against {record.reference}; "
        f"edits: the named differences from {record.reference}"
    )
    if record.pruner != "none":
        lines.append(
            "pruned: stopped at a rung for being behind; its values are from that step and are not compared. Spearman: "
            "rank correlation of the values at the two steps over the n blocks that reached both"
        )
    lines.append(
        "number of derivations: of the grammar, including those that constraints refuse or that give the same block"
    )
    if record.varied:
        lines.append(
            f"values: one of each address for every proposal, beside the block: {'; '.join(record.varied)}; "
            f"{record.reference} has those of the space, and an edit names a value that is another"
        )
    return lines


def _objective(objective: SearchObjective) -> str:
    definition = f"{objective.definition}; " if objective.definition else ""
    better = f"{'lower' if objective.goal == 'min' else 'higher'} is better"
    return f"{objective.metric}: {definition}{better}{', compared as a ratio' if objective.log else ''}"


def _mean(record: SearchRecord) -> str:
    ratios = any(objective.log for objective in record.objectives)
    return "mean (geometric where it is a ratio) over" if ratios else "mean over"


_CONFIRMED = (
    "confirmed: the best of the search, those that beat {} in every objective first, trained anew at fresh seeds and "
    "judged on the verdict split of the text; the search has seen neither"
)


# The screen at the end of a search, in brief; it says how much of the page it leaves out.

MOST = 6  # maximum number of blocks of a front that the screen shows besides the reference; the page has all
DESCRIBED = 4


def search_screen(record: SearchRecord) -> ReportDocument:
    return _document(record, _screen_parts(record, analyse(record)))


def _screen_parts(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    if record.partial:
        yield Prose(answer.unfinished(record), "warning")
    yield BulletList(tuple(answer.answers(record, analysis)))
    yield BulletList((*answer.warnings(record, analysis), *history.failures(record)), "beware")
    if analysis.compared:
        blocks = screen_blocks(record, analysis)
        left_out = len(rows.shown_blocks(record, analysis)) - len(blocks)
        yield rows.front(record, analysis, blocks, tuple(_more(left_out)))
        yield from _screen_edits(record, analysis)
    if record.confirmed is not None:
        yield rows.confirmation_table(record, record.confirmed)
        notes = (*footnotes.peculiarities(record.confirmed), *record.confirmed.notes)
        yield BulletList(notes, "beware")
    yield Section("Progress", (BulletList(tuple(history.counts(record, analysis))),))
    yield Section("Next", tuple(_screen_next(record, analysis)))
    yield BulletList(tuple(briefly(record)), "remarks")


def screen_blocks(record: SearchRecord, analysis: SearchAnalysis, most: int = MOST) -> list[Entry]:
    """The reference and `most` of `rows.shown_blocks`, in its order: the chosen, then those that beat the reference."""
    blocks = rows.shown_blocks(record, analysis)
    beating = {record.entries[place].number for place in analysis.beating}
    order = sorted(blocks[1:], key=lambda entry: (entry.name not in record.chosen, entry.number not in beating))
    kept = {entry.number for entry in [*blocks[:1], *order[:most]]}
    return [entry for entry in blocks if entry.number in kept]


def _screen_edits(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Section]:
    if blocks := rows.described(record, analysis):
        folds = [Fold("" if entry.edits else "none", (), entry.name, entry.edits) for entry in blocks[:DESCRIBED]]
        more = [Prose(line, "note") for line in _more(len(blocks) - DESCRIBED)]
        note = f"from {record.reference}; what each changes is on the page"
        yield Section("Edits", (*folds, *more), note=note)


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"and {count} more on the page"


def _screen_next(record: SearchRecord, analysis: SearchAnalysis) -> Iterator[Part]:
    yield from _again(record)
    chosen = confirmation.block_to_ask_about(record, analysis)
    if chosen is not None:
        yield Prose(confirmation.how_to_ask_briefly(record, chosen))
        yield Verbatim("\n".join(confirmation.ASK_COMMANDS), "sh")


def briefly(record: SearchRecord) -> list[str]:
    """The minimum needed to read the terminal; the page has the rest."""
    margins = {} if record.confirmed is None else {m.name: wording.margin(m) for m in record.confirmed.metrics}
    lines = [
        _objective(objective)
        + (f"; margin {margins[objective.metric] or 'none'}" if objective.metric in margins else "")
        for objective in record.objectives
    ]
    several = len(record.seeds) > 1
    lines.append(
        f"value: {_mean(record) if several else 'at'} {plural(len(record.seeds), 'seed')}, on the tuning split; "
        f"against {record.reference}: the difference at the same {'seeds' if several else 'seed'}, without an "
        "interval, since none is valid after selection"
    )
    if record.confirmed is not None:
        lines += _of_confirmed(record, record.confirmed)
    return [*lines, "all numbers are defined on the page"]


def _of_confirmed(record: SearchRecord, summary: Summary) -> list[str]:
    confidence = f"{100 * summary.confidence:.3g} %"
    others = plural(len(summary.comparisons("baseline")), "comparison")
    lines = [
        "confirmed: the best of the search at fresh seeds and on the verdict split, which it has not seen; search: "
        f"the difference to {record.reference} seen there; difference: paired over the n seeds finished on both sides, "
        f"with Student's interval at {confidence} over seeds, each with its own initialisation, order of the data and "
        "held-out data; kept: the difference as a share of the search's, where that was an advantage",
        f"{', '.join(footnotes.findings(summary))}: {footnotes.p_below(summary)} after Holm's correction over "
        f"{others}, metric by metric",
    ]
    if any(metric.margin is not None for metric in summary.metrics):
        lines[-1] += "; equivalent: the same for both one-sided tests against the margin"
    if any(effect.ranked for effect in summary.effects):
        lines[-1] += "; by rank: over all seeds where one diverged, which ranks below any number; n: survivors / seeds"
    if any(effect.seeds_needed is not None for effect in summary.effects):
        lines[-1] += "; +k seeds: about k more seeds would decide"
    return lines


def to_json(record: SearchRecord) -> str:
    """Return every entry and number in full; what is not finite is null. Entries are named by their `number`.

    `varied` and `around` are there only if the search varies values beside its grammar.
    """
    analysis = analyse(record)
    numbers = [entry.number for entry in record.entries]
    best = confirmation.block_to_ask_about(record, analysis)
    document = asdict(record)
    if not record.varied:
        del document["varied"]
        for entry in document["entries"]:
            del entry["around"]
    document["confirmed"] = None if record.confirmed is None else json_form.document(record.confirmed, record.defined)
    document["definitions"] = definitions(record)
    document |= {
        "answers": answer.answers(record, analysis),
        "warnings": answer.warnings(record, analysis),
        "front": [numbers[place] for place in analysis.front],
        "compared": [numbers[place] for place in analysis.compared],
        "beating": [numbers[place] for place in analysis.beating],
        "better_in": {
            objective.metric: [numbers[place] for place in better]
            for objective, better in zip(record.objectives, analysis.better_in, strict=True)
        },
        "curve": {
            "what": f"best {record.objectives[0].metric} so far" if len(record.objectives) == 1 else "hypervolume",
            "values": analysis.curve,
            "ideal": analysis.ideal,
            "worst": analysis.worst,
            "beyond_worst": BEYOND,
        },
        "edits": [asdict(count) for count in edit_counts(record, shown_blocks(record, analysis)[1:])],
        "kept": [
            {
                "block": pair.name,
                "objective": pair.objective.metric,
                "searched_value": pair.value,
                "confirmed_mean": pair.mean,
                "searched_difference": pair.searched,
                "confirmed_difference": pair.effect.estimate,
                "share": pair.share,
            }
            for pair in confirmation.confirmed_differences(record)
        ],
        "next": None
        if best is None
        else {
            "block": best.entry.name,
            "how": confirmation.how_to_ask(record, best),
            "space": confirmation.path_snippet(record, best.entry),
        },
    }
    return json_form.dump(document)


def from_json(text: str) -> SearchRecord:
    """Return the record; ValueError if the text is not one. What was not finite becomes NaN, or None where allowed."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    document["definitions"] = {}  # there these are sentences, not a mapping
    for entry in _objects(document.get("entries")):
        values = entry.get("values") or []
        entry["values"] = [math.nan if v is None else v for v in values] if isinstance(values, list) else values
    confirmed = document.get("confirmed")
    if isinstance(confirmed, dict):
        for arm in _objects(confirmed.get("arms")):
            arm["missing"] = [(lost["seed"], lost["why"]) for lost in _objects(arm.get("missing"))]
    return TypeAdapter(SearchRecord).validate_python(document)


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
