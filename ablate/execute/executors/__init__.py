"""Executors, one per file.

    declare.py  how a file declares an executor, and the choice of a run's executor

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
