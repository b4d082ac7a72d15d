"""Numbers to verdicts: what the final metrics of trials say about a plan's comparisons, and how certain that is.

This package takes plain values (an experiment, the rules of the judge, the final metrics of each run) and returns
frozen ones. It prints nothing and opens no store, and it never drops a trial: a diverged one is counted beside every
number that it is missing from.

    experiment.py         variants, comparisons and runs: of a plan, or of a table
    finals.py             how a trial ended and its last metrics
    pairing.py            which numbers may be compared: trials matched by seed, and why others are not
    contrasts.py          what comparisons test, so that a contrast tested twice is counted once
    comparison_key.py     what identifies a comparison, however it is asked
    judged_design.py       a design as its questions are told apart: what is compared, trained and measured
    account.py            the α of each comparison: what is left of it, and over which family
    margins.py            equivalence margins as numbers on a metric's scale
    hypothesis_test.py    the test of one contrast: of two variants, or of a weighted sum
    factorial.py          the effects of a factorial's edits on one metric
    ladder.py             speed-ups over the sizes of a ladder, and their trend as a test
    multiplicity.py       correction for multiple comparisons: Holm, Benjamini and Hochberg
    adjusted_interval.py  the interval that agrees with a verdict
    interim.py            all contrasts at a number of seeds, and interim analyses as seeds are added
    judgement.py          which judgement of a question it is, at what level, and which earlier verdicts stand
    claim_power.py        the chance of each claim to come true, for the noise that is known
    correlation.py        the correlation of two metrics over variants, within seeds and tested over them
    stamp.py              when a claim was made, against when its results were there
    expectations.py       claims that a space makes, beside the verdicts that were seen
    seeds_needed.py       how many seeds would decide an undecided comparison
    pareto.py             the Pareto front: variants that no other dominates
    fairness_audit.py     what was not equal between variants, whatever was declared
    aliases.py            which other effects enter the estimates of a factorial's effects
    seeds.py              seeds in words, grouped by reason
    summary.py            the answer as frozen values: metrics, arms, effects, analysis of variance
    judge.py              `judge`: one effect for each comparison and metric

The package `statistics` computes the numbers; which of them decides is chosen here, in one place. Runs are paired by
seed (every variant sees the same batches under one seed). All distinct comparisons on a metric, or on the page, are one
family: edits, interactions, trends over sizes, differences from the baseline. Claims of better or worse are corrected
by Holm over it, and so are those of equivalence, which is two one-sided tests. Where seeds are added until all is
decided, each look has its own level; so has each judgement of a comparison that is judged again at other seeds, and it
is corrected over the largest family that it was ever judged in. A/A comparisons are never judged.
"""
