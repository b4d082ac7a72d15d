"""MLflow is an export: each trial is sent once, during a run or later by itself, and what changes is changed there."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow_fixtures import client_of, runs_of
from rich.console import Console
from search_runs import design
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli.app import app
from ablate.errors import InputError, RefusedError
from ablate.session.reporting import export_to_mlflow
from ablate.store.mirror import Sent, sent_elsewhere, serve


def refuse(text: str) -> None:
    raise AssertionError(text)


def kept(folder: Path) -> dict[str, int]:
    """How many runs the store of a folder has that stand for a trial, by whether they were deleted."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection:
        return dict(
            connection.execute(
                "SELECT lifecycle_stage, count(*) FROM runs JOIN tags USING (run_uuid) "
                "WHERE key = 'ablate.kind' AND tags.value = 'trial' GROUP BY 1"
            ).fetchall()
        )


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of a tiny space, sent while it grew."""
    folder = tmp_path_factory.mktemp("searched")
    settings = [design("random", trials=12), "seeds=[0]"]
    space = ablate.load_space(write_world(folder), settings=settings)
    ablate.run(space, results=folder / "results", executor="inline", console=Console(quiet=True))
    return folder / "results"


@pytest.mark.full
def test_a_search_sends_each_trial_once_while_it_grows(searched):
    assert kept(searched) == {"active": 12}
    for run in runs_of(client_of(searched), "tiny").values():
        assert {"variant", "ablate.trial", "order"} <= run.data.tags.keys()
        edits = set(filter(None, run.data.tags.get("edits", "").split("; ")))
        assert sum(value == "yes" for value in run.data.params.values()) >= len(edits)
    assert export_to_mlflow(searched, uri=None, say=refuse).sent == 0
    assert kept(searched) == {"active": 12}


@pytest.mark.full
def test_a_folder_is_sent_by_itself_once(tmp_path):
    space, results = ablate.load_space(write_world(tmp_path)), tmp_path / "results"
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    first, second = (export_to_mlflow(results, uri=None, say=refuse) for _ in range(2))
    assert (first.sent, first.spaces, second.sent, second.spaces) == (8, ("tiny",), 0, ())
    assert kept(results) == {"active": 8}
    runs = runs_of(client_of(results), "tiny").values()
    assert all({"mean.eval_loss", "difference.eval_loss"} & run.data.metrics.keys() for run in runs)
    done = CliRunner().invoke(app, ["mlflow", "--results", str(results), "--json"])
    assert json.loads(done.output)["sent"] == 0 and done.exit_code == 0
    with pytest.raises(InputError, match="no results in"):
        export_to_mlflow(tmp_path / "nothing", uri=None, say=refuse)


def test_of_runs_on_a_server_it_is_said_where(tmp_path):
    from contextlib import closing as closed
    from dataclasses import asdict

    from ablate.store.durable import Appender

    line = Sent(
        destination="http://host:5000", space="small", experiment="7", created=1, page="p", report="r", verdicts="v",
        folder="/elsewhere",
    )  # fmt: skip
    with closed(Appender(tmp_path / "mlflow.jsonl")) as appender:
        appender.write([asdict(line)])
    assert list(sent_elsewhere(tmp_path)) == [("http://host:5000", "small")]
    with pytest.raises(RefusedError) as refused:
        serve(tmp_path, say=refuse)
    assert "the runs of" in str(refused.value) and "went to a tracking server" in str(refused.value)
    assert "small on http://host:5000: http://host:5000/#/experiments/7/runs" in str(refused.value)
