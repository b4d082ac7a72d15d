"""The plan on the screen, and again once steps are measured."""

import io
import json
from dataclasses import replace

from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli.app import app
from ablate.cli.queries import show_plan
from ablate.execute.controller import Interrupt
from ablate.output.terminal import Console


def shown(planned, before=None):
    said = io.StringIO()
    show_plan(Console(file=said, width=160), planned, 1, before)
    return said.getvalue()


def test_the_second_time_only_the_table_and_what_is_new(tmp_path):
    path = write_world(tmp_path)
    path.write_text(path.read_text().replace("design: {path:", "fair: {budget: wallclock}\ndesign: {path:"))
    planned = ablate.plan_space(ablate.load_space(path), results=tmp_path / "r")
    first = shown(planned)
    again = shown(replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, "what is new"))), planned)
    for said in (
        planned.corpus.describe().split()[0],
        planned.plan.question,
        "no noise floor",
        *planned.plan.notes[:1],
    ):
        assert said in first and said not in again, said
    assert "what is new" in again and "parameters" in again and "pre_ln" in again


def test_what_waits_for_a_measurement_is_not_said_to_be_known(tmp_path):
    path = write_world(tmp_path)
    path.write_text(path.read_text().replace("design: {path:", "fair: {budget: wallclock}\ndesign: {path:"))
    planned = ablate.plan_space(ablate.load_space(path), results=tmp_path / "r")
    known = replace(planned, known=frozenset(trial.id for trial in planned.plan.trials))
    assert "nothing to run until seconds per step are measured" in shown(known)
    assert "all known already" not in shown(known)


def test_beside_json_it_goes_to_standard_error(tmp_path, monkeypatch):
    """Of a run that is stopped before it trains anything."""
    write_world(tmp_path, seeds=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Interrupt, "__call__", lambda self: True)
    done = CliRunner().invoke(app, ["run", "tiny.yaml", "--json", "--executor", "inline", "--no-mlflow"])
    assert done.exit_code == 130 and "4 trials" in done.stderr
    (mistake,) = json.loads(done.stdout)["mistakes"]
    assert mistake["message"] == "stopped: 0 trials ended, 0 left in progress, 4 not started"
    assert len(mistake["way_out"]) == 1, "the command that resumes it"
