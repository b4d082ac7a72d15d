"""Everything that the page of a plan shows, gathered from its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ablate.block.diff import diff, path_order
from ablate.block.printer import print_block
from ablate.data.text import SPLITS
from ablate.errors import RefusedError
from ablate.grammar.named_files import as_typed
from ablate.plan.designs import edits_around
from ablate.plan.plan import Plan, Variant
from ablate.report.page import PageRecord, ShownVariant
from ablate.report.page.curves import PEAKS
from ablate.report.screens.check import resolved
from ablate.session.judging import account_of
from ablate.session.planned import Planned, meanings_in
from ablate.session.step_time import step_times_of
from ablate.space.space import Space
from ablate.store import pages, requests
from ablate.store.differences import Over, differences
from ablate.store.pages import MetricCurve
from ablate.store.requests import Request
from ablate.store.trial_ends import ends_now
from ablate.verdict.fairness_audit import Unequal, unequal
from ablate.verdict.finals import Finals
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

PEAK_OF = {peak: metric for metric, peak in PEAKS.items()}
"""The metrics whose largest value is judged under a name other than `peak_…`."""
PAGES = "pages"
"""The folder of pages within a results folder."""


def gather(planned: Planned, folder: Path, *, request: Request | None = None) -> PageRecord:
    """Gather everything that the page of a plan shows. RefusedError if the results have none of its trials."""

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
        definitions=meanings_in(planned.space, measured.definitions),
        blocks=_blocks(plan, space),
        curves=measured.curves,
        layers=measured.layers,
        gains=measured.gains,
        kernels=measured.kernels,
        initial=measured.initial,
        differences=differences(folder, shown, plan.baseline, _over_training(summary, measured.curves)),
        endings=measured.endings,
        versions=measured.versions,
        corpus=_corpus(planned),
        floors=planned.floors,
        unequal=unequal_of(planned),
        again=_again(space, folder, request),
        commit=_commit(space, folder, request),
        source=space.path.read_text(encoding="utf-8"),
        resolved=resolved(space),
    )


def _over_training(summary: Summary, curves: Sequence[MetricCurve]) -> list[tuple[str, Over, bool]]:
    """Return what is measured over training for each judged metric: itself, or for a peak what it is the peak of."""
    measured = {course.metric for course in curves}
    wanted: list[tuple[str, Over, bool]] = []
    for metric in summary.metrics:
        largest = metric.name.removeprefix("peak_") if metric.name.startswith("peak_") else PEAK_OF.get(metric.name)
        if largest in measured and largest is not None:
            wanted.append((largest, "largest", metric.log))
        elif metric.name in measured:
            wanted.append((metric.name, "mean", metric.log))
    return list(dict.fromkeys(wanted))


def _has_results(folder: Path) -> bool:
    return (folder / "plans.jsonl").exists()


def _refuse_unknown(space: Space, folder: Path, request: Request | None) -> None:
    """Refuse a space without results, and if it was run with other settings, say with which."""

    way_out = f"ablate run {as_typed(space.path)}"
    ran = requests.latest(folder).get(space.name) if _has_results(folder) else None
    if ran is not None and request is None:
        with_ = [f"--profile {ran.profile}"] if ran.profile else []
        with_ += [f"--set {setting}" for setting in ran.settings]
        how = f"it was run {'with ' + ' '.join(with_) if with_ else 'as another question'}"
        way_out = f"{how}: ablate report {space.name} has that page"
    raise RefusedError(f"no trial of {space.name}, as it is given here, has ended in {folder}\n  = {way_out}")


def _blocks(plan: Plan, space: Space) -> tuple[ShownVariant, ...]:
    """Return each variant's block as it would be written, and its edits from the baseline."""

    base = plan.variant(plan.baseline)
    return tuple(
        ShownVariant(
            variant=variant.id,
            block=print_block(variant.block, space.grammar.catalogue, space.grammar.defaults),
            edits=_edits(base, variant, space),
        )
        for variant in plan.variants
    )


def _edits(base: Variant, variant: Variant, space: Space) -> tuple[tuple[str, str], ...]:
    difference = diff(base.block, variant.block, space.grammar.catalogue, defaults=space.grammar.defaults)
    around = edits_around(space, base.setting.changes, variant.setting.changes)
    return tuple((edit.name, edit.detail) for edit in path_order((*difference.edits, *around)))


def _corpus(planned: Planned) -> tuple[str, ...]:
    """Describe the corpus in lines: what, how much, under which fingerprint."""
    corpus = planned.corpus
    if corpus.records is None:
        outputs, noun, of = f"vocabulary {corpus.vocab_size:,}", "tokens", "the text"
        held = {split: corpus.split(split).tokens for split in SPLITS}
    else:
        outputs, noun, of = f"{corpus.vocab_size:,} classes", corpus.noun, "the examples"
        held = {split: corpus.examples(split) for split in SPLITS}
    return (
        f"{corpus.title}; {corpus.tokenizer}, {outputs}",
        f"{noun}: {', '.join(f'{split} {number:,}' for split, number in held.items())}",
        *planned.read,
        f"fingerprint of {of}: {corpus.fingerprint}",
        *corpus.notes,
    )


def unequal_of(planned: Planned) -> tuple[Unequal, ...]:
    """Return what was not equal between the variants of a plan, with seconds per step if they were measured."""

    plan, stage = planned.plan, planned.stage
    seconds = {} if stage is None else step_times_of(plan, planned.models, stage.known.paces)
    return unequal(plan, planned.space.fair, seconds)


def _commit(space: Space, folder: Path, request: Request | None) -> str | None:
    """Return the commit at which the space was last run with these settings; None if it was not."""
    ran = request or requests.latest(folder).get(space.name)
    return None if ran is None or ran.settings != space.settings or ran.profile != space.profile else ran.commit


def _again(space: Space, folder: Path, request: Request | None) -> tuple[str, ...]:
    """Return the commands that repeat the run and write this page."""

    ran = request or Request(
        space=space.name, path=str(space.path.resolve()), profile=space.profile, settings=space.settings
    )
    run = requests.command(ran, folder)
    return run, run.replace("ablate run", "ablate report", 1)
