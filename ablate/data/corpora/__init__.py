"""Corpora, one per file: the settings that a space gives one, and the code that reads its texts.

declare.py          how a file declares a corpus
python_stdlib.py    the source files of the running interpreter's standard library
code_docstrings.py  pairs of its functions and the first paragraphs of their docstrings
files.py            local text files, one document per file
jsonl.py            local files of JSON objects, one document per line
parquet.py          local Parquet files, one document per row
hub.py              a data set of the Hugging Face hub, and how the rows of one are read
hub_pairs.py        pairs of such a data set
hub_images.py       images of such a data set, with their classes
digits.py           scikit-learn's images of handwritten digits
drawn_images.py     images of CIFAR's layout, drawn here
drawn_speech.py     frames of a filter bank with their transcripts, drawn here

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
