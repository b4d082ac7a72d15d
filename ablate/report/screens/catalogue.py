"""What `ablate list` prints: blocks and presets under the papers they are from, components under their slots, probes
and metrics with what they mean.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table

from ablate.block.catalogue import Catalogue
from ablate.block.fingerprint import fingerprint
from ablate.block.printer import print_block
from ablate.extension.configured import Configured
from ablate.extension.declaration import Declaration
from ablate.grammar.grammar import Grammar
from ablate.grammar.named_blocks import NamedBlock, Preset
from ablate.output.terminal import Text
from ablate.source.located import to_python
from ablate.space.known import KnownSpace
from ablate.space.metrics import Definition, askable_probes, judgeable, known_probes

Row: TypeAlias = tuple[str, str, str]
"""A name, a line about it, and where it is from."""


def spaces(of: Iterable[KnownSpace], *, as_json: bool = False) -> RenderableType:
    """Every space that a name finds: one's own under their folder, then what ships; the question each asks."""
    if as_json:
        return _dump(
            {"name": one.name, "question": one.question, "file": str(one.path), "shipped": one.shipped} for one in of
        )
    places = ((one, "with ablate" if one.shipped else f"in {one.path.parent}/") for one in of)
    return _grouped((place, (one.name, one.question, "")) for one, place in places)


def blocks(of: Grammar, *, as_json: bool = False) -> RenderableType:
    """Every named block under its paper: what it is, or as one writes it where nothing is said, and its source."""
    if as_json:
        return _dump(_described(block) | _written(of, block) for block in of.blocks.values())
    written = {name: _written(of, block)["written"] for name, block in of.blocks.items()}
    return _grouped((_paper(b), (b.name, b.about or written[b.name], _place(b))) for b in of.blocks.values())


def presets(of: Grammar, *, as_json: bool = False) -> RenderableType:
    """Every preset of a space under its paper: what it is, or the sections it has, and its source."""
    if as_json:
        return _dump(_described(p) | {"sections": to_python(p.sections)} for p in of.presets.values())
    if not of.presets:
        return Text(f"grammar {of.name} has no presets")
    said = {name: p.about or ", ".join(str(key) for key in p.sections) for name, p in of.presets.items()}
    return _grouped((_paper(p), (p.name, said[p.name], _place(p))) for p in of.presets.values())


def components(catalogue: Catalogue, *, as_json: bool = False) -> RenderableType:
    """Every component under its slots: what it does, and the paper it is from."""
    if as_json:
        return _dump(
            {
                "name": spec.name,
                "slots": list(spec.slots),
                "summary": spec.summary,
                "fields": list(spec.fields),
                "source": spec.source,
                "file": str(spec.path),
            }
            for spec in catalogue
        )
    rows = sorted((", ".join(spec.slots), (spec.name, _after_name(spec.summary), spec.source)) for spec in catalogue)
    return _grouped((f"slot {slots}", row) for slots, row in rows)


def things(plural: str, of: Iterable[Declaration], *, as_json: bool = False) -> RenderableType:
    """Every thing of a kind: what it does, where it is from, and in JSON its settings too."""
    specs = list(of)
    if as_json:
        return _dump(
            {
                "name": spec.name,
                "summary": spec.summary,
                "settings": list(spec.settings.model_fields) if isinstance(spec, Configured) else [],
                "source": spec.source,
                "version": spec.version,
                "file": str(spec.path),
            }
            for spec in specs
        )
    if not specs:
        return Text(f"no {plural} are declared in files")
    return _grouped((plural, (spec.name, _after_name(spec.summary), spec.source)) for spec in specs)


def probes(of: Catalogue, *, as_json: bool = False) -> RenderableType:
    """Every probe that a space may ask for: the metrics it gives, what they mean, and where that is from."""
    known = known_probes(of)
    asked = {name: known[name] for name in askable_probes(of)}
    if as_json:
        return _dump({"name": name, "metrics": list(map(_definition, spec.metrics))} for name, spec in asked.items())
    defined = ((name, metric) for name, spec in asked.items() for metric in spec.metrics)
    return _grouped((name, (metric.metric, metric.definition, metric.source)) for name, metric in defined)


def _definition(metric: Definition) -> dict[str, str]:
    return {"metric": metric.metric, "definition": metric.definition, "source": metric.source}


def metrics(of: Catalogue, *, as_json: bool = False) -> RenderableType:
    """Every metric that can be judged and searched for: what it means, and the probe that must run for it."""
    every = judgeable(of).values()
    if as_json:
        return _dump(asdict(each) for each in every)
    return _grouped(
        (f"with the probe {each.probe}" if each.probe else "always there", (each.metric, each.definition, each.source))
        for each in every
    )


def _grouped(rows: Iterable[tuple[str, Row]]) -> RenderableType:
    """Rows under their headings, in the order in which the headings first stand; columns are aligned throughout."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for heading, row in rows:
        groups[heading].append(row)
    widest = max(len(name) for group in groups.values() for name, _, _ in group)
    shown: list[RenderableType] = []
    for heading, group in groups.items():
        table = Table.grid(padding=(0, 2))
        table.add_column(width=widest, no_wrap=True)
        table.add_column(overflow="fold")
        for name, about, source in group:
            table.add_row(Text(name), Text.assemble(about, (f"  {source}", "dim")) if source else Text(about))
        shown += [Text(heading or "this project", style="bold"), table, Text()]
    return Group(*shown[:-1])


def _paper(named: NamedBlock | Preset) -> str:
    """What it is listed under: its paper, else its own source."""
    return named.paper or named.source


def _place(named: NamedBlock | Preset) -> str:
    """Where in the paper it stands."""
    return named.source if named.paper else ""


def _described(named: NamedBlock | Preset) -> dict[str, object]:
    return {"name": named.name, "about": named.about, "source": named.source, "paper": named.paper}


def _written(of: Grammar, named: NamedBlock) -> dict[str, str]:
    written = print_block(named.block, of.catalogue, of.defaults)
    return {"written": written, "fingerprint": fingerprint(named.block, of.catalogue)}


def _after_name(summary: str) -> str:
    """'RMSNorm: scale each token …' without the name that stands before it already."""
    _, colon, rest = summary.partition(": ")
    return rest if colon else summary


def _dump(rows: Iterable[Mapping[str, object]]) -> str:
    return json.dumps(list(rows), indent=2, ensure_ascii=False)
