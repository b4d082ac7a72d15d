"""How much a space reads of a corpus that is read as far as asked: what its steps ask for, and no more than `at_most`.

    asked = M b max(S B T / r_train,  max over held-out splits of W (T + 1) / r_split)        rounded up to a power of 2

    S steps, B sequences of T tokens a batch, W evaluation windows, r a split's share of the text, b bytes a token
    (1 where tokens are bytes, else about 4), M a margin of 2: at half an epoch a fifth of what is read repeats.

A power of 2, and `LEAST` at least, so that recipes that are nearly alike have one corpus, and a few steps no poor
tokenizer. It is a function of the space's own recipe, so that all of its trials, whatever budget or rate they are
given, see one text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ablate.space.documents import Data, Recipe

MARGIN: Final = 2
LEAST: Final = 2**26
"""64 MiB."""
BYTES_A_TOKEN: Final = {"bytes": 1, "bpe": 4}


def asked_bytes(data: Data, recipe: Recipe, *, context: int, windows: int) -> int:
    """The bytes of text that training and evaluation ask for, with the margin."""
    a_token = BYTES_A_TOKEN["bytes" if data.tokenizer == "bytes" else "bpe"]
    needs = [recipe.steps * recipe.batch * context / max(1 - data.tuning - data.verdict, 1e-9)]
    needs += [windows * (context + 1) / share for share in (data.tuning, data.verdict) if share > 0]
    return max(LEAST, 1 << (int(MARGIN * a_token * max(needs)) - 1).bit_length())


def at_most(data: Data) -> int | None:
    """The bytes of text that are read at most; None of a corpus that is read whole."""
    return data.corpus.settings.get("at_most")


def streamed(data: Data, recipe: Recipe, *, context: int, windows: int) -> Data:
    """The same text; at most what is asked for of a corpus that is read as far as asked."""
    most = at_most(data)
    if most is None:
        return data
    most = min(most, asked_bytes(data, recipe, context=context, windows=windows))
    corpus = replace(data.corpus, settings={**data.corpus.settings, "at_most": most})
    return data.model_copy(update={"corpus": corpus})
