"""What is done with a case, as the command line does it, and what may come of it: an answer, or an AblateError.

Of the text of an error it is asked that it can be shown on a terminal, that each place it names is there, and that
what is wrong in a file has a place.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz_cases import Case
from fuzz_seeds import SHIPPED, SMALL, write_texts

from ablate import api
from ablate.cli import app
from ablate.cli.console import console
from ablate.cli.queries import check, sql
from ablate.errors import AblateError, AblateWarning
from ablate.report.screens import check as check_screen
from ablate.report.screens.plan import plan_screen
from ablate.report.terminal_renderer import Screen

PLACE = re.compile(r"^ *(?:-->|:::) (.*):(\d+):(\d+)$", re.MULTILINE)
UNSHOWN = ("Cc", "Cs", "Zl", "Zp")
TURNING = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
BREAK = re.compile(r"\r\n|\r|\n")


class Failed(Exception):
    """A case came to something that it may not come to."""


def world(folder: Path) -> None:
    """A folder with grammars, a results folder with two trials, and the current directory."""
    from store_fixtures import fill

    shutil.copytree(SHIPPED, folder / "grammars")
    shutil.copyfile(SMALL, folder / "grammars" / "small.yaml")
    shutil.copytree(SHIPPED, folder / "mutated")
    write_texts(folder / "spaces")
    (folder / "results").mkdir()
    fill(folder / "results")
    os.chdir(folder)


def attempt(case: Case) -> str:
    """Run a case; what it came to, in a word. Raises Failed where it may not come to that."""
    said, answered = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(answered), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", AblateWarning)
            try:
                _write(case)
                TARGETS[case.target](case)
                outcome = "answered"
            except AblateError as error:
                _judge(case, str(error))
                outcome = "refused"
    except Failed:
        raise
    except BaseException as error:  # noqa: BLE001  whatever it is: it is what is looked for
        raise Failed(f"{type(error).__name__}\n{traceback.format_exc(limit=-12)}") from None
    finally:
        _restore(case)
    if case.target != "options":  # what was typed comes back in the usage
        _judge_characters(answered.getvalue() + said.getvalue())
    return outcome


def _write(case: Case) -> None:
    """Write the file of a case, if it has one."""
    if case.target in ("check", "set", "profile"):
        kind, name, text, *_ = case.words
        _path(kind, name).write_bytes(text.encode("utf-8", "surrogateescape"))


def _path(kind: str, name: str) -> Path:
    folders = {"space": "spaces", "grammar": "grammars", "included": "mutated/transformer"}
    # Not under the name of a grammar that spaces name: the file would be there for the cases that follow.
    return Path(folders[kind]) / (f"case_{name}" if kind == "grammar" else name)


def _restore(case: Case) -> None:
    if case.target == "check" and case.words[0] == "included":
        shutil.copyfile(SHIPPED / "transformer" / case.words[1], _path(*case.words[:2]))


def _judge(case: Case, text: str) -> None:
    _judge_characters(text)
    for name, line, column in PLACE.findall(text):
        _judge_place(name, int(line), int(column))
    if case.target == "check":
        for problem in text.split("\n\n"):
            about_all = problem.startswith(("error: with --profile", "with --profile", "…"))
            if not about_all and not PLACE.search(problem) and not _has_no_place(problem):
                raise Failed(f"no place: {problem}")


def _has_no_place(problem: str) -> bool:
    """A file as a whole has none."""
    return " is larger than 1 MiB" in problem


def _judge_place(name: str, line: int, column: int) -> None:
    if name in ("--set", "--profile"):
        return  # of several settings, the text does not say which
    path = Path(name)
    if not path.is_file():
        raise Failed(f"a place in no file: {name}")
    rows = BREAK.split(path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff"))
    if not (1 <= line <= len(rows) and 1 <= column <= len(rows[line - 1]) + 1):
        raise Failed(f"a place that is not there: {name}:{line}:{column}")


def _judge_characters(text: str) -> None:
    wrong = {character for character in text if character != "\n" and unicodedata.category(character) in UNSHOWN}
    wrong |= {character for character in text if unicodedata.bidirectional(character) in TURNING}
    if wrong:
        raise Failed(f"shown to a terminal: {sorted(wrong)!r} in {text[:2000]!r}")


def _check(case: Case) -> None:
    kind, name, _, *json = case.words
    path = Path("mutated/transformer.yaml") if kind == "included" else _path(kind, name)
    check(path, json="--json" in json)


def _set(case: Case) -> None:
    """A space with settings: as `check` has it, and the table and the resolved whole that `plan --full` prints."""
    kind, name, _, *settings = case.words
    space = api.load_space(_path(kind, name), settings=settings)
    plan = api.check(space)
    screen = console()
    screen.print(check_screen.space(space, plan))
    screen.print(Screen(plan_screen(plan, frozenset())))
    screen.print(check_screen.resolved(space), markup=False, highlight=False, soft_wrap=True)


def _profile(case: Case) -> None:
    kind, name, _, profile = case.words
    check(_path(kind, name), profile=profile)


def _seconds(case: Case) -> None:
    seconds = api.read_seconds(case.words[0])
    if not 0 < seconds < float("inf"):
        raise Failed(f"{seconds} s")


def _show(case: Case) -> None:
    name, *sizes = case.words
    options = ("--layers", "--width", "--heads", "--context", "--vocabulary")
    given = [word for option, size in zip(options, sizes, strict=True) if size for word in (option, size)]
    _command(["show", *given, "--", name])


def _diff(case: Case) -> None:
    _command(["diff", "--", *case.words])


def _sql(case: Case) -> None:
    statement, *given = case.words
    sql(statement, given=given) if statement != "-" else None


def _options(case: Case) -> None:
    """Words of a command line that is never right enough to train anything: no space is where it says."""
    if set(case.words) & {"ui", "-"}:
        return  # they wait: for Ctrl-C, for standard input
    _command(list(case.words))


def _command(words: list[str]) -> None:
    try:
        app(words, prog_name="ablate")
    except SystemExit as ended:
        if ended.code not in (0, 1, 2):
            raise Failed(f"exit {ended.code}") from None


TARGETS: dict[str, Callable[[Case], None]] = {
    "check": _check,
    "set": _set,
    "profile": _profile,
    "seconds": _seconds,
    "show": _show,
    "diff": _diff,
    "sql": _sql,
    "options": _options,
}


def main_of(words: Sequence[str]) -> list[str]:
    """The real command line with these words."""
    return [sys.executable, "-c", "from ablate.cli import main; main()", *words]
