"""Sinks: what takes part of a query's weights, and gives nothing. Slot `sink`. The folder is the list."""
