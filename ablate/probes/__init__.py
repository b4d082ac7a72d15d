"""Probes: what is measured in a model while it trains, one probe per file, each with its equation and source.

    declare.py   how a probe declares itself
    registry.py  all probes, and what each number means
    reading.py   a number read from a model, and the probe that reads it
    sites.py     the other places of the residual stream where a probe may read
    watch.py     probes hooked to a model for one forward and backward pass
    update.py    the stream before and after a step of training

The folder is the list of probes. A probe names its readings and their places; the step is known to the trainer only.

Dimension key, where a file has no other: n tokens of the batch, counted by α and β; d width, its neurons by i and j.

Never here: a number that depends on the probe's own rounding (probes compute in float64), a hook that outlives its
pass, or a change to what training computes.
"""
