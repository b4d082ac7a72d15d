"""Numbers to verdicts: what the final metrics of trials say of a plan's comparisons, and how sure that is.

This room takes plain values (an experiment, what a judge asked for, the final metrics of each run) and gives back
frozen ones. It prints nothing and opens no store, and it never drops a trial: a diverged one is counted beside every
number that it is missing from.

    experiment.py         variants, comparisons and runs: of a plan, or of a table
    finals.py             how a trial ended and its last metrics
    pairing.py            which numbers may be compared: trials matched by seed, and why others are not
    contrasts.py          what comparisons ask of the data, so that what is asked twice is counted once
    margins.py            margins of equivalence as numbers on a metric's scale
    hypothesis_test.py    the test of one contrast: of two variants, or of a weighted sum
    factorial.py          the effects of a factorial's edits on one metric
    multiplicity.py       what may be claimed of all contrasts together: Holm, Benjamini and Hochberg
    adjusted_interval.py  the interval that agrees with a verdict
    interim.py            all contrasts at a number of seeds, and interim analyses at more and more of them
    judgement.py          which judgement of a question it is, at what level, and what stands of earlier ones
    seeds_needed.py       how many seeds would decide what is undecided
    pareto.py             which variants no other beats on every metric
    fairness_audit.py     what was not equal between variants, whatever was declared
    aliases.py            what else is in the estimates of a factorial's effects
    seeds.py              seeds by what became of them
    summary.py            the answer as frozen values: metrics, arms, effects, analysis of variance
    judge.py              `judge`: one effect for each comparison and metric

The room `statistics` has the numbers; which of them decides is chosen here once. Pairs are seeds (every variant sees
the same batches under one seed). All distinct comparisons on a metric, or on the page, are one family: edits,
interactions, steps from the baseline. Claims of better or worse are corrected by Holm over it, and so are those of
equivalence, which is two one-sided tests. Where seeds are added until all is decided, each look has a level of its own;
so has each judgement of a question that is asked again at other seeds. A/A comparisons are shown and never judged.
"""
