"""Every way out of the command line, with texts of others that would drive a terminal: shown, and never obeyed.

The texts come from where others write: a plug-in's declaration and its errors, names of files and folders, the corpus,
SQL and its values, the words of the command line. Every verb is run over them on a pseudo-terminal, once as one that
knows no styles, so that any escape sequence is a leak, and once as one that does; and in pipes.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from exits_driver import MARK, PIPES
from tiny_spaces import ROOT, write_world

EVIL = "\x1b[31mpwned\x1b]0;title\x07\x9b2J\r\x08\u202eevil [red]word[/red]"
SHORT = "\x1b[31mpwned"
"""For names of files, which hold less."""

PLUGIN = '''
"""A component whose every word is somebody's."""

import warnings

from ablate.components.declare import Cost, Sizes, component, implements

EVIL = {evil!r}
warnings.warn(EVIL)


@component("sour", slots=("part", "norm"), role="norm", modifier=True, source=EVIL)
class Config:
    """Has no fields."""

    def cost(self, sizes: Sizes, width: int | None = None) -> Cost:
        return Cost(parameters=0)

    def equation(self, x: str) -> str:
        return f"sour({{x}}) " + EVIL

    def details(self) -> tuple[str, ...]:
        return ("sour(x) = " + EVIL,)


import torch
from torch import nn


@implements(Config)
class Sour(nn.Module):
    def __init__(self, config: Config, sizes: Sizes, width: int | None = None):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError(EVIL)
'''
BREAKS = "raise RuntimeError({evil!r})\n"
TERMS = ("dumb", "xterm-256color", PIPES)
SOUR = "blocks={sour: [residual: [sour, attention], residual: [sour, mlp]]}"
LEAKS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]|\x1b\[2K|\r")
"""What rich says to a terminal: styles, the cursor hidden and shown, lines of progress drawn again."""
QUERY = "SELECT chr(27) || '[31mpwned' AS said, '+qk_norm' AS change, '[red]word[/red]' AS word, 1.5 AS number"


def verbs() -> list[tuple[list[str], bool, int]]:
    """Command lines, whether what drives a terminal must be seen in what they say, and their exit code."""
    space, sour = ["evil.yaml"], ["--plugin", "sour.py", "--set", SOUR, "--set", "design={compare: [pre_ln, sour]}"]
    here = ["--results", f"res{SHORT}"]
    run = [*space, *sour, *here, "--executor", "inline", "--no-mlflow"]
    error = "SELECT detail->>'$.error' AS e, detail->>'$.trace' AS t FROM trials WHERE status = 'bug'"
    return [
        (["--help"], False, 0),
        (["check", *space, *sour], True, 0),
        (["check", f"no{SHORT}.yaml"], True, 2),
        (["check", *space, "--set", f"recipe.steps={EVIL}"], True, 2),
        (["check", *space, "--plugin", "breaks.py"], True, 2),
        (["check", *space, f"--no{SHORT}"], True, 2),
        (["check", *space, SHORT], True, 2),
        (["plan", *space, *sour, *here], True, 0),
        (["plan", *space, *sour, *here, "--json"], False, 0),
        (["run", *run, "--fresh"], True, 1),
        (["run", *run, "--json"], True, 1),
        (["run", *space, "--executor", SHORT], True, 2),
        (["resume", *here], True, 0),
        (["resume", SHORT, *here], True, 2),
        (["report", *space, *sour, *here], True, 0),
        (["report", *space, *sour, *here, "--json"], True, 0),
        (["report", SHORT, *here], True, 2),
        (["status", *here], False, 0),
        (["status", *here, "--json"], False, 0),
        (["sql", error, *here], True, 0),
        (["sql", QUERY, *here], True, 0),
        (["sql", QUERY, "--format", "csv", *here], True, 0),
        (["sql", QUERY, "--format", "json", *here], True, 0),
        (["sql", f"SELECT 1 FROM nowhere -- {SHORT}", *here], True, 2),
        (["sql", "SELECT $a", "--given", f"{SHORT}=1", *here], True, 2),
        (["sql", f"@{SHORT}", *here], True, 2),
        (["show", "sour", "--space", "sour.yaml", "--plugin", "sour.py"], True, 0),
        (["show", "sour", "--space", "sour.yaml", "--plugin", "sour.py", "--json"], True, 0),
        (["show", SHORT], True, 2),
        (["diff", "pre_ln", SHORT], True, 2),
        (["list", "components", "--plugin", "sour.py"], True, 0),
        (["list", "blocks", "--grammar", f"no{SHORT}.yaml"], True, 2),
        (["doctor", *here, "--look"], True, 0),
        (["doctor", *here], True, 0),
        (["status", "--results", f"none{SHORT}"], True, 2),
        (["ui", "--results", f"none{SHORT}"], True, 2),
        (["docs", SHORT], True, 2),
        (["docs", "verdicts"], False, 0),
    ]


def make(folder: Path) -> Path:
    """A folder, with a name of that kind, in which all of it lies."""
    folder = folder / f"world{SHORT}"
    folder.mkdir()
    text = write_world(folder, steps=2, seeds=1).read_text(encoding="utf-8")
    (folder / "grammars").symlink_to(ROOT / "grammars")
    (folder / "texts" / "g0" / f"bad{SHORT}.txt").write_bytes(b"\xff\xfe\x00")
    (folder / "evil.yaml").write_text(text.replace("space: tiny", "space: evil"), encoding="utf-8")
    (folder / "sour.yaml").write_text(
        re.sub("^design:.*", "design: {compare: [pre_ln, sour]}", text, flags=re.MULTILINE)
        + SOUR.replace("=", ": ", 1)
        + "\n",
        encoding="utf-8",
    )
    (folder / "sour.py").write_text(PLUGIN.format(evil=EVIL), encoding="utf-8")
    (folder / "breaks.py").write_text(BREAKS.format(evil=EVIL), encoding="utf-8")
    return folder


def asked() -> list[tuple[str, list[str], bool, int]]:
    """Every command line on each kind of terminal and in pipes; those that take a second or more once, and so what only
    shows the warning of a plug-in, since Python shows that once."""
    return [
        (term, line, seen, code)
        for line, seen, code in verbs()
        for once in [line[0] in ("plan", "report", "doctor") or (line[0] == "check" and SOUR in line)]
        for term in (TERMS[:1] if once and SHORT not in line else TERMS)
    ]


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> list[tuple[str, str]]:
    """What each command line sends to the terminal, or to standard output and to standard error."""
    folder = make(tmp_path_factory.mktemp("exits"))
    lines = [(term, line) for term, line, _, _ in asked()]
    (folder / "lines.json").write_text(json.dumps(lines))
    on_terminal = run_on_terminal(folder)
    assert len(on_terminal) == len(lines)
    return [
        (text, "") if term != PIPES else tuple((folder / f"{name}.{at}").read_text() for name in ("out", "err"))
        for at, ((term, _), text) in enumerate(zip(lines, on_terminal, strict=True))
    ]


def run_on_terminal(folder: Path) -> list[str]:
    """What each command line sends to a pseudo-terminal that holds all standard streams."""
    program = [sys.executable, str(Path(__file__).parents[1] / "support" / "exits_driver.py"), "lines.json"]
    environment = {**os.environ, "COLUMNS": "2000", "LINES": "50", "HF_HUB_OFFLINE": "1"}
    environment["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"  # drawn by datasets, over nothing of others
    environment = {name: value for name, value in environment.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 2000, 0, 0))
    arrived = bytearray()
    reader = threading.Thread(target=read_all, args=(ours, arrived), daemon=True)
    reader.start()
    done = subprocess.Popen(program, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    assert done.wait(timeout=300) == 0, arrived.decode(errors="replace")
    reader.join(timeout=10)
    os.close(ours)
    return [part.split("\n", 1)[1] for part in arrived.decode("utf-8").replace("\r\n", "\n").split(MARK)[1:]]


def read_all(terminal: int, into: bytearray) -> None:
    with suppress(OSError):  # EIO: nobody writes to it any more
        while chunk := os.read(terminal, 65536):
            into.extend(chunk)


def exit_code(text: str) -> int:
    return int(text.rstrip("\n").rpartition("exit ")[2])


@pytest.mark.full
@pytest.mark.parametrize("term", TERMS[:2])
def test_no_text_of_others_drives_the_terminal(term, said):
    wrong = []
    for (on, line, seen, code), (text, _) in zip(asked(), said, strict=True):
        if on != term:
            continue
        words = text if term == "dumb" else OURS.sub("", text)
        if leak := LEAKS.search(words) or re.search(re.escape(SHORT), text):
            wrong.append((line, "leaks", words[max(0, leak.start() - 60) : leak.end() + 20]))
        if seen and not re.search(r"\\(x1b|u001b)\[31mpwned", words):
            wrong.append((line, "does not show it", words[-600:]))
        if exit_code(words) != code:
            wrong.append((line, "ends otherwise", words[-600:]))
    assert not wrong, "\n".join(f"{' '.join(line)!r} {what}: {text!r}" for line, what, text in wrong)


@pytest.mark.full
def test_pipes_hold_words_escaped_and_data_as_they_are(said):
    wrong, answers = [], {}
    for (term, line, _, code), (out, err) in zip(asked(), said, strict=True):
        if term != PIPES:
            continue
        answers |= {line[3]: out} if "--format" in line else {}
        words = [err] if "csv" in line else [out, err]
        wrong += [(line, leak[0]) for text in words if (leak := LEAKS.search(text))]
        wrong += [(line, err)] if exit_code(err) != code else []
        if "json" in line or "--json" in line:
            json.loads(out)
    assert not wrong, wrong
    table = list(csv.reader(io.StringIO(answers["csv"], newline="")))
    assert table == [["said", "change", "word", "number"], [SHORT, "+qk_norm", "[red]word[/red]", "1.5"]]
    assert json.loads(answers["json"]) == [dict(zip(table[0], [*table[1][:3], 1.5], strict=True))]
