"""Corpora, one per file: the settings that a space gives one, and the code that reads its texts.

declare.py        how a file declares a corpus
python_stdlib.py  the source files of the running interpreter's standard library
files.py          local text files, one document per file
jsonl.py          local files of JSON objects, one document per line
parquet.py        local Parquet files, one document per row
hub.py            a data set of the Hugging Face hub

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
