"""The objectives, one per file: what a model is given, what it is to predict, its loss and what an evaluation measures.

declare.py      how an objective declares itself
"""
