"""The check that a model reads what its corpus gives: tokens of text, images, or frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ablate.block.catalogue import Catalogue
from ablate.source.problems import Problems
from ablate.space.corpora import CorpusSpec, Layout
from ablate.space.documents import Data, Model
from ablate.space.encoder import WITH_ENCODER, check_source
from ablate.space.origin import Origins

TEXT: Final = "text"
READS: Final[Mapping[str, tuple[str, ...]]] = {
    "decoder": (TEXT,),
    "encoder": (TEXT,),
    WITH_ENCODER: (TEXT, "frames"),
    "vit": ("images",),
    "mlp": ("images",),
}
"""What a model of each kind reads."""
CORPORA: Final[Mapping[str, str]] = {
    TEXT: "corpus: python_stdlib",
    "images": "corpus: digits, or {drawn_images: 20000}; of the hub: hub_images",
    "frames": "corpus: {drawn_speech: 20000}",
}
"""A corpus of each, without a download."""
CORPUS: Final = ("data", "corpus")


def layout_of(data: Data, catalogue: Catalogue) -> Layout | None:
    """Return what the examples of a corpus are; None if they are text."""
    return catalogue.of_kind(CorpusSpec)[data.corpus.name].layout(data.corpus.settings)


def check_layout(model: Model, data: Data, catalogue: Catalogue, origins: Origins, problems: Problems) -> None:
    """Report a corpus that a model of its kind cannot read, and settings of text or images where it is neither.

    Likewise a source whose length is not given, or is not that of the examples.
    """
    layout = layout_of(data, catalogue)
    frames = layout.shape[0] if layout is not None and layout.kind == "frames" else None
    check_source(model, frames, origins, problems)
    given = TEXT if layout is None else layout.kind
    reads = READS.get(model.kind, (given,))
    if given not in reads:
        message = f"corpus {data.corpus.name} is {given}, but a model of kind {model.kind} reads {' or '.join(reads)}"
        others = [kind for kind, known in READS.items() if given in known and kind in _kinds()]
        notes = (*(CORPORA[kind] for kind in reads), *([f"or model.kind: {' or '.join(others)}"] if others else []))
        origins.add(problems, message, CORPUS, ("model", "kind"), notes=notes)
        return
    if layout is not None and data.tokenizer != "bytes":
        message = f"corpus {data.corpus.name} is {given}, which no tokenizer cuts into tokens"
        notes = ("leave data.tokenizer out, or let it be bytes",)
        origins.add(problems, message, ("data", "tokenizer"), CORPUS, notes=notes)
    if data.whiten is not None and given != "images":
        message = f"corpus {data.corpus.name} is {given}, and only images are whitened"
        origins.add(problems, message, ("data", "whiten"), CORPUS, notes=("leave it out, or let it be null",))
    if model.source is not None and frames is not None and model.source != frames:
        message = f"model.source is {model.source:,}, but an example of {data.corpus.name} has {frames:,} frames"
        notes = (f"it is the length of what the encoder reads: source: {frames}",)
        origins.add(problems, message, ("model", "source"), CORPUS, notes=notes)


def _kinds() -> tuple[str, ...]:
    """Return the kinds of models that there are."""
    return tuple(Model.model_fields["kind"].annotation.__args__)  # type: ignore[union-attr]
