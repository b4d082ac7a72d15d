"""How a trial's tokenizer is called in `trials.tokenizer`: one name for each that cuts the same text alike."""

import pytest

from ablate.space.data import Data, SavedTokenizer
from ablate.store.pending_rows import _tokenizer

FILE = {"content": "0123456789abcdef" * 4, "size": 9, "separator_id": 0, "padding": None, "mask": None, "start": None}
NAMES = {
    "bytes": "bytes",
    "bpe 300 of fedcba98": {"bpe": 300},
    "wordpiece 300 cased of fedcba98": {"wordpiece": {"size": 300, "lowercase": False}},
    "unigram 300 of fedcba98": {"unigram": 300},
    "file 0123456789abcdef": SavedTokenizer(file="tokenizer.json", lossy="", **FILE),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", NAMES)
def test_a_tokenizer_is_named_by_what_decides_its_tokens(name):
    text = Data.model_validate({"corpus": "python_stdlib", "tokenizer": "bytes", "tuning": 0.1, "verdict": 0.1})
    written = NAMES[name]
    if isinstance(written, SavedTokenizer):
        text = text.model_copy(update={"tokenizer": written})
    else:
        text = Data.model_validate({**text.model_dump(), "tokenizer": written})
    assert _tokenizer({"data": text.model_dump(mode="json"), "corpus": "fedcba9876543210"}) == name
