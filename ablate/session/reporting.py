"""Reporting: the page of a space from its results, planned, judged, gathered and written, or sent to MLflow.

Loads DuckDB, SciPy and rich.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ablate.block.diff import diff, path_order
from ablate.block.expression import print_block
from ablate.data.sources import SPLITS
from ablate.errors import AblateError, RefusedError
from ablate.grammar.named_files import as_typed
from ablate.plan.designs import edits_around
from ablate.plan.plan import Plan
from ablate.report.document import ReportDocument
from ablate.report.figures import Figures, of_search, of_space, of_table, write_export
from ablate.report.page import PageRecord, ShownVariant, page, table_page
from ablate.report.page.curves import PEAKS
from ablate.report.screens.check import resolved
from ablate.report.searched import page as page_of_search
from ablate.report.searched import sections as sections_of_search
from ablate.report.searched.record import SearchRecord
from ablate.session import table_judging
from ablate.session.accounts import account_of
from ablate.session.earlier_runs import PAGES, as_run, of_same_words, page_of, requests_of, resolved_of
from ablate.session.planning import KnownTexts, PathLike, Planned, meanings_in, mixed_versions, plan_space
from ablate.session.run_result import rendered, texts_of_search, texts_of_verdicts
from ablate.session.stages import step_times_of
from ablate.session.table_judging import presented
from ablate.source.located import to_python
from ablate.space.space import Space
from ablate.store import files, pages, records
from ablate.store.bundle import chain
from ablate.store.documents import digest, plan_id
from ablate.store.durable import write_whole, writing
from ablate.store.measurements import finals
from ablate.store.mirror import Mirrored, Report, check_uri, mirror
from ablate.store.pages import MetricCurve, Over, differences
from ablate.store.predictions import stamped, unkept, with_kept_forecasts
from ablate.store.records import KeptTable, Request
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot
from ablate.verdict.fairness_audit import Unequal, unequal
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary

PEAK_OF = {peak: metric for metric, peak in PEAKS.items()}
"""The metrics whose largest value is judged under a name other than `peak_…`."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A page: its files and the verdicts on it; a search has no summary, a judged table no record.

    `changed` says which files of the space say something else than when it was run.
    """

    html: Path
    markdown: Path
    summary: Summary | None
    record: PageRecord | None = None
    document: ReportDocument | None = None
    changed: str = ""


def last_request(name: str, *, results: PathLike) -> Request:
    return requests_of(Path(results), name, notes=("or give the file of a space",))[name]


def report_run(name: str, *, results: PathLike) -> Reported:
    """Write the page of a space by its name, of its last run as the folder keeps it: none of its files is needed."""
    folder = Path(results)
    now = Snapshot(folder)
    if name not in now.requests and name in now.tables:
        return report_table(folder, now.tables[name][-1])
    request = last_request(name, results=results)
    run, plan = as_run(folder, request), now.plans.current(name)
    if plan is not None and not request.is_planned_as(plan.document):  # a later run, of which there is no plan
        request = replace(request, profile=run.space.profile, settings=run.space.settings, commit=None)
    written = report(run.space, results=folder, request=request, texts=run.texts)
    return replace(written, changed=f"{run.changed}: this page is of the run" if run.changed else "")


def report_table(folder: Path, table: KeptTable) -> Reported:
    """Write the page of a judged table from what the folder keeps of it; RefusedError if that is lost."""
    summary = presented(table_judging.judged_again(folder, table), table_judging.stored_question(table))
    document, path = table_page(summary), folder / PAGES / f"{table.space}.html"
    _write(document, path)
    return Reported(path, path.with_suffix(".md"), summary, None, document)


def report(
    space: Space, *, results: PathLike, request: Request | None = None, texts: KnownTexts | None = None
) -> Reported:
    """Write the page of a space from what the results folder knows, also during a run.

    `request` is how it was run, for the command that repeats it; known `texts` are not read. RefusedError if nothing of
    it was run, and for a search that has no page yet.
    """
    folder = Path(results)
    if space.design.search is not None:
        same = of_same_words(space, folder)
        path = page_of(folder, space.name, same[0].document["resolved"] if same else to_python(space.located))
        if not path.exists():
            raise RefusedError(
                f"{space.name} is a search, whose page is written when it is run\n"
                f"  = ablate run {as_typed(space.path)} writes {path}"
            )
        return Reported(path, path.with_suffix(".md"), None)

    planned = plan_space(space, results=folder, forecasts="none", texts=texts)
    planned = replace(planned, plan=with_kept_forecasts(planned.plan, folder))
    record = gather(planned, folder, request=request)
    path, document = page_of(folder, space.name, resolved_of(planned, folder)), page(record)
    _write(document, path)
    return Reported(path, path.with_suffix(".md"), record.summary, record, document)


def _write(document: ReportDocument, path: Path) -> None:
    with writing(path.parent):
        path.parent.mkdir(exist_ok=True)
    for name, text in rendered(document, path.stem).items():
        write_whole(path.parent / name, text.encode())


def document_of(reported: Reported) -> ReportDocument | None:
    """The document of a page; None for a search whose record cannot be read."""
    if reported.document is not None:
        return reported.document
    try:
        return page_of_search(_search_record(reported))
    except RefusedError:
        return None


def export_figures(reported: Reported, folder: PathLike) -> Figures:
    record, summary = reported.record, reported.summary
    if record is not None:
        return write_export(of_space(record), folder)
    return write_export(of_table(summary) if summary is not None else of_search(_search_record(reported)), folder)


def _search_record(reported: Reported) -> SearchRecord:
    kept = reported.html.with_suffix(".json")
    try:
        return sections_of_search.from_json(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not in the format of this version"
        raise RefusedError(
            f"the record of the search, {kept}, cannot be read: {why}\n"
            "  = run the search again: it trains nothing that is known, and writes the record again"
        ) from error


def gather(planned: Planned, folder: Path, *, request: Request | None = None) -> PageRecord:
    """Gather everything that the page of a plan shows. RefusedError if the results have none of its trials."""
    plan, space = planned.plan, planned.space
    trials = {trial.id: trial.variant for trial in plan.trials}
    ended = finals(folder, trials) if files.has_results(folder) else {}
    now = Snapshot(folder)
    last = now.requests.get(space.name)
    if not ended:
        way_out = f"ablate run {as_typed(space.path)}"
        if last is not None and request is None:
            laid = [f"--profile {last.profile}"] if last.profile else []
            laid += [f"--set {setting}" for setting in last.settings]
            how = f"it was run {'with ' + ' '.join(laid) if laid else 'as another question'}"
            way_out = f"{how}: ablate report {space.name} has that page"
        raise RefusedError(f"no trial of {space.name}, as it is given here, has ended in {folder}\n  = {way_out}")
    account = account_of(plan, ended, rules=space.judge, folder=folder, reading=True)
    identity = resolved_of(planned, folder)
    own = plan_id(space.name, asked=digest(identity))
    kept = next((each for each in now.plans.of_space.get(space.name, ()) if each.id == own), None)
    document = unkept(plan, identity) if kept is None else kept.document
    summary = stamped(judge(plan, space.judge, ended, account), document, folder)
    shown = {
        trial.id: trial.variant
        for trial in plan.trials
        if trial.split == "verdict" and trial.salt == 0 and trial.seed in plan.seeds
    }
    measured = pages.measured(folder, shown, trials)
    same = last is not None and (last.settings, last.profile) == (space.settings, space.profile)
    ran = request or (last if same else None)
    asked = Request(space=space.name, path=str(space.path.absolute()), profile=space.profile, settings=space.settings)
    again = records.run_command(ran or asked, folder)
    return PageRecord(
        plan=plan,
        summary=summary,
        rules=space.judge,
        definitions=meanings_in(space, measured.definitions),
        blocks=tuple(_blocks(plan, space)),
        curves=measured.curves,
        layers=measured.layers,
        gains=measured.gains,
        kernels=measured.kernels,
        streams=measured.streams,
        differences=differences(folder, shown, plan.baseline, _over_training(summary, measured.curves)),
        endings=measured.endings,
        versions=measured.versions,
        corpus=_corpus(planned),
        floors=planned.floors,
        unequal=unequal_of(planned),
        mixed=mixed_versions(plan, now),
        head="" if kept is None else chain(now, kept)[-1].head,
        again=(again, again.replace("ablate run", "ablate report", 1)),
        commit=None if ran is None else ran.commit,
        source=space.text,
        resolved=resolved(space),
    )


def _over_training(summary: Summary, curves: Sequence[MetricCurve]) -> list[tuple[str, Over, bool]]:
    measured = {course.metric for course in curves}
    wanted: list[tuple[str, Over, bool]] = []
    for metric in summary.metrics:
        largest = metric.name.removeprefix("peak_") if metric.name.startswith("peak_") else PEAK_OF.get(metric.name)
        if largest in measured and largest is not None:
            wanted.append((largest, "largest", metric.log))
        elif metric.name in measured:
            wanted.append((metric.name, "mean", metric.log))
    return list(dict.fromkeys(wanted))


def _blocks(plan: Plan, space: Space) -> Iterator[ShownVariant]:
    base, catalogue, defaults = plan.variant(plan.baseline), space.grammar.catalogue, space.grammar.defaults
    for variant in plan.variants:
        inside = diff(base.block, variant.block, catalogue, defaults=defaults).edits
        edits = path_order((*inside, *edits_around(space, base.setting.changes, variant.setting.changes)))
        block = print_block(variant.block, catalogue, defaults)
        yield ShownVariant(variant=variant.id, block=block, edits=tuple((edit.name, edit.detail) for edit in edits))


def _corpus(planned: Planned) -> tuple[str, ...]:
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
    seconds = step_times_of(planned.plan, planned.models, planned.stage.known.paces)
    return unequal(planned.plan, planned.space, seconds)


def export_to_mlflow(results: Path, *, uri: str | None, say: Callable[[str], None]) -> Mirrored:
    """Send what MLflow lacks of a folder: to its own store, or to the tracking server at `uri`.

    Repeating it has no effect. InputError without results; RefusedError where the folder is in use, or MLflow cannot be
    reached. `say` is told of spaces that are sent without verdicts.
    """
    check_uri(uri)
    files.check_results(results)
    with Results(results, say=say) as store:
        store.refresh()
        now = Snapshot(results)
        reports: dict[str, Report] = {}
        for space in now.plans.of_space:
            try:
                report = _texts_for_mlflow(space, now)
            except AblateError as error:
                say(f"{space} is sent without its verdicts: {str(error).splitlines()[0]}")
                continue
            if report:
                reports[space] = report
        return mirror(results, uri=uri, reports=reports)


def _texts_for_mlflow(space: str, now: Snapshot) -> Report:
    plan, request = now.plans.current(space), now.requests.get(space)
    assert plan is not None
    trials = {str(trial) for trial, *_ in plan.document["trials"]}
    if request is None or trials.isdisjoint(now.endings):
        return {}
    if plan.document["design"] == "search":
        kept = page_of(now.folder, space, plan.document["resolved"]).with_suffix(".json")
        return texts_of_search(sections_of_search.from_json(kept.read_text(encoding="utf-8"))) if kept.exists() else {}
    run = as_run(now.folder, request)
    planned = plan_space(run.space, results=now.folder, forecasts="none", texts=run.texts)
    record = gather(planned, now.folder, request=request)
    return texts_of_verdicts(record.summary, record.definitions, lambda: record, record.mixed)
