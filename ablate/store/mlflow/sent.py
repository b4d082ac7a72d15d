"""`mlflow.jsonl`: one line for each update of an experiment, to know when nothing is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from ablate.store import checksummed_lines, ledger
from ablate.store.checksummed_lines import Appender
from ablate.store.mlflow.connection import ARTIFACTS
from ablate.store.mlflow.read import FORM
from ablate.store.mlflow.values import Page

FILE = "mlflow.jsonl"

Report = Mapping[str, str]
"""The verdicts of a space as texts by file name: `verdicts.md` is shown on its page, all are kept as files."""


@dataclass(frozen=True)
class Texts(Mapping[str, str]):
    """A report of which some texts are only made when they are sent: `told` identifies it, since what is `drawn`
    follows from that and from the trials.
    """

    told: Mapping[str, str]
    drawn: Callable[[], Mapping[str, str]]

    @cached_property
    def _all(self) -> Mapping[str, str]:
        return {**self.told, **self.drawn()}

    def __getitem__(self, name: str) -> str:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What was last sent of a space. `experiment` and `created` tell the experiment from a later one of the same name.

    `page` and `report` are digests, `verdicts` is the id of the run with the report; `folder` is where the results
    folder was, since paths of files depend on it.
    """

    destination: str
    space: str
    experiment: str
    created: int
    page: str
    report: str
    verdicts: str
    folder: str


def identity(folder: Path) -> str:
    """Return what identifies a results folder's runs where several folders send theirs: a hash of its first outcome.

    It is as durable as the journal: the folder may be moved, used in another container, or lose `mlflow.jsonl`.
    """
    with (folder / ledger.OUTCOMES).open("rb") as file:
        return sha256(file.readline()).hexdigest()[:12]


def page_digest(page: Page) -> str:
    """Return the digest of everything that an experiment's page shows, except for the report."""
    variants = [[v.name, v.edits, v.parameters, v.flops] for v in page.variants]
    head = [FORM, page.question, page.design, page.baseline, page.requested, variants]
    return sha256(
        checksummed_lines.compact([head, [[run.digest, run.answer.digest] for run in page.runs]]).encode()
    ).hexdigest()[:16]


def report_digest(report: Report | None) -> str:
    """Return the digest of a report; empty for none."""
    told = report.told if isinstance(report, Texts) else report
    return sha256(checksummed_lines.compact(sorted(told.items())).encode()).hexdigest()[:16] if told else ""


def read_sent(folder: Path, destination: str) -> dict[str, Sent]:
    """Read, for each space, what was last sent to a destination; records of another form count as never sent."""
    sent = {}
    for record in checksummed_lines.read(folder / FILE).records:
        if _is_sent(record) and record["destination"] == destination:
            sent[record["space"]] = Sent(**record)
    return sent


def _is_sent(record: object) -> bool:
    if not isinstance(record, dict) or set(record) != set(Sent.__slots__):
        return False
    return all(isinstance(value, int if name == "created" else str) for name, value in record.items())


def kept_reports(folder: Path) -> dict[str, Report]:
    """Read the last sent reports of the results folder's own store from their files; the store need not be readable."""
    reports: dict[str, Report] = {}
    for space, sent in read_sent(folder, "").items():
        files = folder / ARTIFACTS / sent.verdicts / "artifacts"
        if sent.verdicts and files.is_dir():
            reports[space] = {file.name: file.read_text(encoding="utf-8") for file in sorted(files.iterdir())}
    return reports


def write_sent(folder: Path, sent: Sent) -> None:
    """Append a line, durably."""
    appender = Appender(folder / FILE)
    try:
        appender.write([asdict(sent)])
    finally:
        appender.close()
