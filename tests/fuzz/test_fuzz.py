"""Whatever is written in a file or typed as an option is answered or refused in words, at a place, and soon.

Case k is a function of the seed, k and the texts that are mutated (`fuzz_cases.case`). 1,000 run here; 100,000 with
`-m fuzz`, in chunks. Most are of small files, at some milliseconds; one in twenty is of a shipped grammar or space.
A case that failed once is kept in `finds/`, as small as it could be made, and run for ever.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fuzz_cases import Case, case
from fuzz_driver import kept, run_cases, run_numbers
from fuzz_seeds import SMALL, right, write_texts

from ablate import api

IN_CI = 500
ALL, CHUNK = 100_000, 2_500
FINDS = Path(__file__).parent / "finds"


def said(found):
    return "\n\n".join(map(str, found[:10]))


@pytest.mark.full
def test_mutated_files_and_options():
    found = run_numbers(0, IN_CI)
    assert not found, said(found)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(IN_CI, ALL, CHUNK))
def test_many_mutated_files_and_options(first):
    found = run_numbers(first, min(CHUNK, ALL - first))
    assert not found, said(found)


@pytest.mark.full
def test_what_was_found_once():
    cases = dict(kept(FINDS))
    assert cases
    found = run_cases(list(cases.values()))
    assert not found, said(found)


def test_a_case_is_a_function_of_its_number():
    assert [case(k) for k in range(50)] == [case(k) for k in range(50)]
    assert len({case(k).line() for k in range(200)}) > 190
    assert case(3) != case(3, seed=6)
    targets = {case(k).target for k in range(1_000)}
    assert targets == {"check", "set", "profile", "seconds", "show", "diff", "sql", "options"}


@pytest.mark.sampled(0, gate=3)
@pytest.mark.parametrize(
    ("breaking", "why"),
    [
        ("lambda case: {}[1]", "KeyError"),
        ("lambda case: print('\\x1b[2J')", "shown to a terminal"),
        ("lambda case: (_ for _ in ()).throw(AblateError('error: x\\n --> spaces/a.yaml:99:1'))", "a place"),
        ("lambda case: (lambda again: again(again))(lambda again: again(again))", "RecursionError"),
        ("lambda case: __import__('warnings').warn('odd')", "UserWarning"),
        ("lambda case: __import__('os')._exit(3)", "ended with 3"),
        ("lambda case: [None] * 10**12", "MemoryError"),
    ],
)
def test_the_fuzzer_finds_what_it_looks_for(breaking, why, tmp_path):
    """The twin: with a target that is broken on purpose, the case is found."""
    found = _broken(breaking, tmp_path)
    assert len(found) == 1 and found[0].case == Case("seconds", ("1s",)) and why in found[0].why


@pytest.mark.slow
def test_the_fuzzer_finds_a_hang_in_an_extension(tmp_path):
    found = _broken("lambda case: __import__('re').match('(a|a)*b', 'a' * 60)", tmp_path)
    assert len(found) == 1 and "ended with -27" in found[0].why and "in match" in found[0].why


def _broken(breaking, tmp_path):
    script = tmp_path / "broken_worker.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(FINDS.parent)!r})\nimport fuzz_worker, fuzz_targets\n"
        "from ablate.errors import AblateError\n"
        f"fuzz_targets.TARGETS['seconds'] = {breaking}\nfuzz_worker.main(*sys.argv[1:])\n"
    )
    return run_cases([Case("diff", ("pre_ln", "op")), Case("seconds", ("1s",)), Case("diff", ("op", "op"))], script)


def test_what_is_mutated_is_right_to_begin_with(tmp_path):
    """So that mutations reach what lies behind the first mistake."""
    (tmp_path / "grammars").mkdir()
    write_texts(tmp_path / "spaces")
    shutil.copyfile(SMALL, tmp_path / "grammars" / "small.yaml")
    for one in right():
        path = tmp_path / f"{one.kind}s" / one.name
        path.write_text(one.text)
        if one.kind == "space":
            assert api.check(api.load_space(path)).trials or "search" in one.name
            api.check_profiles(api.load_space(path))
        else:
            assert api.load_grammar(path).count > 1
