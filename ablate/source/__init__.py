"""Source: YAML with file, line and column on every value, and messages that point at a mistake in it.

    located.py      Source, Span, and the immutable values Scalar, Mapping, Items; to_python
    yaml.py         read_yaml, parse_yaml: a file or a text to located values; one over another, `--set path=value`
    compose.py      from parser events to located values, by YAML 1.2 and within limits; the parser's errors in words
    problems.py     Problem, Problems: every mistake at once, with its line of source and carets; "did you mean"
    annotations.py  what the types of pydantic documents accept, in words; the path to a field
    document.py     located values to frozen pydantic documents, mistakes in plain words

This room never knows what a transformer is, chooses no default, and starts nothing.

Why PyYAML's events and not its loader: the loader reads YAML 1.1 (`1e-6` is text, `off` is false), keeps the last
of two equal keys, and drops every position. Events carry positions, and limits apply while the text is read.
"""
