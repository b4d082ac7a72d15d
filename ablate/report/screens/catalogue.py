"""The output of `ablate list`: blocks and presets under papers, components under slots, probes, metrics, spaces."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table

from ablate.block.catalogue import Catalogue
from ablate.block.expression import print_block
from ablate.block.normal_form import fingerprint
from ablate.extension.declaration import Configured, Declaration
from ablate.grammar.grammar import Grammar
from ablate.grammar.named_blocks import NamedBlock, Preset
from ablate.output.terminal import Text
from ablate.source.located import to_python
from ablate.space.load import KnownSpace
from ablate.space.metrics import Better, Definition, Judgeable, askable_probes, judgeable, known_probes

if TYPE_CHECKING:
    from ablate.store.durable import JsonValue

Row: TypeAlias = tuple[str, str, str]


def spaces(of: Iterable[KnownSpace], *, as_json: bool = False) -> RenderableType:
    if as_json:
        return _dump(
            {
                "name": known.name,
                "question": known.question,
                "profiles": list(known.profiles),
                "file": str(known.path),
                "shipped": known.shipped,
            }
            for known in of
        )
    rows = []
    for known in of:
        profiles = f"--profile {', '.join(known.profiles)}" if known.profiles else ""
        place = "with ablate" if known.shipped else f"in {known.path.parent}/"
        rows.append((place, (known.name, known.question, profiles)))
    return _grouped(rows)


def blocks(of: Grammar, *, as_json: bool = False) -> RenderableType:
    if as_json:
        return _dump(_described(block) | _written(of, block) for block in of.blocks.values())
    written = {name: _written(of, block)["written"] for name, block in of.blocks.items()}
    return _grouped((_paper(b), (b.name, b.about or written[b.name], _place(b))) for b in of.blocks.values())


def presets(of: Grammar, *, as_json: bool = False) -> RenderableType:
    if as_json:
        return _dump(_described(p) | {"sections": to_python(p.sections)} for p in of.presets.values())
    if not of.presets:
        return Text(f"grammar {of.name} has no presets")
    descriptions = {name: p.about or ", ".join(str(key) for key in p.sections) for name, p in of.presets.items()}
    return _grouped((_paper(p), (p.name, descriptions[p.name], _place(p))) for p in of.presets.values())


def components(catalogue: Catalogue, *, as_json: bool = False) -> RenderableType:
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
    known = known_probes(of)
    requestable = {name: known[name] for name in askable_probes(of)}
    if as_json:
        return _dump(
            {"name": name, "metrics": list(map(_definition, spec.metrics))} for name, spec in requestable.items()
        )
    defined = ((name, metric) for name, spec in requestable.items() for metric in spec.metrics)
    return _grouped((name, (metric.metric, metric.definition, metric.source)) for name, metric in defined)


def _definition(metric: Definition) -> dict[str, str]:
    return {"metric": metric.metric, "definition": metric.definition, "source": metric.source}


def metrics(of: Catalogue, *, as_json: bool = False) -> RenderableType:
    every = judgeable(of).values()
    if as_json:
        return _dump(asdict(each) for each in every)
    return _grouped((_needed(each), (each.metric, each.definition + SIDES[each.better], each.source)) for each in every)


SIDES: Mapping[Better, str] = {"lower": "", "higher": "; higher is better", "none": "; neither side is better"}


def _needed(metric: Judgeable) -> str:
    if metric.probe:
        return f"with the probe {metric.probe}"
    return f"with {metric.field}" if metric.field else "always available"


def _grouped(rows: Iterable[tuple[str, Row]]) -> RenderableType:
    """Headings come in the order in which they first occur; columns are aligned throughout."""
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
    return named.paper or named.source


def _place(named: NamedBlock | Preset) -> str:
    return named.source if named.paper else ""


def _described(named: NamedBlock | Preset) -> dict[str, str]:
    return {"name": named.name, "about": named.about, "source": named.source, "paper": named.paper}


def _written(of: Grammar, named: NamedBlock) -> dict[str, str]:
    written = print_block(named.block, of.catalogue, of.defaults)
    return {"written": written, "fingerprint": fingerprint(named.block, of.catalogue)}


def _after_name(summary: str) -> str:
    """Return 'RMSNorm: scale each token …' without the name, which already stands before it."""
    _, colon, rest = summary.partition(": ")
    return rest if colon else summary


def _dump(rows: Iterable[Mapping[str, JsonValue]]) -> str:
    return json.dumps(list(rows), indent=2, ensure_ascii=False)
