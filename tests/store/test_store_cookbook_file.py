"""The cookbook's file is read as it is written, and a mistyped name is understood."""

from __future__ import annotations

import pytest
import test_store_cookbook_training
import test_store_cookbook_verdicts
import test_store_plans

from ablate.errors import InputError
from ablate.store.query import cookbook_queries, cookbook_query

pytestmark = pytest.mark.fast

ASKING = (test_store_cookbook_training, test_store_cookbook_verdicts, test_store_plans)


def test_every_query_is_asked():
    asked = {name.removeprefix("test_") for file in ASKING for name in vars(file) if name.startswith("test_")}
    assert len(cookbook_queries()) >= 12
    assert [q.name for q in cookbook_queries() if not any(name.startswith(q.name) for name in asked)] == []


def test_every_query_says_what_it_answers_and_takes_only_what_it_uses():
    for one in cookbook_queries():
        assert one.question.endswith("?") and one.sql.endswith(";")
        assert "-- @" not in one.sql
        for name in one.parameters:
            assert f"${name}" in one.sql


def test_a_mistyped_name_is_understood():
    assert cookbook_query("pareto").name == "pareto"
    with pytest.raises(InputError, match="did you mean 'edit_effects'"):
        cookbook_query("edit_efects")
    with pytest.raises(InputError, match="those that `ablate sql --cookbook` lists"):
        cookbook_query("zzz")
    with pytest.raises(InputError, match="did you mean 'space'"):
        cookbook_query("pareto").given({"spce": "small"})
    with pytest.raises(InputError, match="has no parameter 'x'\n  = its parameters are: none"):
        cookbook_query("same_numbers").given({"x": "1"})


def test_a_query_may_say_what_it_means_that_there_are_no_rows():
    said = {one.name: one.no_rows for one in cookbook_queries() if one.no_rows}
    assert said.keys() >= {"recipe_differences", "mixed_versions"} and not cookbook_query("pareto").no_rows
    assert all(said[name].startswith("all equal: ") for name in ("recipe_differences", "mixed_versions"))
    assert not [one.name for one in cookbook_queries() if "-- no rows" in one.sql]
