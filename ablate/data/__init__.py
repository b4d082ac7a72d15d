"""Data: corpora, tokenizers, token caches, batches, content fingerprints.

    sources.py            what a source of texts is, its faults, and local files, found by patterns
    corpora/              the corpora that a space can name, one per file
    corpus.py             Corpus: the source that a space names, divided into splits by folder; and its CorpusReport
    subwords.py           SpecialTokens, and tokenizers whose pieces are learnt: byte-level BPE, WordPiece, unigram
    tokenizer.py          what a tokenizer is, bytes as tokens, the tokenizer that a space names, and one in a file
    record_stream.py      Records: examples that are no text, in a stream, their statistics, and sources that draw them
    standardisation.py    Standard: values of records, standardised, and PCA whitening
    cache.py              files that are either complete or absent
    streams.py            prepare, fingerprint: corpus to token streams, through the cache
    corpus_statistics.py  Epochs: how often training reads its text; Repetition of tokens, typical windows, kernels
    uniform.py            numbers drawn by a key, the same on every machine: uniform ones, and nearly normal ones
    batch.py              Batch: what a model is given, and what it is to predict; Batches, evaluation_windows
    pair_stream.py        Pairs: the pairs of a stream, and which are cut off
    pairs.py              PairBatches, evaluation_pairs, and teacher_forced: what a decoder is given of a pair
    records.py            RecordBatches, evaluation_records, and Augmentation of the images of training batches

Only `batch`, `pairs` and `records` import torch, and a planner imports none; `datasets`, `pyarrow`, `tokenizers`,
`sentencepiece`, torchvision and scikit-learn are imported only when a space needs them. This package knows nothing of
models, draws no random number that is not a function of (seed, step) or of (seed, split), and reports every text that
it leaves out.
"""
