"""Data: corpora, tokenizers, token caches, batches, content fingerprints.

    text.py              Text, Skipped, the three splits, and what a source of texts is
    survey.py            the files of a source by name, size and time, and the stamp that says nothing changed
    standard_library.py  `python_stdlib`: the source files of the running interpreter's standard library
    local_files.py       `files: [...]`: local text files, read through `datasets`
    hub.py               `hub: ...`: a data set of the Hugging Face hub, streamed through `datasets`
    splits.py            which folder goes to train, tuning or verdict
    corpus.py            read_corpus: a source read and divided
    tokenizer.py         bytes, and byte-level BPE
    report.py            CorpusReport: what was found, and check_corpus: whether it is enough
    cache.py             files that are whole or absent
    streams.py           prepare, fingerprint: corpus to token streams, by way of the cache
    repetition.py        how often two tokens of one sequence are the same
    epochs.py            Epochs: how often training reads its text, and how much of that is repeated
    batches.py           Batches, evaluation_windows: the only file here that imports torch

A planner imports all but `batches`; `datasets` and `tokenizers` are imported when a space asks for them.
This room never knows what a model is, never draws a random number that is not a function of (seed, step) or of (seed,
split), and never leaves a text out without naming it.

2026: splits go by folder, not by file, since files of one folder quote each other (design.md, decision 13).
2026: the data position is the step. A batch is computed from (seed, step) alone, so a resumed trial needs no state
of a data loader, and every variant of one seed sees the same batches in the same order.
2026: evaluation windows are drawn by seed, the same for all variants of one. Those that all seeds share are a sample of
the text that no interval over seeds contains.
"""
