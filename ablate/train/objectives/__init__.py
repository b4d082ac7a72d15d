"""Objectives, one per file: what a model is given and is to predict, its loss, and what an evaluation measures.

declare.py        how a file declares an objective
cross_entropy.py  what objectives share whose loss is a cross-entropy
mixtures.py       the loss of mixtures of two classes
teacher_forced.py what objectives share in which a decoder predicts a target

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
