"""Claims that a space makes before it is run, beside what was seen: on the screen, the page and in JSON."""

import json

import pytest
from report_fixtures import LOSS, finals, losses, path
from report_fixtures import rules as plain_rules

from ablate.report import claims
from ablate.report.answers import sentences
from ablate.report.document import plain
from ablate.report.effect_tables import to_markdown
from ablate.report.json_form import to_json
from ablate.space.judge import Expected
from ablate.verdict.judge import judge

pytestmark = pytest.mark.fast


def claim(of, *verdicts, text="it is as the paper says"):
    return Expected(claim=text, of=of, metric="eval_loss", verdict=verdicts)


def summary_of(*claims, ended=True):
    """A path of two edits: the first does a lot, the second lowers the loss by less than its noise."""
    plan = path("much", "little", seeds=5)
    ends = {
        "pre_ln": losses(3.00, 3.10, 3.20, 3.05, 3.15),
        plan.variants[1].name: losses(2.00, 2.11, 2.19, 2.06, 2.15),
        plan.variants[2].name: losses(1.90, 2.30, 2.10, 2.20, 1.95) if ended else [None] * 5,
    }
    rules = plain_rules(eval_loss=LOSS).model_copy(update={"expect": claims})
    return judge(plan, rules, finals({v.id: ends[v.name] for v in plan.variants}))


def outcomes(summary):
    return [expectation.outcome for expectation in summary.expectations]


def test_a_claim_holds_if_the_verdict_is_one_that_it_foresees():
    summary = summary_of(
        claim("much", "better"), claim("much", "worse", "equivalent"), claim("much", "worse", "better")
    )
    assert outcomes(summary) == ["as expected", "not as expected", "as expected"]
    assert {expectation.effect.change for expectation in summary.expectations} == {"much"}


def test_what_is_not_decided_confirms_and_contradicts_nothing():
    assert outcomes(summary_of(claim("little", "better"), claim("little", "worse"))) == ["undecided"] * 2
    assert outcomes(summary_of(claim("much", "better"), ended=False)) == ["undecided"], "before there are verdicts"


def test_it_is_a_sentence_a_row_of_every_table_and_an_entry_in_json():
    summary = summary_of(claim("much", "worse", text="Fig. 1: it hurts"))
    told = [plain(statement.words) for statement in sentences(summary)]
    (sentence,) = (line for line in told if line.startswith("claim: "))
    assert sentence.startswith("claim: Fig. 1: it hurts; expected worse on eval loss, much; not as expected: better, -")
    assert sentence.endswith("n = 5")
    assert "| Fig. 1: it hurts | worse on eval loss, much | better, " in to_markdown(summary, {})
    (entry,) = json.loads(to_json(summary))["expectations"]
    assert (entry["outcome"], entry["effect"]["verdict"]) == ("not as expected", "better")


def test_a_space_without_claims_says_nothing_of_them():
    summary = summary_of()
    assert claims.claims_table(summary) is None and not list(claims.statements(summary))
    assert "expectations" not in json.loads(to_json(summary))
    assert "Expected and seen" not in to_markdown(summary, {})
