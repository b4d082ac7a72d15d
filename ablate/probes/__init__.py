"""Probes: what is read off a model while it trains, one probe per file, each with its equation and its source.

    declare.py   how a probe declares itself
    registry.py  the probes that there are, and what each number means
    reading.py   a number read off a model, and what reads it
    sites.py     the other places of the stream at which a probe may read
    watch.py     probes hung on a model for one forward and backward pass, and taken off again

The folder is the list: a file that declares a probe is found, and a plugin or a distribution adds its own.

A probe names its readings and the place they were taken; when that was is the trainer's to know. Never here: a number
that depends on the probe's own rounding (probes compute in float64), a hook that outlives the pass it was hung for, or
a change to what training computes.
"""
