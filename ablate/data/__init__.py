"""Data: corpora, tokenizers, token caches, batches, content fingerprints.

    text.py         Text, Skipped, the three splits, and what a source of texts is
    survey.py       the files of a source by name, size and time, and the stamp that says nothing changed
    corpora/        the corpora that a space can name, one per file
    local_files.py  NamedFiles: local files found by patterns
    local_rows.py   local files whose rows are documents
    hub_rows.py     rows of a data set of the Hugging Face hub
    splits.py       which folder goes to train, tuning or verdict
    corpus.py       read_corpus: the source that a space names, read and divided
    special.py      SpecialTokens: the ids of a tokenizer that stand for no text
    library_tokenizer.py  what tokenizers of the library `tokenizers` have in common
    bpe.py          byte-level BPE
    wordpiece.py    WordPiece, as BERT's
    unigram.py      unigram pieces, as SentencePiece's
    saved.py        a tokenizer in a file, trained elsewhere
    tokenizer.py    what a tokenizer is, bytes as tokens, and the tokenizer that a space names
    record_stream.py  Records: examples that are no text, in a stream, and the numbers they are standardised by
    whitening.py    PCA whitening
    standard.py     Standard: values of records, standardised and whitened
    report.py       CorpusReport: what a corpus holds, and whether that is enough
    refusal.py      errors in a corpus, each with the value of the space that causes it
    cache.py        files that are either complete or absent
    streams.py      prepare, fingerprint: corpus to token streams, through the cache
    repetition.py   how often two tokens of one sequence are the same
    typical_windows.py  a few windows of a text that repeat their tokens as all of its windows do
    input_kernels.py  how alike what is read at two places is, for images, features and frames
    epochs.py       Epochs: how often training reads its text, and how much of that is repeated
    uniform.py      numbers drawn by a key, the same on every machine
    bell.py         nearly normal ones, likewise
    batch.py        Batch: what a model is given, and what it is to predict
    batches.py      Batches, evaluation_windows
    pair_stream.py  Pairs: the pairs of a stream, and which are cut off
    pairs.py        PairBatches, evaluation_pairs
    augmentation.py Augmentation: images of training batches, changed at random
    drawn.py        examples that are drawn by their numbers
    records.py      RecordBatches, evaluation_records

Only `batch`, `batches`, `pairs`, `augmentation` and `records` import torch, and a planner imports none; `datasets`,
`pyarrow`, `tokenizers`, `sentencepiece`, torchvision and scikit-learn are imported only when a space needs them. This
package knows nothing of models, draws no random number that is not a function of (seed, step) or of (seed, split), and
reports every text that it leaves out.

2026: splits go by folder, not by file, since files of one folder quote each other (design.md, decision 13).
2026: the data position is the step. A batch is computed from (seed, step) alone, so a resumed trial needs no state
of a data loader, and every variant of one seed sees the same batches in the same order.
2026: evaluation windows are drawn by seed, the same for all variants of one seed. If all seeds shared their windows, an
interval over seeds would leave out the sampling error of the text.
"""
