"""Text as a choice of documents: a word alone, or one of two mappings that share no key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ablate.data.corpora.files import Files
from ablate.space.data import Bpe
from ablate.space.documents import Document, Share


def _size(value: object) -> object:
    return int(value[:-4]) * 2**30 if isinstance(value, str) and value.endswith(" GiB") else value


class Hub(Document):
    hub: str
    config: str | None = None
    split: str
    field: str
    at_most: Annotated[
        int, BeforeValidator(_size), Field(ge=1, description="a number of bytes, or a size such as 4 GiB")
    ] = 2**30


class Data(Document):
    corpus: Literal["python_stdlib"] | Files | Hub
    tokenizer: Literal["bytes"] | Bpe
    tuning: Share
    verdict: Share
