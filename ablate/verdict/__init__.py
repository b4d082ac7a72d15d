"""Numbers to verdicts: what the final metrics of trials say about a plan's comparisons, and how certain that is.

This package takes plain values (an experiment, the rules of the judge, the final metrics of each run) and returns
frozen ones. It prints nothing and opens no store, and it never drops a trial: a diverged one is counted beside every
number that it is missing from.

    experiment.py         variants, comparisons and runs, of a plan or of a table; how runs ended, and which are paired
    contrasts.py          what comparisons test, what identifies them, and which effects a factorial confounds
    judgement.py          which judgement of a question it is, with what is left of α, and which earlier verdicts stand
    hypothesis_test.py    the test of one contrast, of two variants or of a weighted sum, with its equivalence margin
    factorial.py          the effects of a factorial's edits on one metric
    ladder.py             speed-ups over the sizes of a ladder, and their trend as a test
    multiplicity.py       correction for multiple comparisons (Holm, Benjamini and Hochberg), and adjusted intervals
    interim.py            all contrasts at a number of seeds, and interim analyses as seeds are added
    judge.py              `judge`: one effect for each comparison and metric, and the Pareto front
    summary.py            the answer as frozen values: metrics, arms, effects, analysis of variance, claims
    claims.py             claims that a space makes, beside the verdicts and correlations that were measured
    power.py              the chance of each claim to come true, and the seeds that would decide a comparison
    fairness_audit.py     what was not equal between variants, whatever was declared

The package `statistics` computes the numbers; which of them decides is chosen here, in one place. Runs are paired by
seed (every variant sees the same batches under one seed). All distinct comparisons on a metric, or on the page, are one
family: edits, interactions, trends over sizes, differences from the baseline. Claims of better or worse are corrected
by Holm over it, and so are those of equivalence, which is two one-sided tests. Where seeds are added until all is
decided, each look has its own level; so has each judgement of a comparison that is judged again at other seeds, and it
is corrected over the largest family that it was ever judged in. A/A comparisons are never judged.
"""
