"""With how many examples hypothesis tries a property: `@settings(max_examples=examples_of(200), deadline=None)`."""

from __future__ import annotations

from hypothesis import settings

SHARE = 5


def examples_of(full: int) -> int:
    """All of them under `--hypothesis-profile full`, which the gate gives; else a fifth, and five at least."""
    return full if settings.get_current_profile_name() == "full" else min(full, max(5, full // SHARE))
