"""Data: the corpus of a space, the tokenizer that cuts it into tokens, and what is held out of it.

A file declares a corpus; `data.corpus` names one with its settings. A tokenizer is trained on the training split, or
saved in a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_serializer

from ablate.extension.declaration import CORPUS, Configured, Kind
from ablate.source.annotations import described, fields
from ablate.source.document import Hints, shown, validate
from ablate.source.located import Located, Mapping, Scalar, Span
from ablate.source.problems import Problems, listed, nearest, quote
from ablate.space.documents import (
    ELSEWHERE,
    HINTS,
    CorpusChoice,
    Document,
    Later,
    NotNegative,
    OrNone,
    SectionReader,
    Share,
    as_tuple,
    checked_pattern,
    is_inside,
    without_settings,
)

# Tokenizers that are trained on the training split, and the name of a saved one


class Bpe(Document):
    """Byte-level BPE trained on the training split: `bpe: 32000`, the 256 bytes and an end of text included."""

    bpe: Annotated[int, Field(ge=257, le=65536)]


class Pieces(Document):
    """WordPiece: `size` pieces at most, five special tokens included; `lowercase` drops case and accents."""

    size: Annotated[int, Field(ge=6, le=65536)]
    lowercase: bool


def _pieces(value: object) -> object:
    """Read a bare number as WordPiece that drops case and accents, as BERT's first release does."""
    return value if isinstance(value, dict | Pieces) else {"size": value, "lowercase": True}


class WordPiece(Document):
    """WordPiece trained on the training split: `wordpiece: 32768`, or `wordpiece: {size: 32768, lowercase: false}`."""

    wordpiece: Annotated[Pieces, BeforeValidator(_pieces)]
    separator: ClassVar[int] = 3  # the token that ends a document: `[SEP]`
    loses: ClassVar[str] = "WordPiece loses white space and unknown words"


class Unigram(Document):
    """Unigram pieces trained on the training split: `unigram: 8000`, with five special tokens and the 256 bytes."""

    unigram: Annotated[int, Field(ge=262, le=65536)]
    separator: ClassVar[int] = 3  # the token that ends a document: `</s>`


class TokenizerFile(Document):
    """A tokenizer that was trained elsewhere: `file: tokenizer.json`, as the library `tokenizers` saves one.

    The path is absolute, or relative to the space's folder, which it must not leave. Its tokens are known once the file
    is read, as a `SavedTokenizer`.
    """

    file: Annotated[str, AfterValidator(checked_pattern)]

    @model_serializer
    def _serialised(self) -> dict[str, str]:
        return {"file": self.identity}

    @property
    def identity(self) -> str:
        return self.file

    @property
    def separator(self) -> int:
        raise AssertionError(f"{self.file} is read with its space: see space/data.py")

    @property
    def special(self) -> dict[str, int]:
        return {}

    @property
    def loses(self) -> str:
        return ""


TokenizerChoice: TypeAlias = Literal["bytes"] | Bpe | WordPiece | Unigram | TokenizerFile


# Declarations of corpora, settings that several share, and the reading of `data.corpus`

UNITS_OF_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
COMMAND = "ablate list corpora"


def _bytes(value: object) -> object:
    """Convert `4 GiB` to a number of bytes; return anything else as it is."""
    if not isinstance(value, str):
        return value
    number, unit = value.strip()[:-3].strip(), value.strip()[-3:]
    try:
        return int(float(number) * UNITS_OF_BYTES[unit])
    except (KeyError, ValueError, OverflowError):
        return value


Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=1, description="a number of bytes, or a size such as 4 GiB")]
Patterns = Annotated[
    tuple[Annotated[str, AfterValidator(checked_pattern)], ...], BeforeValidator(as_tuple), Field(min_length=1)
]
"""Glob patterns, absolute or relative to the space's folder, which they must not leave."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The form of an example that is no text: values of a `shape` and a `dtype`, and the targets that label it.

    `shape` is (channels, height, width) of images, or (times, features) of frames, of which an example has at most that
    many. `targets` is 0 for one class of each example, or n for a sequence of at most n tokens; `classes` is the number
    of classes, or of tokens.
    """

    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    targets: int
    classes: int

    @property
    def bytes(self) -> int:  # of the values of one example, without its targets
        return prod(self.shape) * {"uint8": 1, "float32": 4}[self.dtype]

    @property
    def kind(self) -> Literal["images", "frames"]:
        return "images" if len(self.shape) == 3 else "frames"

    def __str__(self) -> str:
        return f"{self.kind} of {' x '.join(map(str, self.shape))} ({self.dtype})"


class CorpusSettings(Document):
    """The settings of a corpus. The first field has the name of the corpus; a corpus without fields is just its name.

    With a field `at_most`, at most so many bytes of text are read, and no more than the steps need (see
    `space/fits.py`); if it is null, all of it is read.
    """

    @property
    def patterns(self) -> tuple[str, ...]:
        """The glob patterns of its local files, if it has any."""
        return ()

    @property
    def pairs(self) -> bool:
        """True if its texts are pairs: a source and then its target, both in one folder (see `data/pair_stream.py`)."""
        return False

    @property
    def layout(self) -> Layout | None:
        """The layout of its examples, which are then records (see `data/record_stream.py`); None if they are text."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CorpusSpec(Configured):
    """A corpus; `data.corpus` names one, by its name alone or by a mapping with a key of that name."""

    kind: ClassVar[Kind] = CORPUS

    def layout(self, settings: Map[str, JsonValue]) -> Layout | None:
        """Return the layout of the examples of the corpus with these settings; None if they are text."""
        read: CorpusSettings = self.read(settings)
        return read.layout


def read_corpus_choice(
    located: Located, key: Span, known: Map[str, CorpusSpec], where: str, problems: Problems, hints: Hints
) -> CorpusChoice | None:
    """Read the corpus that the value of `key` at the address `where` names; None after a mistake, which is noted."""
    accepts, way = f"{where} accepts", hints.way(where)
    if isinstance(located, Scalar) and isinstance(located.value, str):
        spec = known.get(located.value)
        if spec is None:
            message = f"unknown corpus {quote(located.text)}"
            problems.add_unknown(message, located.span, located.text, known, accepts, command=COMMAND, notes=way)
        elif spec.settings.model_fields:
            problems.add(f"{where}: expected {described(spec.settings)}, got {shown(located)}", located.span, notes=way)
        else:
            return CorpusChoice(spec.name)
        return None
    if not isinstance(located, Mapping):
        message = f"{where}: expected the name of a corpus, or a mapping with it as a key, got {shown(located)}"
        problems.add(message, located.span, notes=(*listed(shown(located), tuple(known), accepts, COMMAND), *way))
        return None
    named = [name for name in known if name in located]
    if len(named) > 1:
        problems.add(f"{where} must name one corpus, not {', '.join(named)}", located.key(named[-1]).span, notes=way)
        return None
    spec = known[named[0]] if named else _meant(located, known)
    if spec is None:
        message = f"{where}: no key names a corpus, got {shown(located)}"
        problems.add(message, located.span, notes=(*listed("", tuple(known), accepts, COMMAND), *way))
        return None
    if not spec.settings.model_fields:
        label = f"write just its name: corpus: {spec.name}"
        problems.add(f"corpus {spec.name} has no settings", located.span, label=label)
        return None
    settings = validate(spec.settings, Mapping(located.entries, key), problems, where, hints)
    return None if settings is None else CorpusChoice(spec.name, settings.model_dump(mode="json"))


def _meant(located: Mapping, known: Map[str, CorpusSpec]) -> CorpusSpec | None:
    """Return the corpus that shares most of these keys, or keys like them; None if there is no single best one."""

    def shared(spec: CorpusSpec) -> float:
        accepted = tuple(fields(spec.settings))
        return sum(1.0 if key in accepted else 0.5 if nearest(key, accepted) else 0.0 for key in located)

    scores = {name: shared(spec) for name, spec in known.items()}
    most = max(scores.values(), default=0)
    best = [name for name, score in scores.items() if score == most > 0]
    return known[best[0]] if len(best) == 1 else None


# Tokenizers in files: what a space needs to know of one before any text is read, and what is wrong with a file.
#
# It is known by its content, not by its name: the same file elsewhere is the same tokenizer.

LARGEST: Final = 2**16  # the most tokens, since token streams hold 16 bits for each
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


class SavedTokenizer(TokenizerFile):
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

    @property
    def identity(self) -> str:
        """The hash of its content, not its name."""
        return self.content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SavedTokenizer) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    @property
    def separator(self) -> int:
        return self.separator_id

    @property
    def special(self) -> dict[str, int]:
        known = {"padding": self.padding, "start": self.start, "mask": self.mask}
        return {name: id for name, id in known.items() if id is not None}

    @property
    def loses(self) -> str:
        return f"{self.file} {self.lossy}" if self.lossy else ""


class UnusableFileError(ValueError):
    """A file that is no tokenizer for a space, and the ways out."""

    def __init__(self, message: str, *notes: str):
        super().__init__(message)
        self.message, self.notes = message, notes


def read_saved(saved: TokenizerFile, folder: Path, kept: Map[str, str] | None = None) -> SavedTokenizer:
    """Read the file of a tokenizer; UnusableFileError for one that cannot be used.

    A text that is `kept` of it is read instead of the file, also by `text_of` from then on.
    """
    text = (kept or {}).get(saved.file)
    read = _read_tokenizer(text_of(saved, folder) if text is None else text).model_copy(update={"file": saved.file})
    if text is not None:
        _KEPT[read.content] = text
    return read


def text_of(saved: TokenizerFile, folder: Path) -> str:
    """Return the text of the file of a tokenizer. Raises UnusableFileError if it cannot be read."""
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
        raise UnusableFileError(f"cannot read the tokenizer {quote(saved.file)}: {_first_line(error)}", SAVE) from error


@lru_cache(maxsize=8)
def _read_tokenizer(text: str) -> SavedTokenizer:
    """Read the text of a file, once for the many spaces that changes make of one."""
    from tokenizers import Tokenizer

    try:
        described = json.loads(text)
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library has no class of its own for what it cannot read
        raise UnusableFileError(
            f"this is no tokenizer of the library tokenizers: {_first_line(error)}", SAVE
        ) from error
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    size = max(vocabulary.values(), default=-1) + 1
    if size > LARGEST:
        message = f"the tokenizer has {size:,} tokens, but a stream of tokens has room for {LARGEST:,}"
        raise UnusableFileError(message, "use one with a smaller vocabulary, or train one: {bpe: 32000}")
    if (described.get("model") or {}).get("dropout"):
        message = "the tokenizer drops merges at random, so that a text has no tokens of its own"
        raise UnusableFileError(message, "save it with model.dropout = None")
    special = {added.content: id for id, added in tokenizer.get_added_tokens_decoder().items() if added.special}
    separator = _first_of(SEPARATORS, special)
    if separator is None:
        found = f"its special tokens: {', '.join(sorted(special))}" if special else "it has no special tokens"
        message = "the tokenizer has no special token that ends a document"
        raise UnusableFileError(message, f"one of: {', '.join(SEPARATORS)}", found)
    return SavedTokenizer(
        file="",
        content=hashlib.sha256(text.encode()).hexdigest(),
        size=size,
        separator_id=separator,
        padding=_first_of(PADDINGS, special),
        mask=_first_of(MASKS, special),
        start=_first_of(STARTS, special),
        lossy=next(_losses(described, vocabulary, tokenizer), ""),
    )


def _first_of(names: Iterable[str], special: dict[str, int]) -> int | None:
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


def _first_line(error: BaseException) -> str:
    said = error.strerror if isinstance(error, OSError) else str(error)
    return (said or type(error).__name__).partition("\n")[0]


class Data(Document):
    """The text: a corpus, cut into tokens, with the share of folders held out for the tuning and verdict splits.

    A corpus of images may be whitened by PCA, with `whiten` added to each variance (see `data/standardisation.py`).
    """

    corpus: Annotated[CorpusChoice, Field(description="a corpus, such as {files: ['texts/**/*.txt']}")]
    tokenizer: TokenizerChoice
    tuning: Share
    verdict: Share
    whiten: Annotated[NotNegative | None, OrNone, Later] = None

    @property
    def separator(self) -> int:
        """The token that ends a document: `[SEP]` of WordPiece, `</s>` of unigram, that of a file, else 0."""
        return self.tokenizer.separator if isinstance(self.tokenizer, WordPiece | Unigram | TokenizerFile) else 0

    @property
    def special(self) -> dict[str, int]:
        """The tokens that stand for no text, beside the separator."""
        match self.tokenizer:
            case WordPiece() | Unigram():
                return {"padding": 0, "start": 2, "mask": 4}
            case TokenizerFile():
                return self.tokenizer.special
        return {}

    @property
    def loses(self) -> str:
        """The loss of text in tokens, so that they have no bytes, in words; empty if tokens give the text back."""
        return self.tokenizer.loses if isinstance(self.tokenizer, WordPiece | TokenizerFile) else ""


class DataReader(SectionReader):
    def read(self) -> Data | None:
        located = self.located.get("data")
        if not isinstance(located, Mapping):
            return self.section("data", Data)
        plain = without_settings(located, "corpus")
        data = validate(Data, self.opened("data", plain.entries), self.problems, "data", HINTS)
        known = self.grammar.catalogue.of_kind(CorpusSpec)
        corpus = None
        if "corpus" in located:
            place = located.key("corpus").span
            corpus = read_corpus_choice(located["corpus"], place, known, "data.corpus", self.problems, HINTS)
        if data is not None and data.tuning + data.verdict >= 1:
            held_out = f"{data.tuning:.0%} for tuning and {data.verdict:.0%} for the verdict"
            both, notes = (("data", "tuning"), ("data", "verdict")), ("hold out less, such as 5% each",)
            self.origins.add(self.problems, f"{held_out} leave nothing to train on", *both, notes=notes)
            return None
        tokenizer = None if data is None else self._tokenizer(data)
        if data is None or corpus is None or tokenizer is None:
            return None
        return data.model_copy(update={"corpus": corpus, "tokenizer": tokenizer})

    def _tokenizer(self, data: Data) -> TokenizerChoice | None:
        if isinstance(data.tokenizer, Unigram) and find_spec("sentencepiece") is None:
            place = self.origins.key("data", "tokenizer", "unigram")
            notes = ("pip install 'ablate[unigram]'", "or let data.tokenizer be bytes or {bpe: 32000}")
            self.problems.add("unigram is trained by sentencepiece, which is not installed", place, notes=notes)
            return None
        if not isinstance(data.tokenizer, TokenizerFile):
            return data.tokenizer
        try:
            return read_saved(data.tokenizer, Path(self.origins.file).parent, self.origins.tokenizers)
        except UnusableFileError as error:
            place = self.origins.value("data", "tokenizer", "file")
            self.problems.add(error.message, place, notes=error.notes)
            return None
