"""Judged tables that a results folder keeps: their account, rows in SQL and page, and how they are verified."""

import json
import warnings
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas
import pytest

import ablate
from ablate.errors import AblateWarning
from ablate.session.reporting import export_figures, report_run
from ablate.session.table_judging import space_name
from ablate.store import files, mirror
from ablate.store.repair import repair
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot

NOISE = np.random.default_rng(7).normal(size=(4, 40))


def rows(seeds=5, of=("a", "b", "c"), gap=2.0, **more):
    return [
        {"variant": name, "seed": seed, "loss": 10 + gap * place + 0.1 * float(NOISE[place, seed]), **more}
        for place, name in enumerate(of)
        for seed in range(seeds)
    ]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def kept(table, folder, **asked):
    return ablate.judge(table, **{"metrics": "loss", "space": "mine", "results": folder, **asked})


def told(folder, check):
    return [(each.answer, each.what) for each in ablate.verify(folder).checks if each.check == check]


def levels(judged):
    return {effect.change: effect.level for effect in judged.summary.effects}


# Kept


def test_nothing_is_kept_without_a_name(folder):
    judged = ablate.judge(rows(), metrics="loss", results=folder)
    assert judged.space == "" and not folder.exists()
    assert any("no record is kept" in note for note in judged.summary.notes)


def test_rows_verdicts_and_accounts_stand_in_sql(folder):
    judged = kept([*rows(), {"variant": "c", "seed": 9, "loss": float("nan")}], folder)
    assert judged.space == "mine" and not any("no record is kept" in note for note in judged.summary.notes)
    verdicts = ablate.query("SELECT change, verdict, estimate FROM verdicts WHERE space = 'mine'", results=folder)
    assert verdicts.to_dict("list") == judged.verdicts[["change", "verdict", "estimate"]].sort_values("change").to_dict(
        "list"
    )
    runs = ablate.query("SELECT variant, run, status, metric, value FROM judged_runs ORDER BY ALL", results=folder)
    assert len(runs) == 16 and runs.iloc[0].to_list() == ["a", "0", "finished", "loss", rows()[0]["loss"]]
    assert runs[runs.status == "diverged"][["variant", "run"]].to_numpy().tolist() == [["c", "9"]]
    (space,) = ablate.query("FROM spaces", results=folder).to_dict("records")
    assert (space["trials"], space["variants"], space["baseline"]) == (16, 3, "a")
    assert json.loads(space["resolved"])["question"]["metrics"] == ["loss"]
    effects = ablate.query("SELECT before, after FROM effects ORDER BY after", results=folder)
    assert effects.to_numpy().tolist() == [["a", "b"], ["a", "c"]]


def test_seeds_that_are_names_are_kept(folder):
    named = [{**row, "seed": f"task {row['seed']}"} for row in rows()]
    kept(named, folder)
    assert ablate.query("SELECT DISTINCT run FROM judged_runs", results=folder).size == 5
    assert ablate.query("SELECT seeds FROM questions", results=folder).seeds.isna().all()
    assert not ablate.verify(folder).wrong


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("runs.csv", "runs"),
        ("a/speed run.v2.parquet", "speed_run_v2"),
        ("logs/", "logs"),
        ("mlflow:my experiment", "my_experiment"),
        ("optuna:search", "search"),
        ("run-1.5", "run-1_5"),
        ("…", "table"),
    ],
)
def test_a_table_has_the_name_of_its_file(given, name):
    assert space_name(given) == name


def test_a_trained_space_keeps_its_name(folder):
    (folder / "plans").mkdir(parents=True)
    with Results(folder, say=lambda said: None):
        document = {"space": "mine", "variants": [], "comparisons": [], "trials": [], "definitions": []}
        content = {"plan": "0", "first_seen": 0.0, "document": document}
        files.keep(folder, "plans", content | {"specifications": {"values": {}, "trials": {"trial": []}}}, 1, stem="0")
    with pytest.raises(ablate.InputError, match="mine is a space that was trained"):
        kept(rows(), folder)


def test_a_table_of_too_many_cells_is_judged_and_not_kept(folder, monkeypatch):
    monkeypatch.setattr("ablate.session.table_judging.MOST_CELLS", 44)
    with pytest.warns(AblateWarning, match="not kept: the table has 45 cells, and at most 44 are kept"):
        judged = kept(rows(), folder)
    assert judged.space == "" and not folder.exists()
    assert levels(judged) == {"b": pytest.approx(0.04), "c": pytest.approx(0.04)}


# Its account


def test_the_same_numbers_again_are_the_same_judgement(folder):
    first, again = kept(rows(), folder), kept(rows(), folder)
    assert levels(first) == levels(again) == {"b": pytest.approx(0.04), "c": pytest.approx(0.04)}
    assert [e.verdict for e in again.summary.effects] == [e.verdict for e in first.summary.effects]
    assert len(Snapshot(folder).judgements) == 1 and len(Snapshot(folder).tables["mine"]) == 1


def test_the_table_that_was_judged_last_is_the_current_one(folder):
    for asked in ({}, {"unpaired": True}, {}):
        kept(rows(), folder, **asked)
        kept(rows(gap=1.0), folder, space="beside")
    now = Snapshot(folder).tables
    assert now["mine"][-1].document["question"]["unpaired"] is False and len(now["mine"]) == 2
    assert ablate.query("SELECT count(*) AS n FROM spaces", results=folder).n.to_list() == [2]
    before = files.names(folder, "tables")
    kept(rows(gap=1.0), folder, space="beside")
    kept(rows(), folder)
    assert files.names(folder, "tables") == before and len(before) == 4  # nothing is written for what is current


def test_more_seeds_are_a_later_judgement_and_findings_stand(folder):
    kept(rows(gap=0.5), folder)
    later = kept(rows(seeds=9, gap=0.5), folder)
    notes = " ".join(later.summary.notes)
    assert "judged a second time, at 0.8 %" in notes
    assert {effect.n for effect in later.summary.effects} == {5}  # found then
    fresh = ablate.judge(rows(seeds=9, gap=0.5), metrics="loss", results=folder, space="other")
    assert levels(fresh)["b"] == pytest.approx(0.04)
    accounts = ablate.query("SELECT state, level FROM accounts WHERE space = 'mine' ORDER BY level", results=folder)
    assert accounts.state.to_list() == ["again", "again", "new", "new"]
    assert accounts.level.to_list() == pytest.approx([0.008, 0.008, 0.04, 0.04])


def test_what_was_not_found_is_asked_again_at_less(folder):
    none = [{**row, "loss": 10 + float(NOISE[ord(row["variant"]) - 97, row["seed"]])} for row in rows()]
    more = [{**row, "loss": 10 + float(NOISE[ord(row["variant"]) - 97, row["seed"]])} for row in rows(seeds=20)]
    kept(none, folder)
    assert levels(kept(more, folder)) == {"b": pytest.approx(0.008), "c": pytest.approx(0.008)}


@pytest.mark.parametrize("other", [{"unpaired": True}, {"ranks": True}, {"sd": 0.1}, {"floor": "a"}])
def test_another_method_on_the_same_runs_is_another_judgement_of_them(folder, other):
    kept(rows(gap=0), folder)
    assert list(levels(kept(rows(gap=0), folder, **other)).values()) == pytest.approx([0.008, 0.008])


def test_a_variant_that_is_added_is_new_beside_those_that_are_settled(folder):
    kept(rows(of=("a", "b")), folder)
    more = kept(rows(), folder)
    assert any("1 of 2 is new" in note for note in more.summary.notes)
    accounts = ablate.query("SELECT state FROM accounts ORDER BY number, state", results=folder).state.to_list()
    assert sorted(accounts) == ["new", "new", "settled"]


# Read again

LOG = [{**row, "step": step, "loss": row["loss"] + 3 - step} for row in rows() for step in (1, 2, 3)]
FORMS = {
    "paired": (rows(), {}),
    "two samples": ([{k: v for k, v in row.items() if k != "seed"} for row in rows()], {"unpaired": True}),
    "ranks": (rows(seeds=8), {"ranks": True}),
    "floor": ([*rows(), {"variant": "d", "seed": 0, "loss": 9.0}], {"floor": "a"}),
    "sd": (rows(seeds=1), {"sd": 0.3}),
    "log of steps": (LOG, {"at": "mean:2"}),
    "named steps": ([{**row, "batches": row.pop("step")} for row in map(dict, LOG)], {"at": "best", "step": "batches"}),
    "replicates": (rows() + rows(seeds=2), {}),
    "states": ([{**row, "State": "crashed" if row["seed"] == 4 else "finished"} for row in rows()], {}),
    "diverged states": (
        [{**row, "State": "crashed" if row["seed"] == 4 else "finished"} for row in rows()],
        {"diverged": "State=crashed"},
    ),
    "diverged": ([{**row, "lost": row["seed"] == 3 and row["variant"] == "b"} for row in rows()], {"diverged": "lost"}),
    "strata": (
        [{**row, "game": game, "loss": scale * row["loss"]} for game, scale in (("x", 1), ("y", 50)) for row in rows()],
        {"within": "game", "inference": "these"},
    ),
    "strata alike": (
        [{**row, "game": f"{game}"} for game in range(4) for row in rows()],
        {"within": "game", "inference": "alike"},
    ),
    "groups": (rows(), {"groups": True}),
    "path": (rows(), {"path": True}),
    "names taken apart": (
        [{"run": f"{r['variant']}-s{r['seed']}", "loss": r["loss"]} for r in rows()],
        {"name": "{variant}-s{seed:d}"},
    ),
    "long": (
        [{"variant": r["variant"], "seed": r["seed"], "m": "loss", "v": r["loss"]} for r in rows()],
        {"long": "m,v"},
    ),
    "other columns": ([{**row, "notes": "é\"'", "lr": Decimal("0.1"), "day": date(2026, 1, 2)} for row in rows()], {}),
    "decimals": ([{**row, "loss": Decimal(str(row["loss"]))} for row in rows()], {}),
    "days as seeds": ([{**row, "seed": date(2026, 1, 1 + row["seed"])} for row in rows()], {}),
    "pandas": (pandas.DataFrame(rows()).assign(lost=lambda t: t.seed == 4), {"diverged": "lost"}),
    "ratios": (rows(), {"metrics": ["loss:log:margin=5%"], "confidence": 0.9, "family": "page"}),
    "missing cells": ([*rows(), {"variant": "c", "seed": 11, "loss": None}], {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_kept_table_is_read_and_judged_again_as_it_was(folder, form):
    table, asked = FORMS[form]
    judged = kept(table, folder, **asked)
    assert not ablate.verify(folder).wrong
    assert [answer for answer, _ in (*told(folder, "trials"), *told(folder, "verdicts"))] == ["right", "right"]
    alone = ablate.judge(table, **{"metrics": "loss", **asked})
    numbers = [(e.change, e.n, e.estimate, e.low, e.high, e.verdict) for e in alone.summary.effects]
    assert [(e.change, e.n, e.estimate, e.low, e.high, e.verdict) for e in judged.summary.effects] == numbers


def test_the_page_is_written_from_the_folder_alone(folder, tmp_path):
    path = tmp_path / "runs.csv"
    pandas.DataFrame(rows()).to_csv(path, index=False)
    judged = kept(path, folder, metrics=["loss:margin=1%"], groups=True)
    path.unlink()
    page = report_run("mine", results=folder)
    assert page.html == folder / "pages" / "mine.html" and page.summary is not None
    assert page.markdown.read_text() == judged.markdown
    assert page.summary.effects == judged.summary.effects


def test_the_largest_difference_stands_first(folder):
    judged = kept(rows(), folder)
    assert [effect.change for effect in judged.summary.effects] == ["c", "b"]
    assert [arm.name for arm in judged.summary.arms] == ["a", "c", "b"]
    steps = ablate.judge(rows(), metrics="loss", path=True)
    assert [arm.name for arm in steps.summary.arms] == ["a", "b", "c"]


# Verified


def test_a_file_that_has_changed_is_told(folder, tmp_path):
    path = tmp_path / "runs.csv"
    pandas.DataFrame(rows()).to_csv(path, index=False)
    kept(path, folder)
    assert told(folder, "files") == [("right", f"{path} is as it was when it was judged")]
    path.write_text(path.read_text() + "\n")
    assert told(folder, "files") == [("told", f"{path} has changed since it was judged")]


def test_cells_that_were_changed_are_found(folder):
    kept(rows(), folder)
    (table,) = Snapshot(folder).tables["mine"]
    path = folder / files.SOURCES / table.document["rows"]
    path.write_bytes(path.read_bytes().replace(b'["a","0"', b'["a","8"'))
    assert {check.check for check in ablate.verify(folder).wrong} >= {"seals", "files"}


@pytest.mark.parametrize("part", ["runs", "verdicts"])
def test_lies_that_were_sealed_anew_are_found(folder, part):
    kept(rows(), folder)
    with Results(folder, say=lambda said: None):
        if part == "runs":
            (table,) = Snapshot(folder).tables["mine"]
            document = {**table.document, "runs": [[v, s, st, {"loss": 1.0}] for v, s, st, _ in table.document["runs"]]}
            files.keep(folder, "tables", {"table": table.id, "first_seen": 0.0, "document": document}, 2)
        else:
            (judgement,) = Snapshot(folder).judgements
            effects = [{**effect, "verdict": "equivalent"} for effect in judgement.content["verdicts"]["effects"]]
            content = {**judgement.content, "verdicts": {**judgement.content["verdicts"], "effects": effects}}
            files.keep(folder, "verdicts", {k: v for k, v in content.items() if k not in ("format", "number")}, 2)
    (wrong,) = [check for check in ablate.verify(folder).wrong if check.space == "mine"]
    assert wrong.check == {"runs": "trials", "verdicts": "verdicts"}[part]


@pytest.mark.parametrize("lost", ["tables", "sources", "verdicts"])
def test_what_is_lost_of_a_table_is_recovered_from_the_database(folder, lost):
    kept(rows(), folder)
    (path,) = (folder / lost).iterdir()
    before = path.read_bytes()
    path.unlink()
    assert ablate.verify(folder).wrong
    repaired = repair(folder, dry_run=False, say=lambda said: None, mirror=mirror.examine)
    assert path.read_bytes() == before and repaired.exit_code == 0, repaired
    assert not ablate.verify(folder).wrong


def test_a_page_of_lost_cells_is_refused(folder):
    kept(rows(), folder)
    (path,) = (folder / "sources").iterdir()
    path.unlink()
    with pytest.raises(ablate.RefusedError, match="it had the cells of mine"):
        report_run("mine", results=folder)


def test_secrets_of_a_server_are_not_kept(folder, monkeypatch):
    from ablate.session import table_judging
    from ablate.store.foreign_tables import table_of

    monkeypatch.setattr(table_judging, "read_tracked", lambda name, uri: table_of(rows()))
    kept("mlflow:mine", folder, uri="https://me:hunter2@host/x?token=abc")
    everything = b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())
    assert b"hunter2" not in everything and b"token=abc" not in everything and b"https://host/x" in everything


def test_the_sentence_on_methods_says_of_runs_what_is_known(folder, tmp_path):
    kept(rows(), folder)
    export_figures(report_run("mine", results=folder), tmp_path / "figures")
    said = (tmp_path / "figures" / "captions.md").read_text()
    assert "Each variant has 5 runs, which were trained elsewhere; differences are paired by seed and" in said
    assert "batches" not in said
    kept(rows(), folder, unpaired=True, space="samples")
    export_figures(report_run("samples", results=folder), tmp_path / "figures")
    assert "runs are not paired and tested by Welch's t" in (tmp_path / "figures" / "captions.md").read_text()


def test_a_finding_that_stands_is_told_to_be_undecided_now(folder):
    kept(rows(gap=0.07, of=("a", "b")), folder, confidence=0.6)
    more = kept(rows(seeds=6, gap=0.07, of=("a", "b")), folder, confidence=0.6)
    (effect,) = more.summary.effects
    assert effect.verdict == "worse" and "unadjusted, by itself undecided at its level" in effect.note, effect


def test_the_same_runs_under_another_name_are_told(folder):
    kept(rows(), folder)
    with pytest.warns(AblateWarning, match="15 of 24 runs are those of the table mine: how often they were judged"):
        kept([*rows(), *rows(seeds=3, gap=1.5, of=("d", "e", "f"))], folder, space="other")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept(rows(gap=3.0), folder, space="third")


def test_rows_of_a_long_query_are_kept_under_a_name(folder):
    kept(rows(), folder)
    sql = f"SELECT variant, run AS seed, value AS loss FROM judged_runs WHERE space = 'mine' -- {'long ' * 100}"
    judged = ablate.judge(sql, metrics="loss", results=folder, space="again")
    assert judged.space == "again" and len(judged.summary.effects) == 2
    assert not ablate.verify(folder).wrong


def test_a_folder_that_a_run_writes_is_refused_with_a_way_to_judge_without_it(folder):
    with Results(folder, say=lambda said: None), pytest.raises(ablate.RefusedError) as error:
        kept(rows(), folder)
    assert "= or judge it and keep nothing: --no-keep" in str(error.value)
    assert kept(rows(), folder).space == "mine"
