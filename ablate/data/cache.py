"""Cache files that are either complete or absent: token streams with a checksum, and the last report on a source.

    <fingerprint>.tokens    the tokens of train, tuning and verdict, one after the other, uint16 little-endian
    <fingerprint>.json      their lengths, checksum and tokenizer; written last, so tokens without it do not count
    <source>.found.json     the stamp of a source, and the report made when it had that stamp
    <fingerprint>.<…>.json  what was counted in the tokens
    <fingerprint>.<…>.f8    numbers computed from them, float64 little-endian, behind the SHA-256 of their bytes

Every file is written under a temporary name, synced, then renamed. The content of a file is a function of the
fingerprint in its name, so two processes that write at once replace it by the same bytes, and no lock is needed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ablate.data.corpus import CorpusReport
from ablate.data.sources import SPLITS, Split
from ablate.data.tokenizer import Tokens
from ablate.errors import RefusedError
from ablate.space.documents import Document

ON_DISK = np.dtype("<u2")
Floats = npt.NDArray[np.float64]
ABANDONED_AFTER_S = 24 * 3600.0
PARTIAL = ".partial"

SomeDocument = TypeVar("SomeDocument", bound=Document)
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CachedTokens:
    """Token streams mapped into memory, and the trained tokenizer (None if it needs no training)."""

    streams: Mapping[Split, Tokens]
    tokenizer: str | None


class Sidecar(Document):
    """The metadata of a file of tokens."""

    lengths: dict[Split, int]
    checksum: str
    tokenizer: str | None


class Found(Document):
    """A source as it was when it had this stamp."""

    stamp: str
    report: CorpusReport


def store_tokens(cache: Path, fingerprint: str, streams: Mapping[Split, Tokens], tokenizer: str | None) -> None:
    """Store token streams. Raises RefusedError if the cache cannot be written."""
    arrays = [np.ascontiguousarray(streams[split], dtype=ON_DISK) for split in SPLITS]
    running = hashlib.sha256()
    for array in arrays:
        running.update(array.data)
    sidecar = Sidecar(
        lengths={split: len(streams[split]) for split in SPLITS}, checksum=running.hexdigest(), tokenizer=tokenizer
    )
    sweep(cache)
    write_whole(cache / f"{fingerprint}.tokens", (array.data for array in arrays))
    write_whole(cache / f"{fingerprint}.json", [_seal(sidecar)])


def load_tokens(cache: Path, fingerprint: str) -> CachedTokens | None:
    """Load token streams; None if they are absent, or damaged (which is logged)."""
    path = cache / f"{fingerprint}.tokens"
    try:
        sidecar = _unseal(Sidecar, cache / f"{fingerprint}.json")
        if sidecar is None:
            return None
        tokens = _tokens(path, sidecar)
    except (OSError, ValueError) as error:  # np.memmap raises ValueError for a file of no or an odd number of bytes
        _log.warning("token cache %s is damaged (%s) and is rebuilt", path, error)
        return None
    ends = np.cumsum([sidecar.lengths[split] for split in SPLITS])
    streams = {split: tokens[end - sidecar.lengths[split] : end] for split, end in zip(SPLITS, ends, strict=True)}
    return CachedTokens(streams, sidecar.tokenizer)


def _tokens(path: Path, sidecar: Sidecar) -> Tokens:
    """The tokens of a file; ValueError if it is not as it was written."""
    tokens: Tokens = np.memmap(path, dtype=ON_DISK, mode="r")
    if len(tokens) != sum(sidecar.lengths.values()) or hashlib.sha256(tokens.data).hexdigest() != sidecar.checksum:
        raise ValueError("its content differs from what was written")
    return tokens


def remember(cache: Path, source: str, found: Found) -> None:
    """Record the content of a source while it has its stamp."""
    write_whole(cache / f"{source}.found.json", [_seal(found)])


def recall(cache: Path, source: str, stamp: str | None = None) -> CorpusReport | None:
    """The report recorded for a source (at this stamp); None if there is none, or a damaged one (logged)."""
    record = _intact(cache / f"{source}.found.json", lambda path: _unseal(Found, path), "; the corpus is read again")
    return record.report if record is not None and stamp in (None, record.stamp) else None


def store_document(cache: Path, name: str, document: Document) -> None:
    """Store a document beside the streams it was made from; `name` must include everything it is a function of."""
    write_whole(cache / f"{name}.json", [_seal(document)])


def load_document(cache: Path, name: str, kind: type[SomeDocument]) -> SomeDocument | None:
    """The document stored under a name; None if there is none, or it is damaged (which is logged)."""
    return _intact(cache / f"{name}.json", lambda path: _unseal(kind, path), " and is rebuilt")


def keep_numbers(cache: Path, name: str, numbers: Floats) -> None:
    """Store numbers beside the streams they were computed from; `name` is as for `store_document`."""
    whole = np.ascontiguousarray(numbers, dtype="<f8")
    write_whole(cache / f"{name}.f8", [hashlib.sha256(whole.data).digest(), whole.data])


def kept_numbers(cache: Path, name: str) -> Floats | None:
    """The numbers stored under a name; None if there are none, or they are damaged (which is logged)."""
    return _intact(cache / f"{name}.f8", _numbers, " and is rebuilt")


def _intact(path: Path, read: Callable[[Path], T | None], otherwise: str) -> T | None:
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s is damaged (%s)%s", path, error, otherwise)
        return None


def _numbers(path: Path) -> Floats:
    """The numbers of a file; ValueError if they are not as they were written."""
    whole = path.read_bytes()
    digest, numbers = whole[:32], whole[32:]
    if hashlib.sha256(numbers).digest() != digest:
        raise ValueError("its checksum does not match")
    return np.frombuffer(numbers, dtype="<f8").astype(np.float64)


def faults(cache: Path) -> Iterator[tuple[Path, str]]:
    """Yield the damaged files of a cache with their faults; every byte is read.

    A run that needs such a file notices the damage as well and rebuilds it; unfinished files do not count.
    """
    for path in sorted(cache.glob("*.json")):
        try:
            if "." in path.stem:
                _unsealed(path)
            elif (sidecar := _unseal(Sidecar, path)) is not None:
                _tokens(path.with_suffix(".tokens"), sidecar)
        except FileNotFoundError:
            yield path.with_suffix(".tokens"), "is missing"
        except (OSError, ValueError) as error:
            yield (path.with_suffix(".tokens") if "." not in path.stem and _is_whole(path) else path), str(error)
    for path in sorted(cache.glob("*.f8")):
        try:
            _numbers(path)
        except (OSError, ValueError) as error:
            yield path, str(error)


def write_whole(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file atomically: whatever happens, `path` holds either all of it or what it held before.

    Raises RefusedError if that fails.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise RefusedError(
            f"cannot write the corpus cache {path}: {error.strerror or error}. "
            "Free some space or grant write permission there, or choose another folder with --results."
        ) from error
    finally:
        with suppress(OSError):  # it was renamed, or the folder is not writable, which the error above reports
            partial.unlink(missing_ok=True)


def sweep(cache: Path) -> None:
    """Remove partial files that killed processes left a day ago or longer."""
    for partial in cache.glob(f"*{PARTIAL}"):
        with suppress(OSError):  # another process swept it, or it is not ours to remove
            if time.time() - partial.stat().st_mtime > ABANDONED_AFTER_S:
                partial.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where folders can be synced."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _seal(document: Document) -> bytes:
    content = document.model_dump(mode="json")
    return json.dumps({"checksum": _checksum(content), "content": content}).encode()


def _unseal(kind: type[SomeDocument], path: Path) -> SomeDocument | None:
    """Read a sealed document; None if there is no such file, ValueError if it is not as it was written."""
    content = _unsealed(path)
    return None if content is None else kind.model_validate_json(json.dumps(content))


def _unsealed(path: Path) -> Any:
    try:
        sealed = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    if not isinstance(sealed, dict) or sealed.get("checksum") != _checksum(sealed.get("content")):
        raise ValueError("its checksum does not match")
    return sealed["content"]


def _is_whole(path: Path) -> bool:
    try:
        return _unsealed(path) is not None
    except (OSError, ValueError):
        return False


def _checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
