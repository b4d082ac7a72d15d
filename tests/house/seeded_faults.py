"""Seeded faults: how many of the bugs of one line in `seeded_faults.yaml` the default test run finds.

Each fault is put by itself into a copy of the tree. First the tests of its room run, then, unless one of them fails,
all others. A test that fails has found the fault if it passes once the fault is taken out again. Tests that do not end
in time have found it too: then the table says that they hang.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
ROOM_LIMIT, REST_LIMIT = 1200, 3600
"""Seconds that the tests of a room, and all others, may take."""
ELSEWHERE = {"api": "api execute", "session": "api cli store", "testing": "components train", "verdict": "report store"}
"""Where the tests of rooms are that have no folder of their own name, or not all of them there."""
NO_EVIDENCE = (
    "tests/house/test_house_seeded_faults.py",
    "tests/identity/test_identity_versions.py::test_every_change_of_code_that_computes_is_declared_or_proved",
)
"""Tests that any change of the code fails, right or wrong."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?\.py(?:::\S+?(?:\[.*?\])?)?)(?: - .*)?$", re.MULTILINE)


def listed() -> list[dict[str, str]]:
    """The faults, in the order of their numbers, which begin at 1."""
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def room_of(fault: dict[str, str]) -> str:
    """The first word of a file's path below `ablate/`."""
    return Path(fault["file"]).parts[1].removesuffix(".py")


def tests_of(fault: dict[str, str], tree: Path) -> list[Path]:
    """The files of the tests of a fault's room; those named after its file come first, then those that speak of it."""
    stem, room = Path(fault["file"]).stem, room_of(fault)
    files = [path for name in ELSEWHERE.get(room, room).split() for path in (tree / "tests" / name).glob("test_*.py")]
    return sorted(sorted(files), key=lambda path: (stem not in path.name, stem not in path.read_text(encoding="utf-8")))


def faulted(fault: dict[str, str], text: str) -> str:
    """The text of a file with the fault in it; ValueError where its line does not stand there once."""
    line = re.compile(rf"^( *){re.escape(fault['line'])}$", re.MULTILINE)
    changed, times = line.subn(lambda old: old[1] + fault["fault"], text)
    if times != 1:
        raise ValueError(f"{fault['file']} has this line {times} times: {fault['line']}")
    return changed


def run(tree: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
    """The exit code and the output of pytest in a tree; None where it does not end in time."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    own = {"cwd": tree, "env": {**os.environ, "PYTHONPATH": str(tree)}, "start_new_session": True}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **own)
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, ""
    return process.returncode, output


def found_by(fault: dict[str, str], tree: Path, where: Sequence[str], limit: float) -> str:
    """The test among those of `where` that finds a fault; empty where none does."""
    path, no_evidence = tree / fault["file"], list(NO_EVIDENCE)
    right = path.read_text(encoding="utf-8")
    while True:
        path.write_text(faulted(fault, right), encoding="utf-8")
        code, output = run(tree, [*where, *(f"--deselect={test}" for test in no_evidence)], limit)
        path.write_text(right, encoding="utf-8")
        if code is None:
            return f"a hang of more than {limit} s"
        if code in (0, 5):  # all passed, or there were none
            return ""
        tests = FAILED.findall(output)
        if not tests or tests[0] in no_evidence:  # the latter where a file of tests cannot be read
            raise RuntimeError(f"pytest ended with {code}:\n{output[-3000:]}")
        if run(tree, ["-n", "0", tests[0]], limit)[0] == 0:
            return tests[0]
        no_evidence.append(tests[0])  # it fails without the fault as well


def copy_of(root: Path, tree: Path) -> None:
    """Copy what git has or would add, such as the kept rows of benches, which tests read."""
    names = subprocess.check_output(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root, text=True)
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, tree / name)


def main() -> None:
    """Try the faults, and print a line for each and the total."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="the numbers of the faults to try")
    parser.add_argument("--room-only", action="store_true", help="run no tests but those of the fault's room")
    given = parser.parse_args()
    numbered, count = [(n, fault) for n, fault in enumerate(listed(), 1) if n in (given.only or [n])], 0
    with tempfile.TemporaryDirectory(prefix="seeded-faults-") as folder:
        tree = Path(folder, "tree")
        copy_of(ROOT, tree)
        subprocess.run("git init --quiet && git add --all", shell=True, cwd=tree, check=True)  # some tests ask git
        where = [sys.executable, "-c", "import ablate; print(ablate.__file__)"]
        imported = Path(subprocess.check_output(where, cwd=folder, env={"PYTHONPATH": str(tree)}, text=True).strip())
        assert imported == tree / "ablate/__init__.py", imported
        for n, fault in numbered:
            room = tests_of(fault, tree)
            test = found_by(fault, tree, ["-n", "0", *map(str, room)], ROOM_LIMIT)
            if not test and not given.room_only:
                test = found_by(fault, tree, ["tests", *{f"--ignore={path.parent}" for path in room}], REST_LIMIT)
            count += bool(test)
            print(f"{n:2}  {fault['file']}: {fault['what']}\n    {test or 'NOT FOUND'}", flush=True)
    print(f"{count} of {len(numbered)} found")


if __name__ == "__main__":
    main()
