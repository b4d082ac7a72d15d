"""A catalogue that does not grow: what there was when the goldens of wording were written.

A text that lists names would change with every file that is added. So goldens of wording are read with the things of
`tests/errors/known.json` alone; that what ships is found at all is tested elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ablate.block.catalogue import Catalogue
from ablate.components.registry import declarations

KNOWN = Path(__file__).parents[1] / "errors" / "known.json"


def toy_catalogue() -> Catalogue:
    """The shipped things that are listed."""
    every, known = declarations(), json.loads(KNOWN.read_text(encoding="utf-8"))
    components = {name: spec for name, spec in every.components.items() if name in known["components"]}
    others = {
        kind: {name: spec for name, spec in specs.items() if name in known.get(kind, ())}
        for kind, specs in every.others.items()
    }
    assert len(components) == len(known["components"])
    return replace(every, components=components, others=others)
