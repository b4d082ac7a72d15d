"""What a run is about to train, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.plan.plan import Plan

if TYPE_CHECKING:
    from ablate.execute.controller import Ended, Source
    from ablate.plan.trial import Trial
    from ablate.report.page import PageRecord
    from ablate.report.searched.record import SearchRecord
    from ablate.report.summary import Summary
    from ablate.report.unequal import Unequal
    from ablate.train.events import Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to: the plan, how its trials ended, what the numbers say, and what each metric means.

    `ended` counts the trials of this run alone; `failed` are all trials of the plan that have no result. `summary`
    judges the design's comparisons, of a search those that confirm what it has found, if it was asked to. `searched` is
    what a search has found, and `page` where it is written for a browser; `gathered` gathers what the page of any other
    space shows. `unequal` is what was not equal between variants, where the space declares terms.
    """

    plan: Plan
    ended: Ended
    failed: tuple[tuple[Trial, Outcome], ...]
    summary: Summary | None
    definitions: Mapping[str, str]
    searched: SearchRecord | None = None
    page: Path | None = None
    gathered: Callable[[], PageRecord] | None = None
    unequal: tuple[Unequal, ...] = ()

    @property
    def fruitless(self) -> bool:
        """Whether every trial that it was to train failed; where all were known, whether every one of them had."""
        from ablate.execute.policy import FAILED
        from ablate.train.events import GOES_ON

        if self.ended.interrupted:
            return False
        ended = {kind for kind, number in self.ended.kinds.items() if number and kind not in GOES_ON}
        if ended:
            return ended <= set(FAILED)
        return bool(self.failed) and len(self.failed) == len({trial.id for trial in self.plan.trials})

    def report(self) -> Mapping[str, str]:
        """The answer as texts by file name; pages are drawn when they are asked for."""
        if self.searched is not None:
            from ablate.report.searched import json_form, markdown, page

            return {
                "search.md": markdown.to_markdown(self.searched),
                "search.json": json_form.to_json(self.searched),
                "search.html": page.to_html(self.searched),
            }
        from ablate.report.json_form import to_json
        from ablate.report.markdown import to_markdown

        assert self.summary is not None
        told = {
            "verdicts.md": to_markdown(self.summary, self.definitions),
            "verdicts.json": to_json(self.summary, self.definitions),
        }
        if self.gathered is None:
            return told
        from ablate.store.mlflow.sent import Texts

        return Texts(told, partial(_pages, self.gathered))


def _pages(gathered: Callable[[], PageRecord]) -> Mapping[str, str]:
    from ablate.report.page import to_html, to_markdown

    record = gathered()
    return {"page.html": to_html(record), "page.md": to_markdown(record)}


@dataclass(frozen=True, slots=True)
class Begun:
    """Where the trials of a run come from (None: there is nothing to train), and what they come to once they ended.

    `total` is how many there are, None where that is not known beforehand.
    """

    source: Source | None
    total: int | None
    answer: Callable[[Ended], Run]
