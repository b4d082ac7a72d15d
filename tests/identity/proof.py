"""Proof that a change of code changed no number: what the old commit computes and what the new one does, in one go.

The old commit is the last that changed the committed list: there list and code agree. It is checked out beside this
one, and says by its own script what each thing computes (`digests.py`); so does this one, on the same machine. Bits are
never compared with those of another machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from computing import LIST, ROOT


@dataclass(frozen=True)
class Verdict:
    """Of the cases of some things: those whose bits moved, and those that one of the two commits does not have."""

    same: tuple[str, ...]
    moved: tuple[str, ...]
    only_in_one: tuple[str, ...]


def compared(names: Sequence[str], folder: Path, repository: Path = ROOT) -> Verdict:
    """What the things named compute at the last commit of the list beside what they compute here."""
    old = checked_out(base_commit(repository), folder / "old", repository)
    try:
        known = set(digests_of(old, ["--names"]))
        before = digests_of(old, [name for name in names if name in known])
        after = digests_of(repository, names)
    finally:
        subprocess.run(["git", "-C", repository, "worktree", "remove", "--force", old], check=True)
    both = sorted(before.keys() & after.keys())
    return Verdict(
        same=tuple(case for case in both if before[case]["bits"] == after[case]["bits"]),
        moved=tuple(case for case in both if before[case]["bits"] != after[case]["bits"]),
        only_in_one=tuple(sorted(before.keys() ^ after.keys())),
    )


def base_commit(repository: Path = ROOT) -> str:
    """The last commit that changed the list."""
    where = LIST.relative_to(ROOT).as_posix()
    command = ["git", "-C", repository, "log", "-1", "--format=%H", "--", where]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not found:
        raise LookupError(f"no commit has {where}: commit it first")
    return found


def checked_out(commit: str, folder: Path, repository: Path = ROOT) -> Path:
    """A work tree of a commit."""
    command = ["git", "-C", repository, "worktree", "add", "--detach", "--force", folder, commit]
    subprocess.run(command, capture_output=True, check=True)
    return folder


def digests_of(tree: Path, arguments: Sequence[str]) -> Any:
    """What the script of a tree prints, run by the code of that tree alone."""
    if not arguments:
        return {}
    tests = tree / "tests"  # where an earlier commit has what tests share
    paths = os.pathsep.join(map(str, (tree, tests / "support", tests)))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    script = tree / "tests" / "identity" / "digests.py"
    command = [sys.executable, script, *arguments]
    # in the tree itself, whose grammars are found before those of another
    done = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{script} failed:\n{done.stderr}")
    return json.loads(done.stdout)
