"""Tokenizers in files: what a space needs to know of one before any text is read, and what is wrong with a file.

It is known by its content, not by its name: the same file elsewhere is the same tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from ablate.source.problems import quote
from ablate.space.documents import Saved
from ablate.space.paths import ELSEWHERE, is_inside

LARGEST: Final = 2**16
"""The most tokens, since token streams hold 16 bits for each."""
SEPARATORS: Final = ("[SEP]", "</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[EOS]")
PADDINGS: Final = ("[PAD]", "<pad>", "<|padding|>", "<|pad|>")
MASKS: Final = ("[MASK]", "<mask>", "<|mask|>")
STARTS: Final = ("[CLS]", "<s>", "<cls>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>")
"""Names of special tokens; of several in a file the first is used."""
SAMPLE: Final = "A b\n\n\tc  e\u0301 \u00c9\u00a0\u4e2d\U0001f600 don't 1234 \r\n\x00 end"
"""Text that a tokenizer which loses nothing gives back."""
SAVE: Final = "save one with the library tokenizers: tokenizer.save('tokenizer.json')"
STARTS_FROM: Final = "a path starts from the folder of the space, unless it is absolute"


_KEPT: dict[str, str] = {}
"""Texts of tokenizers that were given instead of their files, by content: the files may be gone."""


class SavedTokenizer(Saved):
    """A file that was read: the hash of its content, the size of its vocabulary, and its special tokens.

    `lossy` says why its tokens do not say how much text they were; empty if they do. Equal are files of equal content.
    """

    content: str
    size: int
    separator_id: int
    padding: int | None
    mask: int | None
    start: int | None
    lossy: str

    def told(self) -> dict[str, Any]:
        """Return what identifies it: the hash of its content, not its name."""
        return {"file": self.content}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SavedTokenizer) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    @property
    def separator(self) -> int:
        """The token that ends a document."""
        return self.separator_id

    @property
    def special(self) -> dict[str, int]:
        """Its other tokens that stand for no text."""
        known = {"padding": self.padding, "start": self.start, "mask": self.mask}
        return {name: id for name, id in known.items() if id is not None}

    @property
    def loses(self) -> str:
        """Why it has no bits per byte, in words; empty if its tokens give the text back."""
        return f"{self.file} {self.lossy}" if self.lossy else ""


class UnusableFileError(ValueError):
    """A file that is no tokenizer for a space, and the ways out."""

    def __init__(self, message: str, *notes: str):
        super().__init__(message)
        self.message, self.notes = message, notes


def read_saved(saved: Saved, folder: Path, kept: Mapping[str, str] | None = None) -> SavedTokenizer:
    """Return what the file of a tokenizer says of it. Raises UnusableFileError for one that cannot be used.

    A text that is `kept` of it is read instead of the file, also by `text_of` from then on.
    """
    text = (kept or {}).get(saved.file)
    read = _read(text_of(saved, folder) if text is None else text).model_copy(update={"file": saved.file})
    if text is not None:
        _KEPT[read.content] = text
    return read


def text_of(saved: Saved, folder: Path) -> str:
    """Return the content of the file of a tokenizer. Raises UnusableFileError if it cannot be read."""
    if isinstance(saved, SavedTokenizer) and saved.content in _KEPT:
        return _KEPT[saved.content]
    path = folder / Path(saved.file).expanduser()
    if not path.is_file():
        label = "it is a folder" if path.is_dir() else "there is no such file"
        raise UnusableFileError(f"cannot read the tokenizer {quote(saved.file)}: {label}", STARTS_FROM, SAVE)
    if not Path(saved.file).expanduser().is_absolute() and not is_inside(path, folder):
        raise UnusableFileError(f"{quote(saved.file)} leads outside the folder of the space", ELSEWHERE)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableFileError(f"cannot read the tokenizer {quote(saved.file)}: {_why(error)}", SAVE) from error


@lru_cache(maxsize=8)
def _read(text: str) -> SavedTokenizer:
    """Return what the text of a file says; it is the same for each of the many spaces that changes give."""
    from tokenizers import Tokenizer

    try:
        described = json.loads(text)
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library has no class of its own for what it cannot read
        raise UnusableFileError(f"this is no tokenizer of the library tokenizers: {_why(error)}", SAVE) from error
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    size = max(vocabulary.values(), default=-1) + 1
    if size > LARGEST:
        message = f"the tokenizer has {size:,} tokens, but a stream of tokens has room for {LARGEST:,}"
        raise UnusableFileError(message, "use one with a smaller vocabulary, or train one: {bpe: 32000}")
    if (described.get("model") or {}).get("dropout"):
        message = "the tokenizer drops merges at random, so that a text has no tokens of its own"
        raise UnusableFileError(message, "save it with model.dropout = None")
    special = {added.content: id for id, added in tokenizer.get_added_tokens_decoder().items() if added.special}
    separator = _first(SEPARATORS, special)
    if separator is None:
        found = f"its special tokens: {', '.join(sorted(special))}" if special else "it has no special tokens"
        message = "the tokenizer has no special token that ends a document"
        raise UnusableFileError(message, f"one of: {', '.join(SEPARATORS)}", found)
    return SavedTokenizer(
        file="",
        content=hashlib.sha256(text.encode()).hexdigest(),
        size=size,
        separator_id=separator,
        padding=_first(PADDINGS, special),
        mask=_first(MASKS, special),
        start=_first(STARTS, special),
        lossy=next(_losses(described, vocabulary, tokenizer), ""),
    )


def _first(names: Iterable[str], special: dict[str, int]) -> int | None:
    return next((special[name] for name in names if name in special), None)


def _losses(described: dict[str, Any], vocabulary: dict[str, int], tokenizer: Any) -> Iterator[str]:
    """Yield why tokens do not say how many bytes of text they were; nothing for byte-level BPE that changes no text."""
    from tokenizers.pre_tokenizers import ByteLevel

    split = described.get("pre_tokenizer") or {}
    parts = split.get("pretokenizers", [split])
    levels = [part for part in parts if part.get("type") == "ByteLevel"]
    if (described.get("decoder") or {}).get("type") != "ByteLevel" or not levels or levels != parts[-1:]:
        yield "is not byte-level"
        return
    if described.get("normalizer") is not None:
        yield "normalises text"
    if levels[0].get("add_prefix_space"):
        yield "adds a space before each text"
    if any(part.get("behavior") == "Removed" for part in parts):
        yield "removes text where it splits"
    if any(added["lstrip"] or added["rstrip"] for added in described["added_tokens"] if not added["special"]):
        yield "strips white space beside some tokens"
    letters = set(ByteLevel.alphabet())
    added = {each["content"] for each in described["added_tokens"]}
    if not letters <= set(vocabulary) or any(set(token) - letters for token in set(vocabulary) - added):
        yield "has no token for some bytes"
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(SAMPLE, add_special_tokens=False).ids
    if tokenizer.decode(ids, skip_special_tokens=False) != SAMPLE:
        yield "does not give text back as it was"


def _why(error: BaseException) -> str:
    """Return the first line of what an error says."""
    said = error.strerror if isinstance(error, OSError) else str(error)
    return (said or type(error).__name__).partition("\n")[0]
