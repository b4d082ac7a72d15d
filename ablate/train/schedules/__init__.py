"""Schedules, one per file: the learning rate after its peak, as a share of it. Free of torch.

declare.py  how a file declares a schedule, and what it is told about a step

The folder is the list: a file that declares one is found, and a plugin or a distribution adds its own.
"""
