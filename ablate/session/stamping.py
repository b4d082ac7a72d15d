"""The claims of a summary with their stamps, by what the results folder keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from ablate.plan.plan import Plan
from ablate.store.checksummed_lines import compact
from ablate.store.documents import PlanDocument
from ablate.store.serialise import Documents, plan_document
from ablate.store.snapshot import Snapshot
from ablate.store.stamps import Stamps
from ablate.verdict.summary import Summary


def unkept(plan: Plan, resolved: Mapping[str, object]) -> PlanDocument:
    """Return a plan that no folder keeps as it would be kept, as far as claims are about it."""
    document = plan_document(plan, Documents(source="", resolved=resolved, profile=plan.profile))
    return cast(PlanDocument, json.loads(compact(document)))


def stamped(summary: Summary, plan: PlanDocument | None, folder: Path) -> Summary:
    """Return a summary whose claims say when they were made; as it is where it has none, or no plan of it is kept."""
    if plan is None or not summary.expectations:
        return summary
    stamps = Stamps(Snapshot(folder)).of(plan)
    marked = (replace(claim, stamp=stamp) for claim, stamp in zip(summary.expectations, stamps, strict=True))
    return replace(summary, expectations=tuple(marked))
