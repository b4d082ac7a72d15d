"""Data: corpora, tokenizers, token caches, batches, content fingerprints.

    sources.py            what a source of texts is, its faults, and local files: found by patterns, each a text or rows
                          of texts
    corpora/              the corpora that a space can name, one per file
    corpus.py             read_corpus: the source that a space names, read; which folder goes to train, tuning or
                          verdict; and CorpusReport: what it holds, and whether that is enough
    subwords.py           SpecialTokens, and tokenizers whose pieces are learnt: byte-level BPE, WordPiece as BERT's,
                          unigram as SentencePiece's
    tokenizer.py          what a tokenizer is, bytes as tokens, the tokenizer that a space names, and one in a file,
                          trained elsewhere
    record_stream.py      Records: examples that are no text, in a stream, the numbers they are standardised by, and
                          sources that draw them
    standardisation.py    Standard: values of records, standardised, and PCA whitening
    cache.py              files that are either complete or absent
    streams.py            prepare, fingerprint: corpus to token streams, through the cache
    corpus_statistics.py  Epochs: how often training reads its text; Repetition of tokens, typical windows, and kernels
                          of inputs that are no text
    uniform.py            numbers drawn by a key, the same on every machine: uniform ones, and nearly normal ones
    batch.py              Batch: what a model is given, and what it is to predict; Batches, evaluation_windows
    pair_stream.py        Pairs: the pairs of a stream, and which are cut off
    pairs.py              PairBatches, evaluation_pairs, and teacher_forced: what a decoder is given of a pair
    records.py            RecordBatches, evaluation_records, and Augmentation: images of training batches, changed at
                          random

Only `batch`, `pairs` and `records` import torch, and a planner imports none; `datasets`, `pyarrow`, `tokenizers`,
`sentencepiece`, torchvision and scikit-learn are imported only when a space needs them. This package knows nothing of
models, draws no random number that is not a function of (seed, step) or of (seed, split), and reports every text that
it leaves out.

2026: splits go by folder, not by file, since files of one folder quote each other (design.md, decision 13).
2026: the data position is the step. A batch is computed from (seed, step) alone, so a resumed trial needs no state
of a data loader, and every variant of one seed sees the same batches in the same order.
2026: evaluation windows are drawn by seed, the same for all variants of one seed. If all seeds shared their windows, an
interval over seeds would leave out the sampling error of the text.
"""
