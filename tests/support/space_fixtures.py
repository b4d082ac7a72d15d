"""Small spaces for tests of space and plan, over the shipped grammar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders import CATALOGUE
from reading import ROOT

from ablate.space.load import load_space
from ablate.space.space import Space

SECTIONS = {
    "space": "small",
    "question": "Which?",
    "grammar": str(ROOT / "grammars" / "transformer.yaml"),
    "model": "{layers: 4, width: 32, heads: 4, context: 16, position: sinusoidal, embedding: {std: 0.02, scale: 50},"
    " head: untied, init: {normal: 0.02}}",
    "recipe": "{steps: 20, batch: 4, optimizer: {adamw: {lr: 1e-2}}}",
    "design": "{path: {from: pre_ln, to: op}}",
    "seeds": "2",
    "measure": "{every: 5, probes: [kurtosis], evaluation: {every: 10, windows: 8}}",
    "judge": "{against: pre_ln, metrics: {eval_loss: {margin: 1%}, peak_kurtosis: {scale: log}}}",
}


def text(**sections: str | None) -> str:
    """The text of a small space; a section given replaces that of the pattern, None leaves it out."""
    written = {**SECTIONS, **sections}
    return "".join(f"{name}: {body}\n" for name, body in written.items() if body is not None)


def space(
    folder: Path, *settings: str, profile: str | None = None, file: str = "small.yaml", **sections: str | None
) -> Space:
    """A small space, written to `folder` and read."""
    path = folder / file
    path.write_text(text(**sections), encoding="utf-8")
    return load_space(path, CATALOGUE, profile=profile, settings=settings)


def fields(space: Space) -> dict[str, Any]:
    """The meaning of a space: its fields without the place and text that it was read from and how it was asked for."""
    apart = ("path", "settings", "located", "keys", "grammar", "text", "kept")
    return {name: getattr(space, name) for name in Space.__dataclass_fields__ if name not in apart}
