"""The page of a space, from its results: planned, judged, gathered, written. Nothing is trained, nothing is locked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ablate.block.diff import diff, path_order
from ablate.block.printer import print_block
from ablate.errors import InputError, RefusedError
from ablate.grammar.named_files import as_typed
from ablate.plan.plan import Plan, Variant
from ablate.session.planning import PathLike, Planned
from ablate.source.problems import quote, unknown
from ablate.space.metrics import JUDGED
from ablate.space.space import Space

if TYPE_CHECKING:
    from ablate.report.finals import Finals
    from ablate.report.page import PageRecord, Shown
    from ablate.report.summary import Summary
    from ablate.report.unequal import Unequal
    from ablate.store.requests import Request

PAGES = "pages"
"""Where in a results folder pages are."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A page: where it is written, for a browser and as Markdown, and the verdicts on it. A search has no summary."""

    html: Path
    markdown: Path
    summary: Summary | None
    record: PageRecord | None = None


def asked(name: str, *, results: PathLike) -> Request:
    """The last run of the space of that name in a results folder; InputError where there is none."""
    from ablate.store.requests import latest, listing

    found = latest(Path(results))
    if not found:
        raise InputError(f"nothing was run in {results}\n  = run a space first, or name another folder with --results")
    if name not in found:
        message, notes = f"no run of the space {quote(name)} in {results}", ("or give the file of a space",)
        raise unknown(message, name, found, "there are", command=listing(Path(results)), notes=notes)
    return found[name]


def report(space: Space, *, results: PathLike, request: Request | None = None) -> Reported:
    """Write the page of a space from what the results folder knows, also while a run is writing.

    `request` is how it was run, for the command that repeats it. RefusedError where nothing of it was run, and for a
    search that has no page yet: it is written when it runs.
    """
    folder = Path(results)
    if space.design.search is not None:
        return _of_search(space, folder)
    from ablate.report.page import to_html, to_markdown
    from ablate.session.staged import unfolded
    from ablate.store.durable import write_whole, writing

    record = gather(unfolded(space, folder), folder, request=request)
    page = folder / PAGES / f"{space.name}.html"
    with writing(page.parent):
        page.parent.mkdir(exist_ok=True)
    written = Reported(page, page.with_suffix(".md"), record.summary, record)
    write_whole(written.html, to_html(record).encode())
    write_whole(written.markdown, to_markdown(record).encode())
    return written


def gather(planned: Planned, folder: Path, *, request: Request | None = None) -> PageRecord:
    """Everything that the page of a plan shows. RefusedError where the results know none of its trials."""
    from ablate.report.checked import resolved
    from ablate.report.page import PageRecord
    from ablate.report.verdicts import judge
    from ablate.session.judging import account_of
    from ablate.store import pages
    from ablate.store.ends import ends_now

    plan, space = planned.plan, planned.space
    trials = {trial.id: trial.variant for trial in plan.trials}
    finals = cast("Finals", ends_now(folder, trials) if _has_results(folder) else {})
    if not finals:
        _refuse_unknown(space, folder, request)
    summary = judge(plan, space.judge, finals, account_of(plan, space.judge, folder, finals, reading=True))
    shown = {
        trial.id: trial.variant
        for trial in plan.trials
        if trial.split == "verdict" and trial.salt == 0 and trial.seed in plan.seeds
    }
    measured = pages.measured(folder, shown, trials)
    return PageRecord(
        plan=plan,
        summary=summary,
        rules=space.judge,
        definitions={**measured.definitions, **{one.metric: one.definition for one in JUDGED.values()}},
        blocks=_blocks(plan, space),
        curves=measured.curves,
        layers=measured.layers,
        gains=measured.gains,
        kernels=measured.kernels,
        endings=measured.endings,
        versions=measured.versions,
        corpus=_corpus(planned),
        floors=planned.floors,
        unequal=unequal_of(planned),
        again=_again(space, folder, request),
        source=space.path.read_text(encoding="utf-8"),
        resolved=resolved(space),
    )


def _has_results(folder: Path) -> bool:
    return (folder / "plans.jsonl").exists()


def _refuse_unknown(space: Space, folder: Path, request: Request | None) -> None:
    """Say that there is nothing to report, and, where the space was run otherwise, how."""
    from ablate.store.requests import latest

    way_out = f"ablate run {as_typed(space.path)}"
    ran = latest(folder).get(space.name) if _has_results(folder) else None
    if ran is not None and request is None:
        with_ = [f"--profile {ran.profile}"] if ran.profile else []
        with_ += [f"--set {one}" for one in ran.settings]
        said = f"it was run {'with ' + ' '.join(with_) if with_ else 'as another question'}"
        way_out = f"{said}: ablate report {space.name} has that page"
    raise RefusedError(f"no trial of {space.name}, as it is asked here, has ended in {folder}\n  = {way_out}")


def _of_search(space: Space, folder: Path) -> Reported:
    page = folder / PAGES / f"{space.name}.html"
    if not page.exists():
        raise RefusedError(
            f"{space.name} is a search, whose page is written when it runs\n"
            f"  = ablate run {as_typed(space.path)} writes {page}"
        )
    return Reported(page, page.with_suffix(".md"), None)


def _blocks(plan: Plan, space: Space) -> tuple[Shown, ...]:
    """Each variant's block as one would write it, and its edits from the baseline."""
    from ablate.report.page import Shown

    base = plan.variant(plan.baseline)
    return tuple(
        Shown(
            variant=variant.id,
            block=print_block(variant.block, space.grammar.catalogue, space.grammar.defaults),
            edits=_edits(base, variant, space),
        )
        for variant in plan.variants
    )


def _edits(base: Variant, variant: Variant, space: Space) -> tuple[tuple[str, str], ...]:
    found = diff(base.block, variant.block, space.grammar.catalogue, defaults=space.grammar.defaults)
    return tuple((edit.name, edit.detail) for edit in path_order(found.edits))


def _corpus(planned: Planned) -> tuple[str, ...]:
    """The text in lines: what, how much, under which fingerprint."""
    corpus = planned.corpus
    sizes = ", ".join(f"{name} {corpus.split(name).tokens:,}" for name in ("train", "tuning", "verdict"))
    return (
        f"{corpus.title}; {corpus.tokenizer}, vocabulary {corpus.vocab_size:,}",
        f"tokens: {sizes}",
        *planned.read,
        f"fingerprint of the text: {corpus.fingerprint}",
        *corpus.notes,
    )


def unequal_of(planned: Planned) -> tuple[Unequal, ...]:
    """What was not equal between the variants of a plan, with the seconds of a step where they were measured."""
    from ablate.report.unequal import unequal
    from ablate.session.pacing import paces_of

    plan, stage = planned.plan, planned.stage
    seconds = {} if stage is None else paces_of(plan, planned.models, stage.known.paces)
    return unequal(plan, planned.space.fair, seconds)


def _again(space: Space, folder: Path, request: Request | None) -> tuple[str, ...]:
    """The commands that repeat the run, and this page."""
    from ablate.session.searched import command
    from ablate.store.requests import Request

    ran = request or Request(
        space=space.name, path=str(space.path.resolve()), profile=space.profile, settings=space.settings
    )
    run = command(ran, folder)
    return run, run.replace("ablate run", "ablate report", 1)
