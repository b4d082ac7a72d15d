"""What a user sees for each kind of mistake: `<case>/space.yaml` or `<case>/grammar.yaml`, and `<case>/expected.txt`.

A space may open with lines such as `# profile: quick` and `# set: recipe.steps=3`, which stand for the options of the
command line. After a change of wording, and for a new case, `pytest -n 0 --update-goldens tests/errors` writes the
texts anew; read each one as a user would before keeping it.
"""

import re
from pathlib import Path

import pytest
from toy_catalogue import toy_catalogue

from ablate.errors import InputError
from ablate.grammar.grammar import load_grammar
from ablate.plan.build import build_plan
from ablate.plan.models import TokenisedText
from ablate.space.load import load_space
from ablate.space.space import Space

CATALOGUE = toy_catalogue()
FOLDER = Path(__file__).parent
CASES = sorted(path.name for path in FOLDER.iterdir() if path.name.startswith(("space_", "grammar_")))
OPTION = re.compile(r"^# (profile|set): (.*)$", re.MULTILINE)


def read(space: Space) -> TokenisedText:
    """What a treatment with another text would find."""
    return TokenisedText(vocab_size=300, fingerprint="other")


def shown(case: str) -> str:
    """The text of the error that reading or planning a case gives."""
    space = Path(case) / "space.yaml"
    with pytest.raises(InputError) as refused:
        if not space.is_file():
            load_grammar(Path(case) / "grammar.yaml", CATALOGUE)
        options = OPTION.findall(space.read_text(encoding="utf-8"))
        profile = next((value for name, value in options if name == "profile"), None)
        settings = [value for name, value in options if name == "set"]
        found = load_space(space, CATALOGUE, profile=profile, settings=settings)
        build_plan(found, vocab_size=256, corpus="none", read=read)
    return f"{refused.value}\n"


@pytest.mark.parametrize("case", CASES)
def test_text(case: str, monkeypatch: pytest.MonkeyPatch, golden) -> None:
    monkeypatch.chdir(FOLDER)
    golden(FOLDER / case / "expected.txt", shown(case))


@pytest.mark.fast
def test_every_case_has_its_text() -> None:
    cases = {path.parent.name for name in ("space.yaml", "grammar.yaml") for path in FOLDER.glob(f"*/{name}")}
    assert cases == set(CASES)
    assert len(cases) >= 20


@pytest.mark.fast
@pytest.mark.parametrize("case", CASES)
def test_a_text_has_a_place_and_is_no_traceback(case: str) -> None:
    text = (FOLDER / case / "expected.txt").read_text(encoding="utf-8")
    assert text.startswith("error: ")
    assert "Traceback" not in text
    for problem in text.split("\n\n"):
        # What is said on the command line alone, like a profile, has no place in a file.
        assert "--> " in problem or "  = " in problem


@pytest.mark.fast
def test_the_pattern_of_the_cases_is_itself_sound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that each case fails for what it is about."""
    monkeypatch.chdir(FOLDER)
    pattern = (Path("space_unknown_grammar") / "space.yaml").read_text(encoding="utf-8")
    assert load_grammar(Path("grammars/small.yaml"), CATALOGUE).count == 9
    (tmp_path / "space.yaml").write_text(pattern.replace("grammar: smal\n", f"grammar: {FOLDER}/grammars/small.yaml\n"))
    assert build_plan(load_space(tmp_path / "space.yaml", CATALOGUE), vocab_size=256, corpus="none").trials


@pytest.mark.fast
@pytest.mark.parametrize("case", CASES)
def test_no_line_lists_more_names_than_one_reads(case: str) -> None:
    text = (FOLDER / case / "expected.txt").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 200


SAYS_WHAT_IS_ACCEPTED = re.compile(
    r"must (be|hold|have|go|map|list|name|increase)|expected |missing key|(written|given|listed) twice|are the same|"
    r"cannot |may not |takes |needs |at most |is not |are not |has no |have no |includes? |nothing |never |no part |"
    r"no number |leads out|declared twice|already |is declared|unknown |never closed|'..' |must say|reads "
)
"""A message that says itself what may stand there needs no second line."""


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_has_a_way_out_or_says_what_is_accepted(case: str) -> None:
    text = (FOLDER / case / "expected.txt").read_text(encoding="utf-8")
    for problem in text.removesuffix("\n").split("\n\n"):
        way = re.search(r"^ *= .|^ *\| *\^+ .|^ *:::", problem, re.MULTILINE)
        assert way or SAYS_WHAT_IS_ACCEPTED.search(problem.splitlines()[0]), problem


@pytest.mark.fast
@pytest.mark.parametrize("case", CASES)
def test_no_library_speaks_in_a_text(case: str) -> None:
    text = (FOLDER / case / "expected.txt").read_text(encoding="utf-8")
    assert not re.search(r"Value error|Input should|pydantic|\(s\)|validation error", text)
