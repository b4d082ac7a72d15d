"""Bundle: a plan with its results as one file, and the chain of hashes by which its records are recognised.

A bundle is a zip that holds a results folder of this plan alone, and what explains it: the files that own the results,
byte for byte, and a witness of their own. Requests do not say where the author's files are. Judgements of the same
questions in other spaces are kept for how often a question was asked.

A bundle has the same bytes for the same content: members are sorted, stored as they are under one date, and listed with
their hashes in SHA256SUMS, which `sha256sum --check` reads.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ablate.errors import InputError
from ablate.store import files
from ablate.store.documents import Question, digest
from ablate.store.durable import compact, write_whole, writing
from ablate.store.files import KeptDocument, Written, digest_of
from ablate.store.machines import of_machine
from ablate.store.records import KeptPlan
from ablate.store.snapshot import Snapshot

RESULTS, SUMS = "results", "SHA256SUMS"
DATE = (1980, 1, 1, 0, 0, 0)  # the date of every member: the earliest that a zip can have
MOST = 2**36  # bytes that a bundle may unpack to


def collect(now: Snapshot, plan: KeptPlan, into: Path) -> None:
    """Copy the files that belong to a plan into another folder, which is a results folder of its own."""
    written: dict[str, Written] = {}

    def put(name: str, content: bytes, listed: Written | None = None) -> None:
        path = into / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
        written[name] = listed or Written(name, len(content), digest_of(content))

    for name in (plan.file, *(f"{files.SOURCES}/{mark}" for mark in plan.document.get("sources", {}).values())):
        if (now.folder / name).exists():
            put(name, (now.folder / name).read_bytes())
    for trial in {str(trial): None for trial, *_ in plan.document["trials"]}:
        sealed = now.sealed(trial)
        if sealed is not None:
            put(sealed.name, files.path_of(now.folder, trial).read_bytes(), sealed)
    for name, content in (*_judgements(now, plan), *_requests(now, plan)):
        put(name, content)
    files.rewrite_witness(into, [written[name] for name in sorted(written)])


def _judgements(now: Snapshot, plan: KeptPlan) -> Iterator[tuple[str, bytes]]:
    """The judgements of a plan, and of others with questions that share a training, directly or through others."""
    every = [(each, question) for each in now.judgements for question in each.content["questions"]]
    known = {mark for each, question in every if each.content["plan"] == plan.id for mark in _asked_in(question)}
    others = [_asked_in(question) for _, question in every]
    while more := set().union(*(marks for marks in others if not marks.isdisjoint(known))) - known:
        known |= more
    for each in now.judgements:
        if each.content["plan"] == plan.id:
            yield each.name, (now.folder / each.name).read_bytes()
        elif shared := [q for q in each.content["questions"] if not _asked_in(q).isdisjoint(known)]:
            yield _encoded("verdicts", each, {**each.content, "trials": {}, "verdicts": None, "questions": shared})


def _asked_in(question: Question) -> set[str]:
    trained = (each for account in question.get("accounts", ()) for each in account["trained"].items())
    return {question["question"], *(f"{variant} {training}" for variant, training in trained)}


def _requests(now: Snapshot, plan: KeptPlan) -> Iterator[tuple[str, bytes]]:
    """Yield the last request of a plan, without paths, executors and servers of its author."""
    request = now.requests.get(plan.space)
    if request is not None:
        shown = request.shown
        plain = replace(request, path=shown[0], plugins=shown[1:], typed=shown, place={}, mirror=True)
        content = files.encoded(asdict(plain), 1)
        yield f"runs/{digest_of(content)}.json", content
        if request.packages and (now.folder / files.SOURCES / request.packages).exists():
            name = f"{files.SOURCES}/{request.packages}"
            yield name, (now.folder / name).read_bytes()


def _encoded(kind: str, document: KeptDocument[Any], content: Mapping[str, object]) -> tuple[str, bytes]:
    bare = {name: value for name, value in content.items() if name not in ("format", "number")}
    encoded = files.encoded(bare, document.number)
    return f"{kind}/{digest_of(encoded)}.json", encoded


def write(path: Path, members: Mapping[str, bytes]) -> None:
    """Write a bundle from its members by name; RefusedError if the disk refuses."""
    sums = "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members))
    unfinished = path.with_name(path.name + ".new")
    with writing(path, "-o"):
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive:
            for name, content in sorted({**members, SUMS: sums.encode()}.items()):
                member = zipfile.ZipInfo(name, DATE)
                member.create_system, member.external_attr = 3, 0o644 << 16
                archive.writestr(member, content)
        unfinished.replace(path)


def members_of(results: Path) -> dict[str, bytes]:
    names = [name for kind in files.FOLDERS for name in files.names(results, kind)]
    return {f"{RESULTS}/{name}": (results / name).read_bytes() for name in (*names, files.WITNESS)}


def unpack(path: Path, into: Path) -> tuple[str, ...]:
    """Unpack a bundle; return what differs from its own sums. InputError for what is no bundle."""
    faults: list[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            names = [member.filename for member in archive.infolist()]
            if SUMS not in names or not any(name.startswith(f"{RESULTS}/") for name in names):
                raise _no_bundle(path, f"it has no {SUMS if SUMS not in names else RESULTS}")
            if outside := [name for name in names if _leaves(name)]:
                raise _no_bundle(path, f"its member {outside[0]} would be written elsewhere")
            if sum(member.file_size for member in archive.infolist()) > MOST:
                raise _no_bundle(path, "it would take more than 64 GiB")
            lines = (line.partition("  ") for line in archive.read(SUMS).decode().splitlines())
            sums = {name: digest for digest, _, name in lines}
            faults += [f"{name} is in the bundle twice" for name in dict.fromkeys(names) if names.count(name) > 1]
            for name in dict.fromkeys(names):
                content = archive.read(name)
                if name != SUMS and hashlib.sha256(content).hexdigest() != sums.pop(name, None):
                    faults.append(f"{name} is not as {SUMS} has it")
                with writing(into / name):
                    (into / name).parent.mkdir(parents=True, exist_ok=True)
                    (into / name).write_bytes(content)
            faults += [f"{name} is gone" for name in sums]
    except FileNotFoundError:
        raise InputError(f"no such file: {path}\n  = ablate bundle SPACE -o FILE writes one") from None
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
        raise _no_bundle(path, str(error)) from None
    return tuple(faults)


def _leaves(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.parts


def _no_bundle(path: Path, why: str) -> InputError:
    return InputError(f"{path} cannot be read as a bundle: {why}\n  = ablate bundle SPACE -o FILE writes one")


# The records of a plan as a chain of hashes: its files, its plan, how each trial ended, and the verdicts
#
# The hash of each contains that of the record before it, so that the last one, the head on a page, stands for all: by
# it one can tell whether another copy has the same question, numbers and verdicts. No clock is in it: trials that are
# trained again to the same bits have the same head.

CHAIN_START = hashlib.sha256(b"ablate records 1").hexdigest()


@dataclass(frozen=True, slots=True)
class Link:
    """A record: its kind and name, the hash of its content, and that of the chain up to it."""

    kind: str
    name: str
    content: str
    head: str


def chain(now: Snapshot, plan: KeptPlan) -> tuple[Link, ...]:
    """The records of a plan in order: files, plan, trials, verdicts or the judgements of a search.

    `head = sha256(head before + [kind, name, content as JSON])`.
    """
    links: list[Link] = []
    for kind, name, content in _chain_records(now, plan):
        before = links[-1].head if links else CHAIN_START
        head = hashlib.sha256(f"{before}\n{compact([kind, name, content])}".encode()).hexdigest()
        links.append(Link(kind, name, content, head))
    return tuple(links)


def _chain_records(now: Snapshot, plan: KeptPlan) -> Iterator[tuple[str, str, str]]:
    document = plan.document
    for name, content in sorted(document.get("sources", {}).items()):
        yield "file", name, content
    yield "plan", plan.id, plan.digest
    for trial in sorted({str(trial) for trial, *_ in document["trials"]} & now.endings.keys()):
        end = now.endings[trial]
        yield "trial", trial, digest([end.kind, end.step, end.rows, end.digest, of_machine(end.versions)])
    verdicts = now.verdicts.get(plan.id)
    if verdicts is not None:
        yield "verdicts", plan.id, digest(verdicts.content["verdicts"])
        return
    own = (each.content["questions"] for each in now.judgements if each.content["plan"] == plan.id)
    judged = {question["question"]: question["effects"] for questions in own for question in questions}
    for question, effects in sorted(judged.items()):  # of a search: the blocks that it confirmed
        yield "judgement", question, digest(effects)
