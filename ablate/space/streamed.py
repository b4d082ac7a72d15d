"""How many bytes a space reads of a streamed corpus: as many as its steps need, but no more than `at_most`.

    needed = M b max(E T / r_train,  max over held-out splits of W (T + 1) / r_split)       rounded up to a power of 2

    E sequences of T tokens in all batches, W evaluation windows, r a split's share of the text, b bytes per token
    (1 if tokens are bytes, else about 4), M a margin of 2: at half an epoch a fifth of what is read repeats. T is what
    the objective takes of the text: of pairs, a source and a target. Of what is no text, T and T + 1 are 1, and b is
    the bytes of an example.

The number is a power of 2, and at least `LEAST`, so that similar recipes share a corpus, and a recipe of few steps does
not get a poor tokenizer. It depends only on the recipe of the space itself, so that all of its trials see the same
text, whatever budget or learning rate they are given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ablate.block.catalogue import Catalogue
from ablate.block.sizes import Sizes
from ablate.space.batch_ramp import sequences_of
from ablate.space.corpora import Layout
from ablate.space.documents import Data, Model, Recipe
from ablate.space.objectives import ObjectiveSpec

MARGIN: Final = 2
LEAST: Final = 2**26
"""64 MiB."""
BYTES_PER_TOKEN: Final = {"bytes": 1, "bpe": 4}


def example_length(model: Model, recipe: Recipe, catalogue: Catalogue) -> int:
    """Return the tokens of text that an example of the objective takes; of a pair, those of source and target."""
    spec = catalogue.of_kind(ObjectiveSpec)[recipe.objective.name]
    if spec.reads == "pairs":
        return (model.source or 0) + model.context
    sizes = Sizes(
        n_layers=model.layers,
        d_model=model.width,
        n_heads=model.heads,
        seq_len=model.context,
        vocab_size=1,  # not known before the corpus is read; no length depends on it
        source_len=model.source,
    )
    length: int = spec.read(recipe.objective.settings).window(sizes)
    return length


def needed_bytes(data: Data, recipe: Recipe, *, length: int, windows: int, layout: Layout | None = None) -> int:
    """Return the bytes of text, in examples of a `length`, that training and evaluation need, with the margin.

    With a `layout` they are the bytes of its examples.
    """
    per_token = BYTES_PER_TOKEN["bytes" if data.tokenizer == "bytes" else "bpe"] if layout is None else layout.bytes
    read, held_out = (length, length + 1) if layout is None else (1, 1)
    needs = [sequences_of(recipe) * read / max(1 - data.tuning - data.verdict, 1e-9)]
    needs += [windows * held_out / share for share in (data.tuning, data.verdict) if share > 0]
    return max(LEAST, 1 << (int(MARGIN * per_token * max(needs)) - 1).bit_length())


def at_most(data: Data) -> int | None:
    """Return the most bytes of text that are read; None for a corpus that is read whole."""
    return data.corpus.settings.get("at_most")


def streamed(data: Data, recipe: Recipe, *, length: int, windows: int, layout: Layout | None = None) -> Data:
    """Limit a streamed corpus to the bytes that the recipe needs; return other corpora as they are."""
    most = at_most(data)
    if most is None:
        return data
    most = min(most, needed_bytes(data, recipe, length=length, windows=windows, layout=layout))
    corpus = replace(data.corpus, settings={**data.corpus.settings, "at_most": most})
    return data.model_copy(update={"corpus": corpus})
