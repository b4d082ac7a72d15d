"""Components: one mechanism per file, with its equation and its paper.

Here live: the components themselves, how they declare themselves (`declare.py`), what some of their declarations share
(`solved.py`) and how they are found: these files and a user's plugins by `registry.py`, those of other distributions by
`installed.py`.
Never: configs read from files, knowledge of the trainer, or one component importing another.
"""
