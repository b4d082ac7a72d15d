"""Names, colours and texts that MLflow accepts: it allows few characters in a name and limits the length of a value."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable

PARAM_LENGTH, TAG_LENGTH, NAME_LENGTH = 6000, 8000, 200
"""The longest values that MLflow keeps, and the longest name used."""
BASELINE_COLOUR = "#5f6b7a"
GOLDEN_ANGLE = 0.381966
"""As a fraction of a circle: hues this far apart stay distinguishable, however many there are."""


def edit_keys(edits: Iterable[str]) -> dict[str, str]:
    """Return for each edit the name of its parameter, which is `yes` or `no` in every run.

    >>> edit_keys(["+qk_norm", "residual.gain=0.5", "-layer_norm@mlp_norm", "a->b"])
    {'+qk_norm': 'edit.add_qk_norm', 'residual.gain=0.5': 'edit.residual.gain', \
'-layer_norm@mlp_norm': 'edit.remove_layer_norm.mlp_norm', 'a->b': 'edit.a_to_b'}

    The new value of a field is left out where the field has only one, since names are column headers.
    """
    edits = list(dict.fromkeys(edits))
    short = {edit: _plain(edit.partition("=")[0] + _place(edit)) for edit in edits}
    taken: set[str] = set()
    keys = {}
    for edit in edits:
        name = short[edit] if list(short.values()).count(short[edit]) == 1 else _plain(edit)
        key, times = f"edit.{name}"[:NAME_LENGTH], 1
        while key in taken:
            times += 1
            key = f"edit.{name}"[:NAME_LENGTH] + f".{times}"
        taken.add(key)
        keys[edit] = key
    return keys


def _place(edit: str) -> str:
    """Return the suffix that says where an edit acts, if it has one after a value."""
    value, at, place = edit.partition("=")[2].rpartition("@")
    return f"@{place}" if at and value else ""


def _plain(edit: str) -> str:
    """Return the letters, digits, `_`, `-` and `.` of an edit, and other signs as words or dots."""
    text = re.sub(r"^\+", "add_", re.sub(r"^-", "remove_", edit)).replace("->", "_to_")
    text = re.sub(r"[@#+]", ".", text)
    return re.sub(r"[^\w.\-]+|_{2,}", "_", text).strip("_.") or "edit"


def colour(position: int, *, baseline: bool) -> str:
    """Return the colour of a variant's runs: grey for the baseline, else a hue of its own."""
    if baseline:
        return BASELINE_COLOUR
    red, green, blue = colorsys.hls_to_rgb((0.58 + position * GOLDEN_ANGLE) % 1, 0.45, 0.72)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def short(text: str, length: int) -> str:
    """Truncate a text with an ellipsis where it is longer than MLflow keeps."""
    return text if len(text) <= length else text[: length - 1] + "…"


def short_lines(text: str, length: int, rest: str) -> str:
    """Truncate a text after a whole line where it is too long, and append `rest`, which says where the full text is."""
    if len(text) <= length:
        return text
    room = text[: length - len(rest) - 2]
    return f"{room.rpartition(chr(10))[0] or room}\n\n{rest}"
