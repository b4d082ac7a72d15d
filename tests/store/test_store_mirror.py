"""MLflow shows what the store has: an experiment for a space, a run for a trial of it, and the verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from altered_trials import altered
from mlflow_fixtures import REPORT, client_of, runs_of, told, verdicts_of
from store_fixtures import ADDRESSES, DOCUMENTS, STEPS, course, fill, number, opened, plan, trial

from ablate.store.mirror import mirror
from ablate.store.mlflow_client import MirrorDifference, MlflowRunState, compare_runs
from ablate.store.mlflow_pages import DIGEST
from ablate.store.mlflow_texts import PARAM_LENGTH, TAG_LENGTH, MlflowRun, Page, VariantAnswer
from ablate.store.query import query
from ablate.train.events import Outcome, Row

MIRROR = """
import json, sys
from pathlib import Path
from ablate.store.mirror import mirror
sent = mirror(Path(sys.argv[1]), reports={"small": json.loads(sys.argv[2])})
print(json.dumps([sent.sent, bool(sent), "mlflow" in sys.modules]))
"""
CURVES = {"train_loss", "eval_loss", "eval_bits_per_byte", "max.kurtosis", "max.token_correlation_rms"}
FINALS = {"final_eval_loss", "final_eval_bits_per_byte", "peak_kurtosis", "token_correlation"}


def mirror_apart(folder):
    """Mirror in a process of its own: runs sent, whether there was anything, whether MLflow was imported, its words."""
    command = [sys.executable, "-c", MIRROR, folder, json.dumps(REPORT)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return (*json.loads(told.stdout), told.stderr)


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """A space of six trials, of which one diverged, sent for the first time; and what was said of it."""
    folder = tmp_path_factory.mktemp("results")
    fill(folder)
    return folder, mirror_apart(folder)


@pytest.fixture
def folder(mirrored):
    return mirrored[0]


@pytest.fixture
def client(folder):
    return client_of(folder)


def curve(client, run, name):
    return {point.step: point.value for point in client.get_metric_history(run.info.run_id, name)}


@pytest.mark.full
def test_it_is_silent_and_mlflow_is_not_imported_for_nothing(mirrored):
    folder, first = mirrored
    assert first == (6, True, True, "")
    assert mirror_apart(folder) == (0, False, False, "")
    assert told(folder) == []


def test_a_run_has_what_one_groups_filters_and_compares_by(client):
    runs = runs_of(client)
    names = {f"{name} seed {seed}" for name in ("pre_ln", "half", "op") for seed in (0, 1)}
    assert set(runs) == names - {"op seed 1"} | {"diverged: op seed 1"}
    run = runs["half seed 1"]
    tags = {"variant": "half", "seed": "1", "edits": "+qk_norm", "difference": "+qk_norm", "against": "pre_ln"}
    assert tags.items() <= run.data.tags.items()
    assert {"design": "path", "status": "finished", "ended_step": "40"}.items() <= run.data.tags.items()
    params = {"variant": "half", "seed": "1", "edit.add_qk_norm": "yes", "edit.residual.gain": "no"}
    assert params.items() <= run.data.params.items()
    assert {"recipe.optimizer.adamw.lr": "0.01", "parameters": "1000"}.items() <= run.data.params.items()
    found = client.search_runs(
        [run.info.experiment_id], "params.`edit.add_qk_norm` = 'yes' and tags.seed = '0'", order_by=["tags.`order` ASC"]
    )
    assert [one.info.run_name for one in found] == ["half seed 0", "op seed 0"]


def test_runs_of_a_variant_have_a_colour_of_their_own(client):
    colours = {name: run.data.tags["mlflow.runColor"] for name, run in runs_of(client).items()}
    assert colours["half seed 0"] == colours["half seed 1"]
    assert len(set(colours.values())) == 3


def test_a_run_has_curves_and_final_numbers(folder, client):
    run = runs_of(client)["op seed 0"]
    assert set(run.data.metrics) == CURVES | FINALS | {"seeds_diverged"}
    assert curve(client, run, "train_loss") == {s: number("c30000", s, "train_loss") for s in STEPS}
    assert curve(client, run, "max.kurtosis") == {
        step: max(number("c30000", step, "kurtosis", address) for address in ADDRESSES) for step in STEPS
    }
    statement = (
        "SELECT eval_bits_per_byte, eval_loss, peak_kurtosis, token_correlation FROM final WHERE trial_id = 'c30000'"
    )
    metrics = run.data.metrics
    assert tuple(metrics[name] for name in sorted(FINALS)) == query(folder, statement).rows[0]


def test_a_diverged_trial_is_a_result_that_is_found_at_once_and_in_no_mean(client):
    run = runs_of(client)["diverged: op seed 1"]
    assert (run.data.tags["status"], run.info.status, run.data.tags["ended_step"]) == ("diverged", "FINISHED", "20")
    assert json.loads(run.data.tags["detail"])["address"] == "layers.2.mlp"
    assert run.data.metrics["seeds_diverged"] == 1 and not FINALS & set(run.data.metrics)
    assert set(curve(client, run, "train_loss")) == {0, 10}, "NaN is no point"
    assert "**diverged** at step 20 in `layers.2.mlp`" in run.data.tags["mlflow.note.content"]


def test_a_runs_description_has_the_difference_and_the_block(client):
    note = runs_of(client)["op seed 0"].data.tags["mlflow.note.content"]
    assert "- `residual.gain=0.5`: 1 → 0.5" in note
    difference = note.partition("```diff\n")[2].partition("```")[0].splitlines()
    changed = {(line[0], *line[1:].split()) for line in difference if line[0] in "+-" and "gain" in line}
    assert changed == {("-", "gain:", "1"), ("+", "gain:", "1/sqrt(2*depth)")}
    assert "```yaml\n- residual:" in note
    assert "The baseline" in runs_of(client)["pre_ln seed 0"].data.tags["mlflow.note.content"]


def test_the_experiment_says_what_was_asked_and_what_came_of_it(client):
    tags = client.get_experiment_by_name("small").tags
    note = tags["mlflow.note.content"]
    assert note.startswith(
        "Is it so?\n\nDesign: path, against `pre_ln`. 6 of 6 trials have ended: 5 finished, 1 diverged."
    )
    assert REPORT["verdicts.md"] in note and "| half | `+qk_norm` | 1,000 | 0.0 M | 2 finished |" in note
    assert (tags["design"], tags["trials"]) == ("path", "6 of 6")


def test_the_verdicts_are_files_of_a_run_which_a_later_report_replaces(folder, client):
    first = verdicts_of(client)
    assert {one.path for one in client.list_artifacts(first.info.run_id)} == set(REPORT)
    later = {**REPORT, "verdicts.md": "| later |\n|---|\n"}
    assert mirror(folder, reports={"small": later}).spaces == ("small",)
    assert not mirror(folder, reports={"small": later}) and not mirror(folder)
    (file,) = (folder / "mlruns").rglob("verdicts.md")
    assert verdicts_of(client).info.run_id == first.info.run_id and file.read_text() == later["verdicts.md"]
    assert "| later |" in client.get_experiment_by_name("small").tags["mlflow.note.content"]
    mirror(folder, reports={"small": REPORT})


def test_what_has_gone_or_changed_in_a_space_goes_and_comes_back_in_mlflow(folder, client):
    before = {name: run.info.run_id for name, run in runs_of(client).items()}
    whole = plan()
    with opened(folder) as results:
        results.record_plan(replace(whole, trials=whole.trials[:3], seeds=(0,)), DOCUMENTS)
        results.refresh()
        assert told(folder) == ["repaired: small: 3 runs no longer requested"]
        assert mirror(folder) and {*runs_of(client)} == {"pre_ln seed 0", "half seed 0", "op seed 0"}
        assert "| `+qk_norm` | better |" in client.get_experiment_by_name("small").tags["mlflow.note.content"]
        results.record_plan(whole, DOCUMENTS)
        results.refresh()
        assert mirror(folder).sent == 3
    assert {name: run.info.run_id for name, run in runs_of(client).items()} == before, "the same runs are back"
    assert told(folder) == []


@pytest.mark.full
def test_what_a_person_deletes_stays_deleted_until_the_trial_changes(folder, client):
    client.delete_run(runs_of(client)["half seed 0"].info.run_id)
    (folder / "mlflow.jsonl").unlink()
    assert mirror(folder, reports={"small": REPORT}).sent == 0
    assert "half seed 0" not in runs_of(client) and told(folder) == ["harmless: small: 1 run deleted by hand"]
    with opened(folder) as results:
        results.begin_anew([trial("b2", 0)])
        results.begin(trial("b2", 0))
        results.append("b20000", course("b20000"))
        results.refresh()
    assert told(folder) == ["repaired: small: 1 run missing"]
    assert mirror(folder).sent == 1 and runs_of(client)["half seed 0"].data.tags["ablate.attempt"] == "2"


def test_a_removal_that_was_cut_short_is_finished(folder, client):
    run = runs_of(client)["pre_ln seed 0"]
    copy = client.create_run(run.info.experiment_id, tags={**run.data.tags, "ablate.removed": "yes"})
    client.set_terminated(copy.info.run_id)
    assert len(client.search_runs([run.info.experiment_id])) == 8, "six, one twice, and the verdicts"
    assert mirror(folder, reports={"small": {"verdicts.md": "again"}})
    assert len(client.search_runs([run.info.experiment_id])) == 7
    assert runs_of(client)["pre_ln seed 0"].info.run_id == run.info.run_id and len(runs_of(client)) == 6
    mirror(folder, reports={"small": REPORT})


def test_an_experiment_deleted_by_hand_is_restored_when_something_is_new(folder, client):
    client.delete_experiment(client.get_experiment_by_name("small").experiment_id)
    assert not mirror(folder) and told(folder) == ["harmless: small: the experiment was deleted by hand"]
    assert mirror(folder, reports={"small": {"verdicts.md": "again"}})
    assert len(runs_of(client)) == 6
    mirror(folder, reports={"small": REPORT})


@pytest.mark.full
def test_a_trial_trained_again_replaces_its_run_and_long_texts_fit(folder, client):
    wordy = plan(seeds=(7,), space="wordy")
    edits = tuple(f"edit_{n}" for n in range(300))
    edits = (*edits, "x" * 9000)
    wordy = replace(wordy, variants=(*wordy.variants[:2], replace(wordy.variants[2], edits=edits)))
    many = [Row(step, "train_loss", "", 1.0 + step) for step in range(2500)]
    bits = [Row(step, "eval_bits_per_byte", "", 3.0 - step / 2500) for step in (0, 2500)]
    with opened(folder) as results:
        results.record_plan(replace(wordy, trials=(altered(trial("c3", 7), corpus="x" * 10_000),)), DOCUMENTS)
        for trains in range(2):
            results.begin(trial("c3", 7))
            results.append("c30007", [*many, Row(2500, "eval_loss", "", float(trains)), *bits, Outcome("finished", 40)])
            results.refresh()
            done = mirror(folder)
            assert (done.sent, done.spaces) == (1, ("wordy",))
    (run,) = runs_of(client, "wordy").values()
    assert run.data.metrics["eval_loss"] == 1.0 and run.data.tags["ablate.attempt"] == "2"
    assert len(client.get_metric_history(run.info.run_id, "train_loss")) == 2500
    assert curve(client, run, "eval_bits_per_byte") == {0: 3.0, 2500: 2.0}
    assert run.data.metrics["final_eval_bits_per_byte"] == 2.0
    assert len(run.data.tags["edits"]) == TAG_LENGTH and run.data.tags["edits"].endswith("…")
    assert max(map(len, run.data.params.values())) == PARAM_LENGTH
    assert sum(key.startswith("edit.") for key in run.data.params) == 302


@pytest.mark.parametrize("kind", ["bug", "out_of_memory", "timeout"])
def test_a_trial_without_a_result_is_a_failed_run(folder, client, kind):
    space = plan(seeds=(9,), space=kind)
    one = replace(space.trials[0], id=f"{kind}9")
    with opened(folder) as results:
        results.record_plan(replace(space, trials=(one,)), DOCUMENTS)
        results.begin(one)
        results.append(one.id, [Row(0, "train_loss", "", 1.0), Outcome(kind, 3, {"error": "no"})])
        results.refresh()
    mirror(folder)
    (run,) = runs_of(client, kind).values()
    assert (run.info.run_name, run.info.status) == (f"{kind}: pre_ln seed 9", "FAILED")
    assert "seeds_diverged" not in run.data.metrics


def test_a_run_of_another_folder_stays_even_where_it_is_there_twice():
    run = MlflowRun(
        trial="a1", name="", status="finished", began=0, ended=0, params={}, tags={DIGEST: "same"},
        answer=VariantAnswer(metrics={}, tags={}),
    )  # fmt: skip
    page = Page(
        space="small",
        question="",
        design="",
        profile="",
        baseline="",
        requested=1,
        variants=(),
        keys={},
        runs=(run,),
        judged=(),
    )

    def twice(results: str) -> MirrorDifference:
        runs = (
            MlflowRunState(
                id=id, kind="trial", trial="a1", digest="same", results=results, answer="", answers=frozenset(),
                note="", active=True, running=False, removed=False,
            )
            for id in "12"
        )  # fmt: skip
        return compare_runs(page, runs, "ours")

    assert (twice("theirs").send, twice("theirs").remove) == ((), ())
    assert [run.id for run in twice("ours").remove] == ["2"], "one of our own is too many"
