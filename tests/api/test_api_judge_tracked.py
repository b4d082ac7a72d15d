"""Runs of trackers are judged where they are: an MLflow experiment, an Optuna study."""

import math
import sqlite3
from contextlib import closing

import optuna
import pytest
from mlflow.tracking import MlflowClient
from mlflow_fixtures import tracking_server

import ablate

LOSSES = {"a": [2.51, 2.60, 2.70, 2.64], "b": [2.41, 2.52, 2.63, 2.55]}


@pytest.fixture(scope="module", params=["database", "server"])
def experiment(tmp_path_factory, request):
    """An experiment, in which a run still runs, one has failed, and one has ended without its loss."""
    folder = tmp_path_factory.mktemp("mlflow")
    if request.param == "database":
        yield written_to(f"sqlite:///{folder}/mlflow.db")
    else:
        with tracking_server(folder) as uri:
            yield written_to(uri)


def written_to(uri):
    client = MlflowClient(tracking_uri=uri)
    id = client.create_experiment("mine")
    for model, losses in LOSSES.items():
        for seed, loss in enumerate(losses):
            run = client.create_run(id, run_name=f"{model}-{seed}").info.run_id
            for key, value in {"model": model, "seed": str(seed), "lr": "0.001"}.items():
                client.log_param(run, key, value)
            for step in range(3):
                client.log_metric(run, "loss", loss + 2 - step, step=step)
            client.log_metric(run, "lr", 1e-3)
            client.set_terminated(run)
    for seed, state in ((7, None), (8, "FAILED"), (9, "FINISHED")):
        run = client.create_run(id, run_name=f"late-{seed}").info.run_id
        client.log_param(run, "model", "b")
        client.log_param(run, "seed", str(seed))
        if seed < 9:
            client.log_metric(run, "loss", 5.0)
        if state is not None:
            client.set_terminated(run, status=state)
    return uri


def refused(name, **asked):
    with pytest.raises(ablate.InputError) as error:
        ablate.judge(name, **{"metrics": "loss", **asked})
    return str(error.value)


def numbers(judged):
    (effect,) = judged.summary.effects
    return effect.n, effect.estimate, effect.low, effect.high, effect.verdict


@pytest.mark.full
def test_runs_of_mlflow_are_judged_by_their_last_metrics_and_states(experiment):
    judged = ablate.judge("mlflow:mine", uri=experiment, by="model", metrics="loss")
    rows = [{"model": m, "seed": s, "loss": x} for m, losses in LOSSES.items() for s, x in enumerate(losses)]
    assert numbers(judged) == pytest.approx(numbers(ablate.judge(rows, by="model", baseline="a", metrics="loss")))
    said = " ".join(judged.summary.notes)
    assert "b at seed 7 (status is RUNNING)" in said and "b at seed 8 (status is FAILED)" in said
    assert "b at seed 9 (no loss)" in said


@pytest.mark.full
def test_a_name_that_is_parameter_and_metric_says_which(experiment):
    assert "no column 'lr'" in refused("mlflow:mine", uri=experiment, by="model", metrics="lr")
    judged = ablate.judge("mlflow:mine", uri=experiment, by="model", metrics="metrics.lr")
    assert judged.summary.arms[0].levels["metrics.lr"].mean == 1e-3


@pytest.mark.full
def test_an_experiment_that_is_not_there_is_told_with_those_that_are(experiment):
    assert "has no experiment 'min'\n  = it has mine, Default" in refused("mlflow:min", uri=experiment)
    assert "there is no database nowhere.db" in refused("mlflow:mine", uri="sqlite:///nowhere.db")
    assert "'mlflow.db' is not an MLflow tracking URI" in refused("mlflow:mine", uri="mlflow.db")
    assert "where is it?\n  = --uri is a server" in refused("mlflow:mine")
    assert "--uri is where a tracker is" in refused("runs.csv", uri=experiment)
    assert "--sql queries the table of a file" in refused("mlflow:mine", uri=experiment, sql="FROM rows")


@pytest.mark.full
def test_a_server_that_is_down_is_told_within_seconds():
    with pytest.raises(ablate.RefusedError) as error:
        ablate.judge("mlflow:mine", uri="http://me:secret@127.0.0.1:9", metrics="loss")
    assert "http://127.0.0.1:9" in str(error.value) and "secret" not in str(error.value)


@pytest.mark.full
def test_a_study_of_optuna_is_judged_by_its_values_and_states(tmp_path):
    uri = f"sqlite:///{tmp_path}/optuna.db"
    study = optuna.create_study(storage=uri, study_name="search")
    for model, losses in LOSSES.items():
        for seed, loss in enumerate(losses):
            study.enqueue_trial({"model": model, "seed": seed})
            trial = study.ask({
                "model": optuna.distributions.CategoricalDistribution(list(LOSSES)),
                "seed": optuna.distributions.IntDistribution(0, 9),
            })  # fmt: skip
            study.tell(trial, loss)
    study.enqueue_trial({"model": "b", "seed": 9})
    study.ask({
        "model": optuna.distributions.CategoricalDistribution(list(LOSSES)),
        "seed": optuna.distributions.IntDistribution(0, 9),
    })  # fmt: skip
    judged = ablate.judge("optuna:search", uri=uri, by="model", metrics="value")
    assert numbers(judged)[0] == 4 and numbers(judged)[4] == "better"
    assert any("b at seed 9 (state is RUNNING)" in note for note in judged.summary.notes)
    assert "has no study 'serch'\n  = it has search" in refused("optuna:serch", uri=uri)
    assert "there is no database" in refused("optuna:search", uri=f"sqlite:///{tmp_path}/nowhere/optuna.db")
    assert "cannot be read" in refused("optuna:search", uri="nonsense")
    assert "cannot be read" in refused("optuna:search", uri="nosuchdatabase://me@host/x")


@pytest.mark.full
@pytest.mark.parametrize(("name", "whose"), [("mlflow:mine", "MLflow"), ("optuna:mine", "Optuna")])
def test_a_database_of_others_is_not_written_to(tmp_path, name, whose):
    path = tmp_path / "mine.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE runs_of_mine (loss REAL)")
        database.commit()
    before = path.read_bytes()
    assert f"is no database of {whose}" in refused(name, uri=f"sqlite:///{path}")
    (tmp_path / "text.db").write_text("not a database, but a text that is long enough to be looked at")
    assert "is not a database" in refused(name, uri=f"sqlite:///{tmp_path}/text.db")
    assert path.read_bytes() == before


@pytest.mark.full
def test_a_metric_that_is_nan_has_diverged_and_one_that_is_not_logged_is_missing(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    id = client.create_experiment("wild")
    for model in LOSSES:
        for seed in range(3):
            run = client.create_run(id).info.run_id
            client.log_param(run, "variant", model)
            client.log_param(run, "seed", str(seed))
            client.log_metric(run, "loss", math.nan if (model, seed) == ("b", 2) else 2.0 + 0.1 * seed)
            client.set_terminated(run)
    arms = {arm.name: arm for arm in ablate.judge("mlflow:wild", uri=uri, metrics="loss").summary.arms}
    assert (arms["a"].diverged, arms["b"].diverged) == (0, 1)
