-- The tables of ablate.duckdb, declared once. `schema.py` derives from this text the DDL with every comment, and the
-- order and types of inserted rows. The tables are a cache of the kept files, refilled whenever this text changes. The
-- comment above a table says what its rows are, the one after a column what it means.

-- One row: what made this file, and from what
CREATE TABLE projection (
    sql_digest VARCHAR NOT NULL,  -- Hash of tables.sql, summaries.sql and views.sql; where it differs, the file is refilled
    listing VARCHAR,  -- Hash of the names, sizes and digests of the files that it was filled from; where it differs, what is lacking is added
);

-- The kept files other than those of trials: plans, runs, judgements, step times and sources, as they were written
CREATE TABLE files (
    name VARCHAR NOT NULL,  -- Name of the file within the results folder, with the digest of its bytes
    space VARCHAR NOT NULL,  -- Name of the space that it is of, a row for each; empty for sources, which spaces share
    content BLOB,  -- Its bytes
);

-- One row for each plan in this folder, and for each table that was judged here. A plan is a space with one choice of all its settings. The same space with other settings (`--set`, a profile, a changed file) is another plan; one that grows (a search, or seeds that are added until all is decided) stays the same plan, shown here in its latest state. What belongs to a plan has its id in a column `plan`
CREATE TABLE plans (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- Hash of the space's name and of everything that it was resolved to
    current BOOLEAN NOT NULL,  -- Whether it is the current plan of its space, the last that was requested: true of one plan of each space
    first_seen DOUBLE,  -- When it was first requested, in seconds since 1970, UTC; NULL for plans of versions that did not record it
    question VARCHAR,  -- The question it asks, in the words of its file
    design VARCHAR,  -- How variants were chosen: compare, path, leave_one_out, …
    baseline VARCHAR,  -- variant_id that the others are compared with
    seeds BIGINT[],  -- The seeds every variant is trained with; for a search also those at which the best were confirmed
    variants BIGINT NOT NULL,  -- Number of distinct blocks: see plan_variants
    trials BIGINT NOT NULL,  -- Number of trials: see plan_trials. Of a judged table, its runs: see judged_runs
    notes VARCHAR[],  -- What the plan merged, left out or assumed
    profile VARCHAR,  -- The profile of the space that was chosen; NULL where none was
    source VARCHAR,  -- Text of the space's file; of a judged table its name
    resolved JSON,  -- The complete space: its file with every default of the grammar filled in. Of a judged table: where it is, and what was asked
    corpus JSON,  -- The corpus report: files, tokens, splits, fingerprint
    open BOOLEAN,  -- Whether more trials may follow: a search that continues, or seeds that are added until all is decided
    looks BIGINT[],  -- Numbers of seeds after which an interim analysis decides whether more are needed; NULL where the seeds are fixed
    factors JSON,  -- For a factorial, under each set of terms: its edits, runs, effects and aliases
    judged_at DOUBLE,  -- When its latest verdicts were given, in seconds since 1970, UTC; NULL where there are none: see judged
);

-- One row for each distinct block of each plan, under each size and number of steps it is trained with
CREATE TABLE plan_variants (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    variant_id VARCHAR NOT NULL,  -- Fingerprint of the variant
    variant VARCHAR,  -- The name that is shown
    position INTEGER,  -- Order in the plan, from 1
    names VARCHAR[],  -- Every name that led to this block
    edits VARCHAR[],  -- Edits applied to the block that the design starts from
    parameters BIGINT,  -- Trained parameters of the whole model
    flops BIGINT,  -- FLOPs of matrix products in one forward pass over one sequence; a product of [m,k] and [k,n] counts 2mkn
    spared BIGINT,  -- FLOPs that training on one sequence saves out of three times `flops`, since the gradients of fixed parts are not needed; NULL for none
    block VARCHAR,  -- The block, printed as YAML
    terms VARCHAR[],  -- The terms of fairness it is trained under; NULL where the space declares only one set
    setting JSON,  -- Settings in which it differs from the space's settings for every block: layers, width, steps, what tuning chose, salt; NULL for none
    breaks JSON,  -- Constraints of the grammar that it violates and that the space allows with a warning, as {constraint, because}; NULL for none
);

-- What the model of each variant of each plan will do before a single step, as was forecast when it was planned: of random weights, in the limit of width. One row for each variant; one without a forecast has the reason in `refused`. Beside what trials measured: forecast_errors
CREATE TABLE plan_forecasts (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    variant_id VARCHAR NOT NULL,  -- Fingerprint of the variant
    variant VARCHAR,  -- The name that is shown
    position INTEGER,  -- Order in the plan, from 1
    growth DOUBLE,  -- Root mean square of the stream behind the last layer over that in front of the first
    cosine DOUBLE,  -- Mean cosine of two tokens of one sequence behind the last layer; at 1 all are the same
    gradient DOUBLE,  -- Root mean square of the gradient in front of the first layer over that behind the last, from a loss whose gradient is independent from token to token
    growth_low DOUBLE,  -- Lower end of the interval of `growth`, within which 95 % of networks of this width lie; NULL for none
    growth_high DOUBLE,  -- Upper end of the interval of `growth`; NULL for none
    cosine_low DOUBLE,  -- Lower end of the interval of `cosine`, within which 95 % of networks of this width lie; NULL for none
    cosine_high DOUBLE,  -- Upper end of the interval of `cosine`; NULL for none
    gradient_low DOUBLE,  -- Lower end of the interval of `gradient`, within which 95 % of networks of this width lie; NULL for none
    gradient_high DOUBLE,  -- Upper end of the interval of `gradient`; NULL for none
    logits DOUBLE,  -- Root mean square of the logits; NaN where there is none in closed form
    context BIGINT,  -- Tokens of a sequence that the forecast is over
    whole BOOLEAN,  -- Whether these are all tokens of a sequence: of long ones, and in deep models, fewer are forecast
    repetition DOUBLE,  -- Chance that two tokens of a sequence are the same, measured on the text
    dangers VARCHAR[],  -- Reasons not to train it as it is, a sentence for each; none if empty. The kinds: `ablate docs search`
    refused VARCHAR,  -- Why it is not forecast; NULL if it is
    theory BIGINT,  -- Version of the theory that made it; NULL where none was kept
);

-- The forecast of each variant layer by layer: one row for each layer, and one in front of the first
CREATE TABLE plan_forecast_layers (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    variant_id VARCHAR NOT NULL,  -- Fingerprint of the variant
    layer INTEGER NOT NULL,  -- The stream is that behind this layer; 0 in front of the first
    address VARCHAR,  -- Address at which probes read it: the block whose input it is; NULL behind the last layer, where they read behind the final norm
    size DOUBLE,  -- Root mean square of the stream over channels and tokens
    cosine DOUBLE,  -- Mean cosine of two tokens of one sequence
    gradient DOUBLE,  -- Root mean square of the gradient over that behind the last layer
    size_low DOUBLE,  -- Lower end of the interval of `size`, within which 95 % of networks of this width lie; NULL for none
    size_high DOUBLE,  -- Upper end of the interval of `size`; NULL for none
    cosine_low DOUBLE,  -- Lower end of the interval of `cosine`, within which 95 % of networks of this width lie; NULL for none
    cosine_high DOUBLE,  -- Upper end of the interval of `cosine`; NULL for none
    gradient_low DOUBLE,  -- Lower end of the interval of `gradient`, within which 95 % of networks of this width lie; NULL for none
    gradient_high DOUBLE,  -- Upper end of the interval of `gradient`; NULL for none
);

-- One row for each trial: one training run, whichever plans it belongs to (see plan_trials)
CREATE TABLE trials (
    trial_id VARCHAR NOT NULL,  -- Hash of everything that decides its numbers
    variant_id VARCHAR,  -- Fingerprint of its variant
    status VARCHAR NOT NULL,  -- planned, unfinished (started: running or interrupted), finished, diverged, pruned (a search stopped it at a rung), out_of_memory, bug, timeout, lost (its workers died; the next run tries it again), missing (its sealed file is gone) or damaged (that file has changed since it was sealed): the next run of it trains these again, unless ablate doctor recovers them
    ended_step BIGINT,  -- Step at which it ended; NULL until then
    detail JSON,  -- Details of its end: for diverged the first part with a non-finite output and the last statistics; for bug the traceback; for damaged what is wrong with the file
    steps BIGINT,  -- Optimiser steps requested
    batch BIGINT,  -- Sequences in a batch, the last where batches grow
    seq_len BIGINT,  -- Tokens in a sequence
    n_layers BIGINT,  -- Number of blocks in the model
    d_model BIGINT,  -- Width of the model
    lr DOUBLE,  -- Peak learning rate
    seed BIGINT,  -- Determines batches and initialisation
    salt BIGINT,  -- Changes the initialisation alone (A/A arms); 0 otherwise
    threads BIGINT,  -- CPU threads it was pinned to
    corpus VARCHAR,  -- Fingerprint of the token streams
    tokenizer VARCHAR,  -- Its tokenizer: bytes, or bpe with its vocabulary and the fingerprint of the text its merges were learnt from. Nats per token are comparable only where this is the same
    split VARCHAR,  -- The split of its held-out loss: tuning where a search chose by it, else verdict
    conditions VARCHAR,  -- Hash of everything it is trained and measured under except its block, seed and salt: where it is the same, so is the noise floor. NULL for trials of earlier versions
    specification JSON,  -- The whole trial: architecture with its block, data, recipe, measure
    versions_id VARCHAR,  -- The versions it ran with, and what its machine computes: see versions. Trials that differ here are not paired
    by_name_id VARCHAR,  -- The same with the processor's name in place of what it computes: trials of before, which recorded only the name, have it as their versions_id and are paired by it
    processor VARCHAR,  -- The processor's name
    attention VARCHAR,  -- What computed its attention: the backend and, where it reports one, its operator. It follows from the block and from versions_id, and plays no part in pairing; NULL where nothing was computed
    attempt INTEGER NOT NULL,  -- Which attempt this is, from 1; 0 before the first
    digest VARCHAR,  -- SHA-256 of its sorted metric rows: the same digest means the same numbers, bit for bit
);

-- The trials of each plan; a trial may belong to many plans and spaces
CREATE TABLE plan_trials (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    trial_id VARCHAR NOT NULL,  -- The trial
    variant_id VARCHAR NOT NULL,  -- The variant it stands for in this plan
    seed BIGINT NOT NULL,  -- The seed; for one seed every variant sees the same batches and is evaluated on the same windows
);

-- The questions a design asks: what does a change do, from one variant to another?
CREATE TABLE plan_comparisons (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    position INTEGER NOT NULL,  -- Order in the plan, from 1
    kind VARCHAR,  -- edit (one edit, against the variant before it), baseline (against the baseline), noise (the baseline against itself with another initialisation), or main, interaction or trend (effects over several variants; a trend is of a speed-up over sizes)
    change VARCHAR,  -- Name of the change; for an edit the name of the factor
    detail VARCHAR,  -- What changes, field by field
    before_id VARCHAR,  -- variant_id before; empty for an effect over several variants
    after_id VARCHAR,  -- variant_id after; empty for an effect over several variants
    terms VARCHAR,  -- The terms of fairness it is made under; NULL where the space declares only one set
    weights JSON,  -- The weighted sum that it is, as [variant_id, weight]; NULL for a difference of two variants, and in a factorial, whose effects are fitted
);

-- The latest judgement of each comparison of each plan on each metric; see effects and verdicts
CREATE TABLE judged (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    current BOOLEAN NOT NULL,  -- Whether it is the current plan of its space
    position INTEGER NOT NULL,  -- Order among the verdicts of the plan, from 1
    kind VARCHAR NOT NULL,  -- edit, baseline, noise (which is never judged), main, interaction or trend: as comparisons.kind
    change VARCHAR NOT NULL,  -- What changes: for an edit or a main effect the name of the edit
    terms VARCHAR,  -- The terms of fairness it is made under; empty where the space declares only one set
    metric VARCHAR NOT NULL,  -- The metric judged
    before_id VARCHAR,  -- variant_id before; empty for an effect over several variants
    after_id VARCHAR,  -- variant_id after; empty for an effect over several variants
    n BIGINT,  -- Number of pairs of seeds; for an effect over several variants, of seeds
    verdict VARCHAR,  -- better, worse (higher, lower of a metric without a better side), better_by_rank, worse_by_rank, higher_by_rank, lower_by_rank (where a side has a diverged run: by ranks over all seeds), equivalent, undecided or diverged; for noise, which is never judged, undecided
    estimate DOUBLE,  -- Mean of after minus before on that scale: a difference, or on the log scale the logarithm of a ratio. For a trend the logarithm of the factor by which a speed-up grows for ten times the training compute
    low DOUBLE,  -- Lower end of its interval at that confidence, not adjusted for the number of comparisons; infinite where n is too small to bound it
    high DOUBLE,  -- Upper end of its interval
    adjusted_low DOUBLE,  -- Lower end of the interval that agrees with the verdict: adjusted for the number of comparisons as its p is; NULL for judgements of versions that did not record it
    adjusted_high DOUBLE,  -- Upper end of that interval
    adjusted_confidence DOUBLE,  -- Confidence of that interval
    sd DOUBLE,  -- Standard deviation of the differences over seeds, or of the difference of two runs where these are not paired; on the same scale
    p DOUBLE,  -- Two-sided p-value of no difference
    p_adjusted DOUBLE,  -- p adjusted by Holm over the family, which decides verdicts
    q DOUBLE,  -- p adjusted by Benjamini and Hochberg over the family
    p_equivalent DOUBLE,  -- Larger p of the two one-sided tests against the margin; NULL without a margin
    p_equivalent_adjusted DOUBLE,  -- p_equivalent adjusted by Holm over the family
    method VARCHAR,  -- Method of the interval and p: student, sign_flip, sign, repeated (at the level of one of several looks), pooled (with what the effects of a factorial leave unexplained at one seed) or worst_rank (p by ranks over all seeds, a diverged run ranked worse than any number, or of a metric without a better side against the other seeds; the interval is of the other runs), welch (two samples that are not paired) or simulated_t (t of a trend over sizes, against that of simulated ladders)
    df DOUBLE,  -- Its degrees of freedom
    scale VARCHAR,  -- linear or log
    margin DOUBLE,  -- Equivalence margin on that scale; NULL for none
    differs BOOLEAN,  -- Equivalent, and yet significantly different from zero
    seeds_needed BIGINT,  -- Total number of pairs that would decide it; NULL where nothing is left to decide or no affordable number would
    note VARCHAR,  -- Remarks: what diverged, what is missing
    ranked BIGINT,  -- Number of seeds behind p where it is by ranks, diverged ones included; 0 where it is by the n differences
    level DOUBLE,  -- Significance level that the adjusted p was compared with: 0.8 of what earlier judgements of the question, at other seeds, had left of one minus the confidence; with looks all of it. NULL for noise
    judgement BIGINT,  -- Which judgement of its question gave the verdict and the numbers, from 1; NULL for noise
    better VARCHAR,  -- Which side of the metric is better: lower, higher, or none
    confidence DOUBLE,  -- Confidence of the interval; the probability that any verdict ever given of the family is false is at most one minus it
    seeds BIGINT,  -- Number of seeds that were analysed
);

-- The claims that a space makes (`judge: {expect: …}`), one row for each claim of each plan: what it foresees, what was seen, and whether it was made before there were results
CREATE TABLE claims (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    current BOOLEAN NOT NULL,  -- Whether it is the current plan of its space
    position INTEGER NOT NULL,  -- Order among the claims of the plan, from 1
    claim VARCHAR NOT NULL,  -- The claim, in words
    about VARCHAR,  -- What it is about: a variant, an edit, an order, equivalents, or the metric that it is to correlate with
    metric VARCHAR NOT NULL,  -- The metric
    expected VARCHAR[],  -- The verdicts of which one is expected; of an order those of its steps
    verdict VARCHAR,  -- The verdict that was given, of an order or equivalents that of each step, of a correlation its sign if one was found; NULL where nothing was judged yet
    correlation DOUBLE,  -- Of a correlation: the mean over seeds of Spearman's ρ over variants; NULL for other claims
    outcome VARCHAR,  -- as expected, not as expected or undecided; NULL where nothing was judged yet
    stamped VARCHAR NOT NULL,  -- before results: a plan with this claim, as it is, was kept before both sides of its comparison had a result in this folder, at whatever seeds, profile or plan; else after results, or not dated where no plan with it has a date and a side has no result
    stated_at DOUBLE,  -- When the first plan with this claim was kept, in seconds since 1970, UTC
    stated_plan VARCHAR,  -- The id of that plan: the hash of its whole space
    stated_space VARCHAR,  -- The name of its space
    known_at DOUBLE,  -- When both sides had a result, in seconds since 1970, UTC; NULL where a side has none
    known_in VARCHAR,  -- The space in which the later side had its first result
    changes VARCHAR[],  -- What else differs between the space that stated it and this one, as key: then → now
    was VARCHAR[],  -- Other claims on the same comparison and metric that were made before the results, and are not any more
);

-- What a treatment of a ladder saves in training compute, size by size: one row for each treatment, loss and size, in order of compute. The last is a further size that was not trained, with what the laws predict. The trend over sizes is in effects, kind trend
CREATE TABLE sizes (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    current BOOLEAN NOT NULL,  -- Whether it is the current plan of its space
    position INTEGER NOT NULL,  -- Order among the sizes of the plan, from 1
    terms VARCHAR,  -- The terms of fairness; empty where the space declares only one set
    metric VARCHAR NOT NULL,  -- The loss
    treatment VARCHAR NOT NULL,  -- Name of the treatment
    baseline VARCHAR NOT NULL,  -- Name of what it is compared with
    size VARCHAR NOT NULL,  -- The size, as it differs from the space; next where it was not given
    trained BOOLEAN NOT NULL,  -- Whether it was trained; else its losses are those of the laws
    before_id VARCHAR,  -- variant_id of the baseline at this size; empty for a size that was not trained
    after_id VARCHAR,  -- variant_id of the treatment at this size
    baseline_compute DOUBLE,  -- Training FLOPs of the baseline: those on one sequence, times batch, times steps
    compute DOUBLE,  -- Training FLOPs of the treatment
    baseline_loss DOUBLE,  -- Mean loss of the baseline over n seeds; geometric under a power law
    loss DOUBLE,  -- Mean loss of the treatment
    speed_up DOUBLE,  -- Factor by which the baseline would need more compute to reach the loss of the treatment, by the baseline's law
    low DOUBLE,  -- Lower end of its interval at the confidence of the space, not adjusted for the number of comparisons
    high DOUBLE,  -- Upper end of that interval
    extrapolated BOOLEAN,  -- Whether the law is read beyond the sizes that it was fitted to
    n BIGINT,  -- Number of seeds
    cost DOUBLE,  -- For a size that was not trained: training FLOPs of n seeds of both
    decided DOUBLE,  -- For such a size: chance that the losses would be found different
    better DOUBLE,  -- For such a size: chance that the loss of the treatment would be found lower
    law VARCHAR,  -- power (L = a·C^-b) or saturating (L = E + a·C^-b)
    exponent DOUBLE,  -- b of the baseline's law
    exponent_low DOUBLE,  -- Lower end of its interval
    exponent_high DOUBLE,  -- Upper end of its interval
);

-- Questions over time: one row for each judgement of each question, at whatever seeds. A question is defined by what it asks (comparisons, variants as they are trained, metrics and their scales), a judgement by seeds, results, margins and evaluation. Each of its comparisons has an account of its own, whatever question it is part of: see accounts
CREATE TABLE questions (
    space VARCHAR NOT NULL,  -- Name of a space that it was made for; each has a row
    question VARCHAR NOT NULL,  -- Hash of what it asks: the same for all seeds and in every space
    number BIGINT NOT NULL,  -- Number of this judgement of the question, from 1; the same seeds again, under the same margin and evaluation, are the same judgement
    metrics VARCHAR[],  -- The metrics of its family
    comparisons BIGINT,  -- Distinct comparisons of the family on each metric
    seeds BIGINT[],  -- The seeds it was made at; NULL where runs of a table are paired by names
    looks BIGINT[],  -- Numbers of seeds of its interim analyses, all of which are one judgement; NULL where the seeds were fixed
    without_result BIGINT,  -- Number of their trials without a result (bug, timeout or out of memory); once one has a result, that is another judgement
    alpha DOUBLE,  -- Share of tables in which any verdict may be false, over all judgements of the question together
    level DOUBLE,  -- The part of alpha that this judgement was made at
    family BIGINT,  -- Comparisons over which it was corrected: all that were ever judged with these; NULL in a judgement of an earlier version
    new BIGINT,  -- Number of its tests of comparisons that were never judged before
    judged_before BIGINT,  -- Number of those that were, at these data or at others
    so_far DOUBLE,  -- Share of tables in which any verdict of the question is false, at most, over all judgements so far
    questions_asked BIGINT,  -- Number of questions so far on trainings that it compares
    among DOUBLE,  -- Share of tables in which at least one verdict among those is false, at most
    left_of_alpha DOUBLE,  -- The part of alpha that it leaves to later judgements
    better BIGINT,  -- Number of its verdicts that said better, those of earlier judgements included, which stand
    worse BIGINT,  -- Number that said worse
    higher BIGINT,  -- Number that said higher, of a metric without a better side
    lower BIGINT,  -- Number that said lower, of such a metric
    equivalent BIGINT,  -- Number that said equivalent
    undecided BIGINT,  -- Number that were undecided
    diverged BIGINT,  -- Number that could not be given, since a side diverged at every seed
    judged_at DOUBLE,  -- When it was last judged at these seeds, in seconds since 1970, UTC
    effects JSON,  -- Its result for each comparison on each metric, with all numbers
);

-- Accounts: one row for each comparison in each judgement of a question, on each metric
CREATE TABLE accounts (
    space VARCHAR NOT NULL,  -- Name of a space that it was judged for; each has a row
    question VARCHAR NOT NULL,  -- The question that it was judged in: see questions
    number BIGINT NOT NULL,  -- Which judgement of that question it was
    comparison VARCHAR NOT NULL,  -- Hash of what is compared, and how it is trained: the same in every space, under any name and at all seeds
    metric VARCHAR NOT NULL,  -- The metric judged
    measures VARCHAR,  -- The metric that it is a function of, with which it shares its account
    state VARCHAR,  -- new (never judged before), again (at other data), continued (its interim analyses go on) or settled (judged at these data before)
    judgement BIGINT,  -- Which judgement of this comparison it was, from 1
    family BIGINT,  -- Comparisons over which it was corrected
    level DOUBLE,  -- The part of alpha that it spent, over that family; 0 where it is settled
    left_of_alpha DOUBLE,  -- The part of alpha that it leaves to later judgements of it
);

-- The runs of judged tables, which were trained elsewhere: one row for each run and metric, or one without a metric for a run without a number
CREATE TABLE judged_runs (
    space VARCHAR NOT NULL,  -- Name of the space that the table is kept as
    plan VARCHAR NOT NULL,  -- The table with what was asked of it: see plans
    current BOOLEAN NOT NULL,  -- Whether it is the current one of its space, the last that was judged
    variant VARCHAR NOT NULL,  -- Its variant
    run VARCHAR NOT NULL,  -- What tells it apart from others of its variant: its seed, or another name that pairs runs
    status VARCHAR NOT NULL,  -- finished, diverged, not_finished (running, crashed or failed) or without_a_value
    metric VARCHAR,  -- The metric
    value DOUBLE,  -- Its number, as it was judged: at the chosen step, the mean of replicates, on the scale of its stratum
);

-- What a search has proposed, one row for each proposal in order
CREATE TABLE plan_proposals (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    k INTEGER NOT NULL,  -- Number of the proposal, from 0
    derivation VARCHAR,  -- Its number among the derivations of the grammar, which may be beyond 64 bits
    variant_id VARCHAR,  -- The variant it is: see variants
    repeat BOOLEAN,  -- Whether it was proposed before, or is the reference; it was not trained again
    choices INTEGER,  -- Number of choices in its derivation by the grammar
    random INTEGER,  -- Of these, how many were made without regard to any result
);

-- What a search drew and skipped because a forecast found it in danger (`beforehand: {forecast: avoid}`): never trained, and no trial. One row for each proposal and danger that something was skipped for before it
CREATE TABLE plan_skipped (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    k INTEGER NOT NULL,  -- Number of the proposal that was found after it: see plan_proposals
    danger VARCHAR NOT NULL,  -- The kind of danger: `ablate docs search` lists them
    n BIGINT NOT NULL,  -- How often something in that danger was drawn; what is in two dangers counts for each
);

-- Every measured number, once for each (trial_id, step, metric, address)
CREATE TABLE metrics (
    trial_id VARCHAR NOT NULL,  -- The trial
    step BIGINT NOT NULL,  -- Optimiser steps done before the measurement
    metric VARCHAR NOT NULL,  -- Name of the metric; see definitions
    address VARCHAR NOT NULL,  -- The part measured, as in layers.3.attention; empty for the whole model
    value DOUBLE,  -- The number; may be NaN or infinite (divergence is a result)
);

-- Each trial's numbers, one for each name: <metric> at its end, peak_<metric> and mean_<metric> over its whole course. Filled from its rows when they are loaded, by summaries.sql
CREATE TABLE summaries (
    trial_id VARCHAR NOT NULL,  -- The trial
    name VARCHAR NOT NULL,  -- <metric>: of the whole model, or the mean over addresses, at the last step measured, of finished trials alone; peak_<metric>: the largest finite value over all addresses and steps, of diverged trials too; mean_<metric>: the mean of the finite values over all addresses and steps, of finished trials alone; token_correlation is peak_token_correlation_rms; perplexity is exp(eval_loss)
    value DOUBLE NOT NULL,  -- The number; always finite
    step BIGINT NOT NULL,  -- Step at which it was measured; of equal peaks the earliest
    address VARCHAR,  -- The part it was measured at; empty for the whole model, NULL for a mean over parts, or over steps
);

-- Timings, which are never part of what is compared
CREATE TABLE timings (
    trial_id VARCHAR NOT NULL,  -- The trial
    step BIGINT NOT NULL,  -- The step
    name VARCHAR NOT NULL,  -- What was timed; began and ended are seconds since 1970, UTC
    seconds DOUBLE,  -- Seconds
);

-- What each metric means; papers differ, so definitions travel with the numbers
CREATE TABLE plan_definitions (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    metric VARCHAR NOT NULL,  -- Name of the metric
    definition VARCHAR,  -- The definition in one line
    source VARCHAR,  -- Its source
);

-- The versions that trials ran with: one row for each thing that may change the last bits
CREATE TABLE versions (
    versions_id VARCHAR NOT NULL,  -- Hash of the whole set; trials.versions_id refers to it
    name VARCHAR NOT NULL,  -- python, torch, ablate, platform, cpu, …
    version VARCHAR,  -- Its version or name
);
