"""The commit of the repository that a space's file is in: what else of it is needed to tell what was run."""

from __future__ import annotations

from pathlib import Path


def commit_of(path: Path) -> str | None:
    """The commit's hash, with `, with changes` behind it where tracked files differ from it; None outside of any.

    None, too, where git is not installed, or the repository cannot be read: a run does not depend on it.
    """
    try:
        import git
    except ImportError:  # GitPython raises it where there is no git to run
        return None
    try:
        with git.Repo(path.resolve().parent, search_parent_directories=True) as repository:
            commit = repository.head.commit.hexsha
            return f"{commit}, with changes" if repository.is_dirty(untracked_files=False) else commit
    except (git.exc.GitError, ValueError, OSError):  # no repository, none of its commits, or not ours to read
        return None
