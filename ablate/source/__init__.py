"""Source: YAML with file, line and column on every value, and messages that point at a mistake in it.

    located.py      Source, Span, and the immutable values Scalar, Mapping, Items; to_python
    core_schema.py  which plain words are numbers, true, false or null (YAML 1.2)
    yaml.py         read_yaml, parse_yaml: a file or a text to located values
    compose.py      from parser events to located values, within limits
    syntax.py       the errors of the YAML parser in plain words
    overlay.py      one document laid over another; `--set path=value`
    excerpt.py      a line of source with carets under the right columns
    problems.py     Problem, Problems: every mistake at once, rendered; "did you mean"
    annotations.py  what the types of pydantic documents accept, in words; the path to a field
    document.py     located values to frozen pydantic documents, mistakes in plain words

This room never knows what a transformer is, chooses no default, and starts nothing.

Why PyYAML's events and not its loader: the loader reads YAML 1.1 (`1e-6` is text, `off` is false), keeps the last
of two equal keys, and drops every position. Events carry positions, and limits apply while the text is read.
"""
