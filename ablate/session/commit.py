"""The commit of the repository that a space's file is in, which tells what was run."""

from __future__ import annotations

from pathlib import Path


def commit_of(path: Path) -> str | None:
    """Return the commit's hash, followed by `, with changes` if tracked files differ from it.

    None outside a repository, without git, and if the repository cannot be read: a run does not depend on it.
    """
    try:
        import git
    except ImportError:  # GitPython raises it where there is no git to run
        return None
    try:
        with git.Repo(path.resolve().parent, search_parent_directories=True) as repository:
            commit = repository.head.commit.hexsha
            return f"{commit}, with changes" if repository.is_dirty(untracked_files=False) else commit
    except (git.exc.GitError, ValueError, OSError):  # no repository, no commit in it, or no permission to read it
        return None
