"""Verdicts are kept beside the numbers: once, by plan, in SQL, with the trials that they were computed from."""

from __future__ import annotations

import math
from dataclasses import replace

import duckdb
import pytest
from store_fixtures import DOCUMENTS, course, fill, opened, plan

from ablate.plan.plan import Alias, Comparison, Factors, Setting
from ablate.session.judging import verdict_document
from ablate.space.judge import Judge, Judged
from ablate.store import documents, files, projection
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.sealed import name_of
from ablate.store.snapshot import Snapshot, unjudged
from ablate.verdict.judge import judge

RULES = Judge(
    metrics={
        "eval_loss": Judged(margin="1%", scale="linear", better="lower"),
        "peak_kurtosis": Judged(margin="none", scale="log", better="lower"),
    },
    against="pre_ln",
    confidence=0.95,
)


def judged(folder, asked=None):
    """Judge what is there, and keep it."""
    asked = asked or plan()
    with opened(folder) as results:
        results.refresh()
        summary = judge(asked, RULES, results.finals([trial.id for trial in asked.trials]))
        results.record_judgement("small", verdict_document(summary, asked), [])
        results.refresh()
    return summary


@pytest.fixture
def folder(tmp_path):
    """A whole plan of two seeds, of which one trial diverged."""
    fill(tmp_path)
    return tmp_path


def rows(folder, statement):
    """Rows as dictionaries."""
    found = query(folder, statement)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_effects_are_those_of_the_summary(folder):
    summary = judged(folder)
    found = rows(folder, "FROM effects ORDER BY position")
    assert len(found) == len(summary.effects) == 8
    names = {variant.id: variant.name for variant in plan().variants}
    for row, effect in zip(found, summary.effects, strict=True):
        assert (row["kind"], row["change"], row["metric"]) == (effect.kind, effect.change, effect.metric)
        assert (row["before"], row["after"]) == (names[effect.before], names[effect.after])
        told = ("n", "estimate", "low", "high", "p", "p_adjusted", "q", "verdict", "method", "df", "note", "ranked")
        for name in told:
            assert row[name] == getattr(effect, name), name
        ratio = math.exp(effect.estimate) if effect.scale == "log" and effect.estimate is not None else None
        assert row["ratio"] == (None if ratio is None else pytest.approx(ratio, rel=1e-12))
        assert row["seeds"] == 2 and row["confidence"] == 0.95 and row["current"] is True


def test_verdicts_say_how_many_seeds_more(folder):
    summary = judged(folder)
    for row, effect in zip(rows(folder, "FROM verdicts ORDER BY position"), summary.effects, strict=True):
        more = None if effect.seeds_needed is None else effect.seeds_needed - (effect.ranked or effect.n)
        assert row["more_seeds"] == (more if effect.verdict == "undecided" else None)
        assert row["verdict"] == ("equivalent, differs" if effect.differs else effect.verdict)


def test_a_verdict_by_rank_has_its_own_name(folder):
    """Ten seeds, of which one side diverged at nine: SQL says what JSON says."""
    asked = plan(seeds=tuple(range(10)))
    other = asked.comparisons[0].after
    ends = {
        trial.id: {"status": "diverged", "step": 3, "metrics": {}}
        if trial.variant == other and trial.seed
        else {"status": "finished", "step": 9, "metrics": {"eval_loss": 2.3 + 0.01 * trial.seed, "peak_kurtosis": 2.0}}
        for trial in asked.trials
    }
    summary = judge(asked, RULES, ends)
    with opened(folder) as results:
        results.record_judgement("small", verdict_document(summary, asked), [])
        results.refresh()
    edit = f"FROM verdicts WHERE change = '{asked.comparisons[0].change}' AND kind = '{asked.comparisons[0].kind}'"
    for row in rows(folder, edit):
        assert (row["verdict"], row["method"], row["n"], row["ranked"]) == ("worse_by_rank", "worst_rank", 1, 10)
    assert len(rows(folder, edit)) == 2


@pytest.mark.full
def test_noise_is_no_verdict(folder):
    asked = plan()
    noise = Comparison(kind="noise", change="nothing", detail="", before="a1", after="b2")
    judged(folder, replace(asked, comparisons=(*asked.comparisons, noise)))
    assert query(folder, "SELECT DISTINCT verdict FROM effects WHERE kind = 'noise'").rows == ((None,),)
    assert query(folder, "SELECT count(*) FROM verdicts WHERE kind = 'noise'").rows == ((0,),)
    assert query(folder, "SELECT count(*) FROM verdicts").rows == ((8,),)


def test_an_interval_without_end_stays_one(folder):
    with opened(folder) as results:
        results.record_judgement(
            "small", {"space": "small", "seeds": [0], "confidence": 0.95, "metrics": [], "effects": [
                {"kind": "edit", "metric": "eval_loss", "change": "a", "before": "a1", "after": "b2", "n": 1,
                 "estimate": math.nan, "low": -math.inf, "high": math.inf},
            ]}, []
        )  # fmt: skip
        results.refresh()
    ((estimate, low, high, verdict),) = query(folder, "SELECT estimate, low, high, verdict FROM judged").rows
    assert math.isnan(estimate) and (low, high, verdict) == (-math.inf, math.inf, None)


@pytest.mark.full
def test_the_same_twice_is_once_and_the_latest_counts(folder):
    judged(folder)
    (kept,) = Snapshot(folder).judgements
    judged(folder)
    assert Snapshot(folder).judgements == (kept,)
    with opened(folder) as results:
        results.record_judgement("small", {**kept.content["verdicts"], "effects": []}, [])
        results.refresh()
    first, last = Snapshot(folder).judgements
    assert first == kept and last.number == kept.number + 1
    assert query(folder, "SELECT count(*) FROM judged").rows == ((0,),)


@pytest.mark.full
def test_they_have_the_digests_of_the_trials_that_they_were_computed_from(folder):
    """The same verdicts on other rows are another judgement; a trial that has ended anew leaves the space unjudged."""
    judged(folder)
    digests = {trial: end.digest[: files.DIGITS] for trial, end in Snapshot(folder).endings.items()}
    (kept,) = Snapshot(folder).judgements
    assert kept.content["trials"] == digests and len(digests) == 6
    assert unjudged(Snapshot(folder)) == set()
    again = plan().trials[0]
    with opened(folder) as results:
        results.begin_anew([again])
        results.begin(again)
        results.append(again.id, course(again.id)[7:])
        results.refresh()
    assert unjudged(Snapshot(folder)) == {"small"}
    with opened(folder) as results:
        results.record_judgement("small", kept.content["verdicts"], [])
    assert [one.content["trials"] == digests for one in Snapshot(folder).judgements] == [True, False]


def test_a_space_is_unjudged_once_all_its_trials_have_ended(tmp_path):
    """One that is trained again is awaited, though its earlier end is still there."""
    fill(tmp_path)
    assert unjudged(Snapshot(tmp_path)) == {"small"}
    with opened(tmp_path) as results:
        results.begin_anew(plan().trials[:1])
        assert unjudged(Snapshot(tmp_path)) == set()


def test_a_trial_that_verdicts_were_computed_from_is_missed_though_the_witness_is_gone(folder):
    judged(folder)
    (folder / name_of("a10000")).unlink()
    (folder / files.WITNESS).unlink()
    assert Snapshot(folder).lost == {"trials/a10000.parquet": "is gone"}


@pytest.mark.full
def test_they_are_seen_while_a_run_is_writing(folder):
    """Laid over the file, as all that it does not know yet."""
    with opened(folder) as results:
        results.refresh()
        summary = judge(plan(), RULES, results.finals([trial.id for trial in plan().trials]))
        results.record_judgement("small", verdict_document(summary, plan()), [])
        with duckdb.connect(folder / "ablate.duckdb", read_only=True) as connection:
            assert connection.execute("SELECT count(*) FROM judged").fetchone() == (0,)
        assert query(folder, "SELECT count(*) FROM judged").rows == ((8,),)


@pytest.mark.full
def test_a_file_filled_anew_has_them(folder):
    judged(folder)
    before = query(folder, "FROM judged ORDER BY ALL").rows
    (folder / projection.DATABASE).unlink()
    with opened(folder) as results:
        results.refresh()
    assert query(folder, "FROM judged ORDER BY ALL").rows == before


@pytest.mark.full
def test_verdicts_of_a_question_that_was_changed_say_so(folder):
    judged(folder)
    with opened(folder) as results:
        results.record_plan(plan(), replace(DOCUMENTS, resolved={"space": "small", "seeds": [0, 1, 2]}))
        results.refresh()
    assert query(folder, "SELECT DISTINCT current FROM verdicts").rows == ((False,),)
    judged(folder)
    assert query(folder, "SELECT current, count(*) FROM verdicts GROUP BY ALL ORDER BY ALL").rows == (
        (False, 8),
        (True, 8),
    ), "both plans have theirs"


@pytest.mark.full
@pytest.mark.parametrize("content", [None, b"", b"{}"], ids=["gone", "emptied", "changed"])
def test_a_lost_judgement_is_said_by_readers_and_comes_back_from_the_database(folder, content):
    judged(folder)
    assert repair(folder, dry_run=True).findings == ()
    (kept,) = Snapshot(folder).judgements
    path, said = folder / kept.name, []
    whole = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content)
    assert query(folder, "SELECT count(*) FROM judged", say=said.append).rows == ((0,),)
    fault = Snapshot(folder).lost[kept.name]
    assert said == [f"lost: {kept.name} {fault}; `ablate doctor --results {folder}` recovers what it can"]
    done = repair(folder, dry_run=False)
    assert [(found.kind, found.remedy.rpartition("; ")[2]) for found in done.findings] == [
        ("verdicts", "recovered from ablate.duckdb")
    ]
    assert (done.exit_code, done.left, path.read_bytes()) == (0, (), whole)
    assert query(folder, "SELECT count(*) FROM judged").rows == ((8,),)


@pytest.mark.full
def test_doctor_sees_other_numbers_in_the_database(folder):
    judged(folder)
    with duckdb.connect(folder / projection.DATABASE) as connection:
        connection.execute("UPDATE judged SET estimate = estimate + 1 WHERE position = 1")
    (finding,) = repair(folder, dry_run=True).findings
    assert finding.kind == "database" and "differs from the files in judged" in finding.what


def rich_plan():
    """A plan with all that plans can have."""
    asked = plan()
    half, *others = asked.variants[1:]
    setting = Setting(layers=3, steps=17, tuned=(("lr", 0.003),), salt=1)
    factors = Factors(
        edits=("a", "b"),
        runs=(("a1", (-1, -1)), ("b2", (1, 1))),
        effects=(("a",), ("b",), ("a", "b")),
        aliases=(Alias(term=("a",), other=("a", "b"), times=0.5),),
        resolution="III",
        how="so",
    )
    weighted = Comparison(
        kind="interaction",
        change="a × b",
        detail="x",
        before="",
        after="",
        weights=(("a1", -1.0), ("b2", 1.0)),
        terms="t",
    )
    return replace(
        asked,
        variants=(
            asked.variants[0],
            replace(half, setting=setting, terms=("t", "u"), breaks=(("exact_start", "W^Q"),)),
            *others,
        ),
        comparisons=(*asked.comparisons, weighted),
        looks=(2, 4),
        factors=(("t", factors),),
        open=True,
    )


@pytest.mark.parametrize("asked", [plan(), rich_plan()], ids=["plain", "rich"])
def test_a_plan_comes_back_from_the_database_as_it_was(tmp_path, asked):
    with opened(tmp_path) as results:
        results.record_plan(asked, DOCUMENTS)
        results.refresh()
    kept = Snapshot(tmp_path).plans.current("small")
    whole = (tmp_path / kept.file).read_bytes()
    (tmp_path / kept.file).unlink()
    assert repair(tmp_path, dry_run=False).exit_code == 0
    assert (tmp_path / kept.file).read_bytes() == whole and Snapshot(tmp_path).plans.current("small") == kept


def test_a_plan_without_the_new_is_written_as_before():
    """So that what was kept by an earlier version is proven by its digest still."""
    told = documents.plan_document(plan(), DOCUMENTS)
    assert not {"looks", "factors"} & set(told)
    assert all(set(one) == {"kind", "change", "detail", "before", "after"} for one in told["comparisons"])
    assert all(not {"terms", "setting", "breaks"} & set(one) for one in told["variants"])
    assert [one.get("spared") for one in told["variants"]] == [None, None, 200]


def test_the_tables_say_what_a_rich_plan_says(tmp_path):
    with opened(tmp_path) as results:
        results.record_plan(rich_plan(), DOCUMENTS)
        results.refresh()
    ((looks, open_),) = query(tmp_path, "SELECT looks, open FROM spaces").rows
    assert looks == [2, 4] and open_
    ((terms, salt, steps),) = query(
        tmp_path, "SELECT terms, setting ->> '$.salt', setting ->> '$.steps' FROM variants WHERE variant = 'half'"
    ).rows
    assert (terms, salt, steps) == (["t", "u"], "1", "17")
    ((before, weights),) = query(tmp_path, "SELECT before_id, weights FROM comparisons WHERE terms = 't'").rows
    assert before == "" and weights == '[["a1",-1.0],["b2",1.0]]'
    assert query(tmp_path, "SELECT count(*) FROM edits").rows == ((2,),), "what is weighed up is no edit"
    assert query(tmp_path, "SELECT count(*) FROM edit_pairs").rows == ((4,),)
