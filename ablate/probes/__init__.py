"""Probes: what is read off a model while it trains, one probe a file, each with its equation and its source.

Here live: the probes, `watch.py`, which hangs them on a model for one forward and backward pass, and `registry.py`,
which finds them and lists what each number means. A probe names its readings and the place they were taken; when that
was is the trainer's to know.
Never: a number that depends on the probe's own rounding (probes compute in float64), a hook that outlives the pass it
was hung for, or a change to what training computes.
"""
