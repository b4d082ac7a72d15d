"""Components: one mechanism per file, with its equation and its paper.

Here live: the components themselves, how they declare themselves (`declare.py`) and how they are found (`registry.py`).
Never: configs read from files, knowledge of the trainer, or one component importing another.
"""
