"""Corpora, a file each: what a space says of one, and what reads its texts.

declare.py        how a file declares a corpus
python_stdlib.py  the source files of the running interpreter's standard library
files.py          local text files, a document each
jsonl.py          local files of JSON objects, a document in each line
parquet.py        local Parquet files, a document in each row
hub.py            a data set of the Hugging Face hub

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
