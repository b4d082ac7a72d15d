"""Results that travel: a plan with all that decided it as one file, and such a file read beside other results."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.errors import InputError, RefusedError, warn
from ablate.output.words import plural
from ablate.report import json_form
from ablate.session.accounts import EarlierJudgement, asked_of
from ablate.session.earlier_runs import page_of, requests_of
from ablate.session.planning import RESULTS as DEFAULT
from ablate.session.planning import PathLike
from ablate.session.reporting import report_run
from ablate.store import bundle, files, records, snapshot
from ablate.store.bundle import RESULTS, chain, collect
from ablate.store.durable import write_whole, writing
from ablate.store.files import put_listed, trial_of
from ablate.store.records import KeptPlan, key_of
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot

PACKAGES, VERSIONS, RECORDS = "packages.txt", "versions.json", "records.jsonl"
FORMS = (".html", ".md", ".json")
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundle that was written; `others` counts the other plans of the space, which are not in it."""

    path: Path
    head: str
    ended: int
    trials: int
    others: int


@dataclass(frozen=True, slots=True)
class Loaded:
    space: str
    new: int
    known: int
    notes: tuple[str, ...] = ()


def write_bundle(name: str, path: PathLike, *, results: PathLike = DEFAULT) -> Bundled:
    """Write the last plan of a space with its results to a file, the same bytes for the same content.

    InputError for a space that was not run; RefusedError where files of it are lost or damaged.
    """
    path, results = Path(path), Path(results)
    request = requests_of(results, name)[name]
    now = Snapshot(results)
    if snapshot.is_earlier(results):
        raise RefusedError(
            f"{results} is of an earlier version\n  = `ablate doctor --results {results}` converts it, keeping the old"
        )
    plan = now.plans.current(name)
    if plan is None:
        raise RefusedError(f"{name} was not planned yet\n  = {records.run_command(request, results)}")
    with tempfile.TemporaryDirectory(prefix="ablate-") as aside:
        folder = Path(aside) / RESULTS
        folder.mkdir()
        collect(now, plan, folder)
        _refuse_lost(now, plan, results)
        members = {**bundle.members_of(folder), **_explained(name, plan, folder, results)}
    links = chain(now, plan)
    head, trials = links[-1].head, {str(trial) for trial, *_ in plan.document["trials"]}
    ended, others = len(trials & now.endings.keys()), len(now.plans.of_space[name]) - 1
    members[RECORDS] = "".join(
        f"{json.dumps([link.kind, link.name, link.content, link.head])}\n" for link in links
    ).encode()
    members["README.md"] = _readme(name, plan, head, (ended, len(trials)), members).encode()
    bundle.write(path, members)
    return Bundled(path, head, ended, len(trials), others)


def _refuse_lost(now: Snapshot, plan: KeptPlan, results: Path) -> None:
    own = {str(trial) for trial, *_ in plan.document["trials"]}
    marks = set(plan.document.get("sources", {}).values())
    lost = [
        f"{name} {fault}"
        for name, fault in now.lost.items()
        if name == plan.file or trial_of(name) in own or name.rpartition("/")[2] in marks
    ]
    if lost:
        more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
        raise RefusedError(
            f"lost, and so not to be bundled: {'; '.join(lost[:MOST_NAMED])}{more}\n"
            f"  = `ablate doctor --results {results}` recovers what can be recovered"
        )


def _explained(name: str, plan: KeptPlan, folder: Path, results: Path) -> dict[str, bytes]:
    now, document = Snapshot(folder), plan.document
    members = {
        f"files/{role}": (folder / files.SOURCES / mark).read_bytes()
        for role, mark in document.get("sources", {}).items()
    }
    sets: dict[str, list[str]] = {}
    for trial, ending in sorted(now.endings.items()):
        sets.setdefault(json.dumps(dict(sorted(ending.versions.items()))), []).append(trial)
    versions = [{"versions": json.loads(versions), "trials": trials} for versions, trials in sorted(sets.items())]
    members[VERSIONS] = json.dumps(versions, indent=2).encode() + b"\n"
    packages = now.requests[name].packages
    if packages:
        members[PACKAGES] = (folder / files.SOURCES / packages).read_bytes()
    if document["design"] == "search":  # its page is written when it is run
        page = page_of(results, name, document["resolved"])
        written = {form: page.with_suffix(form) for form in FORMS}
        return members | {f"page{form}": path.read_bytes() for form, path in written.items() if path.exists()}
    if not now.endings:
        return members
    reported = report_run(name, results=folder)
    members |= {"page.html": reported.html.read_bytes(), "page.md": reported.markdown.read_bytes()}
    if reported.summary is not None and reported.record is not None:
        verdicts = json_form.to_json(reported.summary, reported.record.definitions, reported.record.mixed)
        members["verdicts.json"] = verdicts.encode() + b"\n"
    return members


def _readme(name: str, plan: KeptPlan, head: str, counted: tuple[int, int], members: Mapping[str, bytes]) -> str:
    ended, trials = counted
    question = plan.document["question"].strip() or name
    there = {
        "page.html": "the answer, for a browser; `page.md` as text",
        "verdicts.json": "the verdicts in full",
        "files/": "the space, its grammar and what else decided the results, as they were run",
        PACKAGES: "every package that was installed where it was run",
        VERSIONS: "versions, device and kernels of each trial",
        RECORDS: "the chain of records, whose last hash is the head",
        "results/": "a results folder of `ablate`: every number of each trial in `trials/*.parquet`",
        bundle.SUMS: "the SHA-256 of every file: `sha256sum --check SHA256SUMS`",
    }
    listed = "\n".join(
        f"| `{each}` | {said} |"
        for each, said in there.items()
        if each in (bundle.SUMS, RECORDS) or any(member.startswith(each) for member in members)
    )
    own = [member for member in members if member.startswith("files/plugin/")]
    code = f"\nIt brings code of its own, which planning runs: read {', '.join(sorted(own))} first.\n" if own else ""
    return f"""# {name}

{question}

{ended} of {plural(trials, "trial")} ended. Head of the records: `{head}`

```sh
ablate verify {name}.zip                 # seals, plan and verdicts, computed anew
ablate verify {name}.zip --retrain 2     # and two random trials, trained again
ablate load {name}.zip                   # read it beside other results
ablate report {name} --results results   # where it is unpacked, without loading it
```
{code}
| file | |
|---|---|
{listed}

The same head means the same question, the same numbers bit for bit, and the same verdicts. It does not prove who made
them, nor when: compare it with the head on a page that was published.
"""


def load_bundle(path: PathLike, *, results: PathLike = DEFAULT) -> Loaded:
    """Read a bundle into a results folder, beside what is there. InputError for what is no bundle; RefusedError, and
    nothing is changed, where a file of it is not as it was bundled or the folder has other numbers of its trials."""
    path, results = Path(path), Path(results)
    with tempfile.TemporaryDirectory(prefix="ablate-") as aside:
        unpacked = Path(aside)
        if faults := bundle.unpack(path, unpacked):
            raise RefusedError(
                f"{path} has changed since it was written: {'; '.join(faults[:MOST_NAMED])}\n"
                f"  = get it again; `ablate verify {path}` says all that is wrong with it"
            )
        theirs = Snapshot(unpacked / RESULTS)
        if not theirs.plans.of_space:
            raise InputError(f"{path} has no plan in it\n  = ablate bundle SPACE -o FILE writes one that has")
        (space,) = theirs.plans.of_space
        with Results(results, say=warn) as store:
            ours = Snapshot(results)
            _refuse_conflicts(path, theirs, ours, results)
            notes = tuple(_notes(space, theirs, ours))
            new, known = _copied(theirs, ours, results)
            for page in sorted(unpacked.glob("page.*")):
                _copy_page(page, page_of(results, space, theirs.plans.of_space[space][-1].document["resolved"]))
            store.refresh()
    return Loaded(space, new, known, notes)


def _refuse_conflicts(path: Path, theirs: Snapshot, ours: Snapshot, results: Path) -> None:
    here = ours.endings
    other = [trial for trial, end in theirs.endings.items() if trial in here and here[trial].digest != end.digest]
    begun = [trial for trial in theirs.endings if trial in ours.open]
    conflicts = [
        f"{what} {plural(len(trials), 'trial')} of it ({', '.join(trials[:MOST_NAMED])})"
        for what, trials in (("other numbers of", other), ("without an end", begun))
        if trials
    ]
    if conflicts:
        raise RefusedError(
            f"{results} has {' and '.join(conflicts)}\n"
            f"  = read it into a folder of its own: ablate load {path} --results FOLDER"
        )


def _notes(space: str, theirs: Snapshot, ours: Snapshot) -> Iterator[str]:
    (plan,) = theirs.plans.of_space[space]
    mine = [each for each in ours.plans.of_space.get(space, ()) if each.id != plan.id]
    if mine:
        current = plan.number >= max(each.number for each in mine)
        yield (
            f"this folder has run {space} as well, as {plural(len(mine), 'other plan')}: both are kept, and "
            f"{'that of the bundle' if current else 'that of this folder'} is the current one"
        )
    there, here = asked_of(theirs).of, asked_of(ours).of
    both = [unit for unit in there if unit in here and _judged(there[unit]) - _judged(here[unit])]
    if both:
        yield f"this folder has judged {plural(len(both), 'comparison')} of it, too: the judgements of both count"


def _judged(every: Iterable[EarlierJudgement]) -> set[object]:
    return {key_of(past.question) for past in every}


def _copied(theirs: Snapshot, ours: Snapshot, results: Path) -> tuple[int, int]:
    new = known = 0
    grown = {plan.id: len(plan.document["trials"]) for plans in ours.plans.of_space.values() for plan in plans}
    listed = theirs.witness.written
    planned = {plan.file: plan.document for plans in theirs.plans.of_space.values() for plan in plans}
    for name in sorted(listed, key=lambda name: (files.FOLDERS.index(name.partition("/")[0]), name)):
        content = (theirs.folder / name).read_bytes()
        trial, written = trial_of(name), listed[name]
        if (results / name).exists() or (written.ending is not None and trial in ours.endings):
            known += 1
            continue
        before: list[str] = []
        if name.startswith("plans/"):
            stem = name.partition(".")[0]
            before = [each for each in files.names(results, "plans") if each.startswith(f"{stem}.")]
            if before and grown.get(stem.partition("/")[2], 0) > len(planned[name]["trials"]):
                known += 1
                continue
        put_listed(results, name, content, ending=written.ending, replaced=before)
        for each in before:
            with writing(results / each):
                (results / each).unlink(missing_ok=True)
        new += 1
    return new, known


def _copy_page(page: Path, place: Path) -> None:
    target = place.with_suffix(page.suffix)
    if not target.exists():
        with writing(target.parent):
            target.parent.mkdir(exist_ok=True)
        write_whole(target, page.read_bytes())
