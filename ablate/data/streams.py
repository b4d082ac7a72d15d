"""Corpus to token streams, through the cache.

If nothing changed, `fingerprint` answers from names, sizes and times of files, so that every plan can afford it;
`prepare` opens the streams themselves and verifies their checksum. Both read the corpus if it is new or seems changed,
and both give the same fingerprint: it hashes contents, in order, with splits and tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from ablate.block.catalogue import Catalogue, additions_at_default
from ablate.data.cache import CachedTokens, Found, load_tokens, recall, remember, store_tokens
from ablate.data.corpus import Corpus, CorpusReport, SplitReport, corpus_of, divide, share_notes, source_of
from ablate.data.pair_stream import Pairs, length_note, require_pairs, require_separators
from ablate.data.record_stream import VERSION as OF_RECORDS
from ablate.data.record_stream import RecordCodec, Records, report_on, require_records
from ablate.data.sources import SPLITS, CorpusError, Split, TextSource
from ablate.data.standardisation import Standard, standard_of, whitening_notes
from ablate.data.tokenizer import Tokenizer, Tokens, describe_tokenizer, tokenizer_from, train_tokenizer, vocab_size_of
from ablate.errors import RefusedError
from ablate.space.data import CorpusSettings, CorpusSpec, Data, Layout

FORMAT = 1
"""To be raised when the same texts give other tokens or other splits than before: it enters every fingerprint."""


@dataclass(frozen=True, eq=False)
class TokenStreams:
    """The tokens of each split, read-only and mapped from the cache, and the report on them.

    Of examples that are no text, they are records of a `layout`, given to a model by a `standard`.
    """

    train: Tokens
    tuning: Tokens
    verdict: Tokens
    tokenizer: Tokenizer
    report: CorpusReport
    layout: Layout | None = None
    standard: Standard | None = None

    @property
    def vocab_size(self) -> int:
        return self.report.vocab_size

    @property
    def fingerprint(self) -> str:
        """The fingerprint in hexadecimal: equal for equal texts, splits and tokenizer, on every machine."""
        return self.report.fingerprint

    def split(self, name: Split) -> Tokens:
        return {"train": self.train, "tuning": self.tuning, "verdict": self.verdict}[name]

    def records(self, name: Split) -> Records:
        """The examples of one split, where they are no text."""
        assert self.layout is not None, "a corpus of text has no records"
        return Records(self.split(name), self.layout)


def fingerprint(
    data: Data, folder: Path, cache: Path, catalogue: Catalogue | None = None, *, kept: bool = False
) -> CorpusReport:
    """Return the report on a corpus: without reading any text if its files seem unchanged, else as `prepare` does.

    A file that changed while its size and modification time stayed the same is not noticed. Where files are gone,
    the report is the last one, with a note that says so, if their tokens are `kept` to be used; else that is a
    CorpusError.
    """
    source, spec = source_of(data, folder, catalogue), corpus_of(data, catalogue)
    try:
        known = _recalled(source, data, cache, _stamp(source, spec.version))
        return known or _prepare(source, spec, data, folder, cache).report
    except CorpusError as error:
        if not kept:
            raise
        report, _ = _last(source, data, cache, error)
        note = f"{error.faults[0].message}: the tokens that the results keep of it are read"
        return report.model_copy(update={"notes": (*report.notes, note)})


def prepare(data: Data, folder: Path, cache: Path, catalogue: Catalogue | None = None) -> TokenStreams:
    """Return the token streams of a corpus, made anew unless the cache holds them intact.

    `folder` is where relative patterns start; `cache` may be shared by any number of processes. Where files are gone,
    the tokens last read of them are returned: whether these may stand for them is for `fingerprint` to say.
    Raises CorpusError and InputError as `divide` does, and RefusedError if the cache cannot be written.
    """
    source, spec = source_of(data, folder, catalogue), corpus_of(data, catalogue)
    try:
        return _prepare(source, spec, data, folder, cache)
    except CorpusError as error:
        return _streams(*_last(source, data, cache, error), spec.layout(data.corpus.settings), cache, data)


def _prepare(source: TextSource, spec: CorpusSpec, data: Data, folder: Path, cache: Path) -> TokenStreams:
    stamp = _stamp(source, spec.version)  # before reading, so that a change in the meantime is noticed the next time
    settings: CorpusSettings = spec.read(data.corpus.settings)
    layout = settings.layout
    known = _recalled(source, data, cache, stamp)
    held = load_tokens(cache, known.fingerprint) if known else None
    if known and held:
        return _streams(known, held, layout, cache, data)
    corpus = divide(source, data, layout)
    if pairs := settings.pairs:
        require_pairs(corpus)
    if layout is not None:
        require_records(layout, corpus.texts)
    identity = _identity(corpus, data, layout)
    if not (known and known.fingerprint == identity):  # else load_tokens has just found it damaged
        held = load_tokens(cache, identity)
    held = held or _tokenise(corpus, identity, data, folder, cache, layout)
    report = _report(corpus, identity, data, held, pairs=pairs, layout=layout)
    remember(cache, _key(source, data), Found(stamp=stamp or "", report=report))  # "" is no stamp that is looked for
    return _streams(report, held, layout, cache, data)


def _last(source: TextSource, data: Data, cache: Path, error: CorpusError) -> tuple[CorpusReport, CachedTokens]:
    """The report on a source and its tokens as they were last read; raises the error where none are kept."""
    report = recall(cache, _key(source, data))
    held = load_tokens(cache, report.fingerprint) if report else None
    if report is None or held is None:
        raise error
    return report, held


def _stamp(source: TextSource, version: int) -> str | None:
    """The stamp of a source as this version of the corpus reads it."""
    stamp = source.stamp()
    return stamp if stamp is None or version == 1 else f"{version}/{stamp}"


def _recalled(source: TextSource, data: Data, cache: Path, stamp: str | None) -> CorpusReport | None:
    return recall(cache, _key(source, data), stamp) if stamp is not None else None


def _tokenise(
    corpus: Corpus, identity: str, data: Data, folder: Path, cache: Path, layout: Layout | None
) -> CachedTokens:
    tokenizer: Tokenizer
    if layout is None:
        tokenizer = train_tokenizer(data.tokenizer, corpus.texts["train"], folder)
    else:
        tokenizer = RecordCodec(layout)
    streams = {split: tokenizer.encode(corpus.texts[split]) for split in SPLITS}
    store_tokens(cache, identity, streams, tokenizer.to_json())
    held = load_tokens(cache, identity)
    if held is None:
        raise RefusedError(
            f"the corpus cache in {cache} does not contain what was just written there. Check that disk, "
            "or choose another folder with --results."
        )
    return held


def _streams(report: CorpusReport, held: CachedTokens, layout: Layout | None, cache: Path, data: Data) -> TokenStreams:
    standard = None
    if layout is not None and report.records is not None:
        train = Records(held.streams["train"], layout)
        standard = standard_of(report.records, train, data.whiten, cache, report.fingerprint)
    return TokenStreams(
        **{str(split): tokens for split, tokens in held.streams.items()},
        tokenizer=_tokenizer(data, held, layout),
        report=report,
        layout=layout,
        standard=standard,
    )


def _tokenizer(data: Data, held: CachedTokens, layout: Layout | None) -> Tokenizer:
    return tokenizer_from(data.tokenizer, held.tokenizer) if layout is None else RecordCodec(layout)


def _report(
    corpus: Corpus, identity: str, data: Data, held: CachedTokens, *, pairs: bool, layout: Layout | None
) -> CorpusReport:
    shares = {"train": 1 - data.tuning - data.verdict, "tuning": data.tuning, "verdict": data.verdict}
    splits = {
        split: SplitReport(
            asked=shares[split],
            files=len(corpus.texts[split]),
            bytes=corpus.bytes_of(split),
            tokens=len(held.streams[split]),
        )
        for split in SPLITS
    }
    report = CorpusReport(
        title=corpus.title,
        tokenizer=_described(data, layout),
        fingerprint=identity,
        vocab_size=vocab_size_of(data.tokenizer) if layout is None else layout.classes,
        **splits,
        skipped=corpus.skipped,
        notes=(),
        pairs=pairs,
        records=None if layout is None else report_on(layout, held.streams["train"]),
    )
    tokenizer = _tokenizer(data, held, layout)
    notes = (*corpus.notes, *share_notes(report), *_vocabulary_notes(tokenizer))
    if pairs:
        require_separators(corpus, held.streams, tokenizer.separator)
        notes = (*notes, length_note(Pairs(held.streams["train"], tokenizer.separator)))
    if report.records is not None:
        notes = (*notes, report.records.note, *whitening_notes(data.whiten))
    return report.model_copy(update={"notes": notes})


def _vocabulary_notes(tokenizer: Tokenizer) -> tuple[str, ...]:
    if tokenizer.used == tokenizer.vocab_size:
        return ()
    return (
        f"the training split yields {tokenizer.used:,} of the {tokenizer.vocab_size:,} requested tokens: "
        "no further pair occurs twice, and the other ids are never used",
    )


def _described(data: Data, layout: Layout | None) -> str:
    return describe_tokenizer(data.tokenizer) if layout is None else str(layout)


def _identity(corpus: Corpus, data: Data, layout: Layout | None) -> str:
    """Hash what the tokens depend on: contents, order, splits, tokenizer; not names, times, machines or shares.

    Of records, also what is made of them on the way to a model.
    """
    hashed = [FORMAT, corpus.digest, _described(data, layout)]
    if layout is not None:
        hashed += [OF_RECORDS, layout.targets, layout.classes, data.whiten]
    described = json.dumps(hashed)
    return hashlib.sha256(described.encode()).hexdigest()


def _key(source: TextSource, data: Data) -> str:
    """The name of a source in the cache: a hash of where it is on this machine and of all that `data` says."""
    told = data.model_dump(mode="json", exclude=additions_at_default(data))
    described = json.dumps([FORMAT, source.title, source.place, told, describe_tokenizer(data.tokenizer)])
    return hashlib.sha256(described.encode()).hexdigest()[:32]
