"""Whoever looks for a file finds it by the docstring of its room, and a room by the map in CONTRIBUTING."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from documents import DOCUMENTS, MANUAL

from ablate.extension.declaration import KINDS

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ablate"
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
SUFFIXES = r"\.py|\.sql|\.yaml"
LISTED = re.compile(rf"^ *(\w+(?:{SUFFIXES}|/)) +\S", re.MULTILINE)
"""A line of a list: a file or a folder, and what it is."""
NAMED = re.compile(rf"(?<![\w/*])\w[\w/]*(?:{SUFFIXES})\b")
FOLDER_IS_THE_LIST = "The folder is the list"
DECLARES = re.compile(rf"^@?(?:{'|'.join(kind.name for kind in KINDS)})\(", re.MULTILINE)
"""A file that adds a thing of some kind."""


def docstring(room: Path) -> str:
    return ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""


def entries(room: Path) -> set[str]:
    """The files of a room, and the rooms in it."""
    files = {path.name for path in room.iterdir() if re.search(rf"(?:{SUFFIXES})$", path.name)}
    folders = {f"{path.name}/" for path in room.iterdir() if (path / "__init__.py").exists()}
    return files - {"__init__.py"} | folders


def plugins(room: Path) -> set[str]:
    """Its files that declare a thing of some kind."""
    return {path.name for path in room.glob("*.py") if DECLARES.search(path.read_text(encoding="utf-8"))}


def faults(text: str, there: set[str], needless: set[str] = frozenset()) -> set[str]:
    """What a list lacks of the files that are there, what it has that is not there, and what it has twice."""
    listed = Counter(LISTED.findall(text))
    missing = {f"{name} is not listed" for name in there - needless - listed.keys()}
    stale = {f"{name} is listed and not there" for name in listed.keys() - there}
    return missing | stale | {f"{name} is listed twice" for name, times in listed.items() if times > 1}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_the_docstring_of_a_room_lists_every_file_once(room):
    text = docstring(room)
    by_folder = FOLDER_IS_THE_LIST in text
    assert by_folder == bool(plugins(room)) or room == PACKAGE / "components"
    assert not faults(text, entries(room), plugins(room) if by_folder else set())


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_other_files_that_a_docstring_names_are_there(room):
    names = {path.name for path in PACKAGE.rglob("*") if path.is_file()}
    assert not [name for name in NAMED.findall(docstring(room)) if name.rpartition("/")[2] not in names]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("    a.py  what", "b.py is not listed"),
        ("a.py  what\nb.py  what\nc.py  what", "c.py is listed and not there"),
        ("a.py  what\nb.py  what; c.py that\na.py  again", "a.py is listed twice"),
        ("a.py  what\nb.py  what\nroom/  what", "room/ is listed and not there"),
    ],
)
def test_a_list_with_a_fault_would_be_found(text, fault):
    assert fault in faults(text, {"a.py", "b.py"})
    assert not faults("a.py  what\n    b.py  what", {"a.py", "b.py"})


def map_of_rooms() -> list[str]:
    block = re.search(r"^## Map$.*?^```\n(.*?)^```$", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    assert block
    return LISTED.findall(block[1])


def test_the_map_has_every_room_once():
    there = entries(PACKAGE) | {"docs/"}
    assert faults("\n".join(f"{name}  room" for name in map_of_rooms()), there) == set()


def test_the_map_goes_the_way_that_imports_may_go():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"].split("\n")
    height = {name: -at for at, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    rooms = [name for name in (re.sub(r"\.py|/", "", entry) for entry in map_of_rooms()) if name in height]
    assert set(rooms) == set(height)
    assert [height[name] for name in rooms] == sorted(height[name] for name in rooms)


def test_files_that_contributing_names_are_there():
    named = {name for name in NAMED.findall(CONTRIBUTING) if "/" in name}
    assert len(named) >= 15
    assert not [name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()]
    assert set(re.findall(r"`ablate docs (\w+)`", CONTRIBUTING)) <= MANUAL.keys()


def test_the_way_of_a_gain_passes_few_files_once_each():
    way = re.findall(
        r"[\w/]+\.py", CONTRIBUTING.partition("A gain, such as")[2].partition("A trial that was killed")[0]
    )
    assert len(way) == len({*way}) <= 32 and {"block/reader.py", "plan/identity.py", "verdict/judge.py"} <= {*way}


def test_every_kind_and_every_marker_is_in_contributing():
    assert not [kind.noun for kind in KINDS if not re.search(rf"^\| {kind.noun} \|", CONTRIBUTING, re.MULTILINE)]
    assert not [kind.folder for kind in KINDS if f"`ablate/{kind.folder}/`" not in CONTRIBUTING]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = [line.partition(":")[0] for line in project["tool"]["pytest"]["ini_options"]["markers"]]
    assert len(markers) >= 6 and not [
        name for name in markers if not re.search(rf"\| `{name}(\(n\))?` \|", CONTRIBUTING)
    ]


def glossary() -> list[tuple[str, str]]:
    section = CONTRIBUTING.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return [row for row in rows if row[0] != "word"]


def test_the_glossary_has_each_word_once_in_one_sentence():
    words = [word for word, _ in glossary()]
    assert len(words) >= 60 and len(set(words)) == len(words)
    for word, meaning in glossary():
        assert meaning.endswith(".") and ". " not in meaning, word


def test_every_word_of_the_glossary_is_used():
    code = (path.read_text(encoding="utf-8") for suffix in ("py", "sql") for path in PACKAGE.rglob(f"*.{suffix}"))
    text = " ".join("\n".join([*DOCUMENTS.values(), *code]).lower().replace("_", " ").split())
    assert not [word for word, _ in glossary() if word.lower() not in text]


def test_hooks_run_the_linters_of_the_gate():
    import yaml

    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    linters = set(re.findall(r"\.venv/bin/(ruff|mypy|lint-imports)", gate))
    assert {hook["entry"].split()[0].rpartition("/")[2] for hook in hooks} == linters
    assert all(hook["language"] == "system" for hook in hooks)


def test_the_changelog_has_the_form_of_keep_a_changelog():
    text = (ROOT / ".github" / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(.+?)\](.*)$", text, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    assert all(re.fullmatch(r" - \d{4}-\d\d-\d\d", date) for _, date in versions[1:])
