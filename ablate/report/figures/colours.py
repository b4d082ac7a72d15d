"""Colours for paper: those of one plot differ in lightness, so that they stay distinct when printed in greyscale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ablate.report.html.drawn import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER: Mapping[str, str] = {
    "ink": "#000000",
    "faint": "#8c8c8c",
    "front": "#0b3d91",
    "reference": "#8b3fb0",
    "fresh": "#7a4a00",
    "paper": "#ffffff",
    "wash": "#e9e9e9",
    "better": "#0b4a20",
    "worse": "#e0493f",
    "same": "#0b3d91",
    "line0": "#000000",
    "line1": "#450e64",
    "line2": "#0d4f9a",
    "line3": "#077e61",
    "line4": "#df6f20",
    "line5": "#85b7d1",
    "shade0": "#f3f7fc",
    "shade1": "#c6daf1",
    "shade2": "#99bbe6",
    "shade3": "#6d9edb",
    "shade4": "#4080cf",
    "shade5": "#2a64aa",
    "shade6": "#1f497d",
    "shade7": "#142f4f",
}
"""The colour on white paper for each colour name."""


def lightness(colour: str) -> float:
    """Return how light a colour looks, from 0 (black) to 100 (white): L* of CIELAB, which is what greyscale preserves.

    >>> round(lightness("#ffffff")), round(lightness("#777777"))
    (100, 50)
    """
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return 116 * luminance ** (1 / 3) - 16 if luminance > (6 / 29) ** 3 else luminance * (29 / 3) ** 3


def colour_in(figure: Figure) -> None:
    """Recolour everything that was drawn in a named colour with its colour on paper."""
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    for artist in figure.findobj():
        if isinstance(artist, Line2D):
            artist.set_color(_on_paper(artist.get_color()))
            artist.set_markerfacecolor(_on_paper(artist.get_markerfacecolor()))
            artist.set_markeredgecolor(_on_paper(artist.get_markeredgecolor()))
        elif isinstance(artist, Collection):
            artist.set_facecolor([_on_paper(colour) for colour in artist.get_facecolor()])
            artist.set_edgecolor([_on_paper(colour) for colour in artist.get_edgecolor()])
        elif isinstance(artist, Patch):
            _recolour_patch(artist)
        elif isinstance(artist, Text):
            artist.set_color(_on_paper(artist.get_color()))
            box = artist.get_bbox_patch()
            if box is not None:
                _recolour_patch(box)


def _recolour_patch(patch: Any) -> None:
    patch.set_facecolor(_on_paper(patch.get_facecolor()))
    patch.set_edgecolor(_on_paper(patch.get_edgecolor()))


def _on_paper(colour: Any) -> Any:
    """Return the colour on paper of a placeholder for a name, with the same opacity; any other colour unchanged."""
    from matplotlib.colors import to_hex, to_rgba

    rgba = to_rgba(colour)
    name = _NAMES.get(to_hex(rgba))
    return colour if name is None else to_rgba(PAPER[name], rgba[3])


_NAMES = {value: name for name, value in INK.items()}
