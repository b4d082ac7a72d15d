"""Objectives, one per file: what a model is given and is to predict, its loss, and what an evaluation measures.

declare.py        how a file declares an objective
cross_entropy.py  what objectives share whose loss is a cross-entropy

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
