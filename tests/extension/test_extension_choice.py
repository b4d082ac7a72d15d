"""A choice among the things of a kind: one name, known, with settings that its document takes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from ablate.extension.declaration import SAMPLER, Configured
from ablate.source.document import NO_HINTS
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.documents import Choice, Document, Positive, read_choice

pytestmark = pytest.mark.fast


class Nothing(Document):
    """No settings."""


class Warm(Document):
    """One setting."""

    heat: Positive


class Spec(Configured):
    kind = SAMPLER


KNOWN = {
    name: Spec(name=name, source="this test", summary="", path=Path(), module="", settings=settings)
    for name, settings in (("plain", Nothing), ("warm", Warm))
}


def read(text: str) -> tuple[Choice | None, str]:
    problems = Problems()
    found = read_choice(parse_yaml(text, "space.yaml"), SAMPLER, KNOWN, "search.sampler", problems, NO_HINTS)
    return found, problems.text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", Choice("plain")),
        ("plain: {}", Choice("plain")),
        ("warm: {heat: 2}", Choice("warm", {"heat": 2.0})),
    ],
)
def test_what_is_chosen_is_a_name_with_plain_settings(text, expected):
    assert read(text) == (expected, "")
    assert pickle.loads(pickle.dumps(expected)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plian", "error: unknown sampler 'plian'"),
        ("plian", "did you mean 'plain'?"),
        ("warm: {heat: 0}", "heat"),
        ("warm: {hate: 1}", "hate"),
        ("warm", "missing key 'heat' in search.sampler.warm"),
        ("warm: 3", "search.sampler.warm must be a mapping of its settings"),
        ("{plain: {}, warm: {heat: 1}}", "search.sampler must name one sampler, not plain, warm"),
        ("3", "search.sampler must name one sampler"),
        ("[plain]", "one of: plain, warm"),
    ],
)
def test_what_is_wrong_is_told(text, message):
    found, told = read(text)
    assert found is None and message in told, told


@pytest.mark.parametrize("plain", ["plain", {"warm": {"heat": 2.0}}])
def test_a_document_holds_it_as_it_was_written(plain):
    adapter = TypeAdapter(Choice)
    assert adapter.dump_python(adapter.validate_python(plain)) == plain


def test_a_document_refuses_what_is_no_choice():
    with pytest.raises(ValidationError, match="expected one name with its settings"):
        TypeAdapter(Choice).validate_python({"a": {}, "b": {}})
