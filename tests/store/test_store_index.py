"""Which trials are known, what was asked and how long it took are short reads, however many there are."""

from __future__ import annotations

import statistics
import subprocess
import sys
import zlib
from contextlib import contextmanager
from dataclasses import replace

import pytest
from store_fixtures import DOCUMENTS, RECIPE, VERSIONS, fill, opened, plan, trial

from ablate.errors import RefusedError
from ablate.store import checksummed_lines, ledger, serialise
from ablate.store.checksummed_lines import encode
from ablate.store.ending import Ending
from ablate.store.ledger import KeptDocument, known_outcomes
from ablate.store.records import TrialRecord
from ablate.store.trial_duration import trial_seconds
from ablate.train.events import Outcome

WATCHING: list[list[str]] = []
"""The lists to which every file that is opened is added; an audit hook cannot be removed."""


def note_opened(event, arguments):
    """Note the files that are opened."""
    if WATCHING and event == "open":
        WATCHING[-1].append(str(arguments[0]))


sys.addaudithook(note_opened)


@contextmanager
def watched():
    """The files that are opened within."""
    WATCHING.append([])
    try:
        yield WATCHING[-1]
    finally:
        WATCHING.pop()


def test_five_thousand_trials_are_known_at_once(tmp_path):
    ids = [f"{number:012x}" for number in range(5000)]
    (tmp_path / "trials").mkdir()
    content = b"the rows of a trial"
    for id in ids:
        (tmp_path / "trials" / f"{id}.parquet").write_bytes(content)
    end, file = Outcome("finished", 300), (len(content), zlib.crc32(content))
    endings = [Ending(id, 1, end, 1300, "0" * 64, 1.8e9, 1.8e9, VERSIONS, file) for id in ids]
    (tmp_path / "outcomes.jsonl").write_bytes(b"".join(encode(["ended", ending.document()]) for ending in endings))
    with watched() as files, opened(tmp_path) as results:
        known = results.outcomes()
    assert sorted(file for file in files if file.endswith(".parquet")) == sorted(
        map(str, (tmp_path / "trials").iterdir())
    )
    assert sum(file.endswith("outcomes.jsonl") for file in files) <= 3
    assert known == known_outcomes(tmp_path) == dict.fromkeys(ids, Outcome("finished", 300))


def test_what_was_asked_is_read_as_it_was_written(tmp_path):
    document = serialise.trial_document(trial())
    first, second = (serialise.plan_document(plan(seeds), DOCUMENTS) for seeds in ((0,), (0, 1)))
    odd = {**first, "space": 'a "quoted" \\ name → é\n', "seeds": []}
    records = [["trial", document], ["plan", "1", first], ["plan", "o", odd], ["plan", "2", second], ["later", {}]]
    (tmp_path / "plans.jsonl").write_bytes(b"".join(map(encode, records)))
    asked = ledger.kept_plans(checksummed_lines.read(tmp_path / "plans.jsonl"))
    written = [checksummed_lines.read(tmp_path / "plans.jsonl").records[place][-1] for place in range(4)]
    assert asked.trials == {trial().id: written[0]}
    assert asked.plans == {"small": ("2", written[3]), odd["space"]: ("o", odd)}
    assert ledger.text_of(asked.trials[trial().id]) == ledger.text_of(document) == checksummed_lines.compact(document)


def test_a_document_is_parsed_when_it_is_looked_into(tmp_path):
    broken = KeptDocument(b'{"trial":', TrialRecord, tmp_path / "plans.jsonl")
    assert broken.text == '{"trial":'
    with pytest.raises(RefusedError, match=r"plans.jsonl is not as this version of ablate writes it: a line"):
        broken["trial"]


def test_pace_is_the_median_of_finished_trials_of_that_size(tmp_path):
    assert trial_seconds(tmp_path, trial()) is None
    fill(tmp_path)
    known = ledger.endings(checksummed_lines.read(tmp_path / ledger.OUTCOMES)).values()
    took = [ending.ended - ending.began for ending in known if ending.outcome.kind == "finished"]
    assert len(took) == 5
    assert trial_seconds(tmp_path, trial()) == pytest.approx(statistics.median(took), abs=1e-6)
    assert trial_seconds(tmp_path, replace(trial(), recipe=RECIPE.model_copy(update={"steps": 41}))) is None


HOLDER = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.readline()"


def test_an_estimate_is_not_worth_a_refusal(tmp_path):
    fill(tmp_path)
    command = [sys.executable, "-c", HOLDER, tmp_path / "ablate.duckdb"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        holder.stdout.readline()
        assert trial_seconds(tmp_path, trial()) is None
        holder.communicate("\n")
    assert trial_seconds(tmp_path, trial()) is not None
