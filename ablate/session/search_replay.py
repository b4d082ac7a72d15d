"""A search made anew from its results: its proposals, its confirmation and its page, and nothing is trained.

A proposal is a function of the seed and of the results before it, and of the libraries that samplers rest on. So a
replay that proposes something else proves that a number or the plan was changed, unless those libraries differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ablate.errors import AblateError
from ablate.execute.controller import EndCounts
from ablate.execute.search.source import OtherProposalsError
from ablate.output.words import plural
from ablate.plan.trial import Trial
from ablate.report.searched.json_form import to_json
from ablate.session.checks import Answer, Check, some, unequal
from ablate.session.planning import Planned
from ablate.session.search_run import SearchRun
from ablate.store import files
from ablate.store.documents import Question
from ablate.store.plans import KeptPlan
from ablate.store.requests import Request
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.store.versions import packages

LIBRARIES = ("ablate", "cmaes", "numpy", "optuna", "scikit-learn", "scipy", "torch")
"""What proposals rest on, beside the seed and the results."""
OF_A_RUN = ("again", "known", "known_failed", "head")
"""What a page says of the run that wrote it: its command, which results it found there, and the head, which is checked
against the records themselves."""


class SearchReplay:
    """A kept search carried out again in a folder of its own, whose trials have all ended; `page` is its page's JSON.

    `trials` are those that it came to.
    """

    def __init__(self, now: Snapshot, kept: KeptPlan, request: Request, page: Path):
        self._now, self._kept, self._request, self._page = now, kept, request, page
        self.trials: tuple[Trial, ...] = ()

    def checks(self, planned: Planned, folder: Path) -> Iterator[Check]:
        """Carry it out, with what the folder has of it, and compare all that follows from the results."""
        space, document = self._kept.space, self._kept.document
        with Results(folder, say=lambda said: None) as store:
            before = Snapshot(folder).questions
            try:
                run = SearchRun(planned, store, self._request, fresh=False, limit=None)
                work = run.source.next()
                done = run.answer(EndCounts())
            except OtherProposalsError as error:
                yield Check(space, "plan", *self._otherwise(str(error).splitlines()[0]))
                return
            except AblateError as error:  # such as a text that it measures on, which is not here
                yield Check(space, "plan", "told", f"cannot be carried out again: {str(error).splitlines()[0]}")
                return
        self.trials, finished = done.plan.trials, run.source.done
        then, now = {str(trial) for trial, *_ in document["trials"]}, {trial.id for trial in self.trials}
        asked = [(each["k"], int(each["derivation"]), each["variant"]) for each in document.get("proposals", ())]
        made = [(each.k, each.derivation, each.variant) for each in done.plan.proposals]
        if finished:
            same = asked == made and then == now
        else:  # a plan that was growing may have fewer proposals than its results ask for, or more
            both = min(len(asked), len(made))
            same = asked[:both] == made[:both]
        if not same:
            yield Check(space, "plan", *self._otherwise("made anew from its results, it has other proposals"))
            return
        if work is not None and not document.get("open"):
            needs = f"made anew, {work.label} is asked for, which has no result"
            yield Check(space, "plan", *self._otherwise(needs))
            return
        far = "" if finished else " as far as it has come"
        said = f"made anew from its results{far}: the same {plural(len(made), 'proposal')}"
        yield Check(space, "plan", "right", said)
        if finished:
            yield from self._confirmed(before, folder)
            yield from self._same_page(to_json(done.searched) if done.searched else "")

    def _otherwise(self, what: str) -> tuple[Answer, str]:
        """Return the answer to a replay that went otherwise: it proves nothing where the libraries are others."""
        lock = self._request.packages
        content = files.whole(self._now.folder, f"{files.SOURCES}/{lock}")[0] if lock else None
        if content is None:
            return "told", f"{what}; it is not known with which packages it was run"
        then, here = _versions(content.decode()), _versions(packages())
        apart = [name for name in LIBRARIES if then.get(name) != here.get(name)]
        if apart:
            return "told", f"{what}; here are other versions of {', '.join(apart)} than it was run with"
        return "wrong", what

    def _confirmed(self, kept: Mapping[str, Sequence[Question]], folder: Path) -> Iterator[Check]:
        """Compare the judgements of the confirmation with those that were kept."""
        anew = Snapshot(folder).questions
        own = {id: last for id, every in anew.items() if (last := every[-1])["space"] == self._kept.space}
        if not own:  # it confirms no block
            return
        differ = [
            line
            for id, last in own.items()
            for line in unequal([each["effects"] for each in kept.get(id, ())][-1:], [last["effects"]])
        ]
        judged = sum(len(last["effects"]) for last in own.values())
        if differ:
            yield Check(self._kept.space, "verdicts", "wrong", f"computed anew they are others: {some(differ)}")
        else:
            said = f"{plural(judged, 'effect')} of the confirmation computed anew, all as kept"
            yield Check(self._kept.space, "verdicts", "right", said)

    def _same_page(self, anew: str) -> Iterator[Check]:
        if not self._page.exists():
            return
        try:
            written = json.loads(self._page.read_text(encoding="utf-8"))
        except ValueError:
            yield Check(self._kept.space, "page", "wrong", f"{self._page.name} cannot be read")
            return
        one, other = ({k: v for k, v in each.items() if k not in OF_A_RUN} for each in (written, json.loads(anew)))
        differ = list(unequal(one, other))
        if differ:
            yield Check(self._kept.space, "page", *self._otherwise(f"{self._page.name} says otherwise: {some(differ)}"))
        else:
            yield Check(self._kept.space, "page", "right", "all that it says follows from the results")


def _versions(lock: str) -> dict[str, str]:
    pairs = (line.partition("==") for line in lock.splitlines())
    return {name.lower().replace("_", "-"): version for name, _, version in pairs}
