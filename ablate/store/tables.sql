-- The tables of ablate.duckdb, declared once. `schema.py` makes of this text what DuckDB is told, with every comment, and
-- the order and types that rows are put in by. The tables are a projection of the journal: filled again whenever this
-- text changes. The comment above a table says what its rows are, the one behind a column what it means.

-- One row: which text of the schema made this file
CREATE TABLE projection (
    sql_digest VARCHAR NOT NULL,  -- Hash of tables.sql, summaries.sql and views.sql; another one, and the file is filled anew
);

-- One row for each plan that this folder knows: what was asked by one name in one way. The same space with other settings (`--set`, a profile, another text of its file) is another plan; one that grows (a search, seeds that are added until all is decided) stays the same, and has here what it has come to. What belongs to a plan has its id in a column `plan`
CREATE TABLE plans (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- Hash of the space's name and of all that it was resolved to
    current BOOLEAN NOT NULL,  -- Whether the space was last asked so: true of one plan of each space
    first_seen DOUBLE,  -- When it was first asked, in seconds since 1970, UTC; NULL where a version wrote it that did not say
    question VARCHAR,  -- The question it asks, in the words of its file
    design VARCHAR,  -- How variants were chosen: compare, path, leave_one_out, …
    baseline VARCHAR,  -- variant_id that the others are compared with
    seeds BIGINT[],  -- The seeds every variant is trained with; of a search also those at which the best were confirmed
    variants BIGINT NOT NULL,  -- How many distinct blocks it has: see plan_variants
    trials BIGINT NOT NULL,  -- How many trials it asks for: see plan_trials
    notes VARCHAR[],  -- What the plan folded, left out or assumed
    source VARCHAR,  -- Text of the space's file
    resolved JSON,  -- The space with nothing left out: what the file and the grammar's defaults come to
    corpus JSON,  -- The corpus report: files, tokens, splits, fingerprint
    open BOOLEAN,  -- Whether more trials may follow: a search that goes on, or seeds that are added until all is decided
    looks BIGINT[],  -- Numbers of seeds after which it is looked whether more are needed; NULL where the seeds are fixed
    factors JSON,  -- Of a factorial, under each set of terms: its edits, runs, effects and aliases
    document JSON,  -- The whole of the plan, as the journal has it
    plan_digest VARCHAR NOT NULL,  -- Hash of that document
    judged_digest VARCHAR,  -- Hash of what it was last judged to be; NULL where it was not: see judged
    questions_digest VARCHAR,  -- Hash of how the questions of its space were judged over time; NULL where they were not: see questions
);

-- One row for each distinct block of each plan, under each size and number of steps it is trained with
CREATE TABLE plan_variants (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    variant_id VARCHAR NOT NULL,  -- Fingerprint of the variant
    variant VARCHAR,  -- The name shown
    position INTEGER,  -- Order in the plan, from 1
    names VARCHAR[],  -- Every name that led to this block
    edits VARCHAR[],  -- Edits applied to the design's start
    parameters BIGINT,  -- Trained parameters of the whole model
    flops BIGINT,  -- FLOPs of matrix products in one forward pass over one sequence; a product of [m,k] and [k,n] counts 2mkn
    spared BIGINT,  -- FLOPs that training on one sequence spares of three times as many, since nobody asks for the gradients of what is fixed; NULL for none
    block VARCHAR,  -- The block, printed as YAML
    terms VARCHAR[],  -- The terms of fairness it stands under; NULL where the space declares but one set
    setting JSON,  -- What of it is not as the space has it for every block: layers, width, steps, what tuning chose, salt; NULL for nothing
    breaks JSON,  -- Constraints of the grammar that it breaks and that the space lets through with a warning, as {constraint, because}; NULL for none
);

-- One row for each trial: one training run, in whatever plans ask for it (see plan_trials)
CREATE TABLE trials (
    trial_id VARCHAR NOT NULL,  -- Hash of everything that decides its numbers
    variant_id VARCHAR,  -- Fingerprint of its variant
    status VARCHAR NOT NULL,  -- planned, unfinished (begun: running or interrupted), finished, diverged, pruned (a search stopped it at a rung), out_of_memory, bug, timeout, lost (its workers died; the next run tries it again), or damaged (its sealed file is not what was sealed: see ablate doctor)
    ended_step BIGINT,  -- Step at which it ended; NULL until then
    detail JSON,  -- What is known of the end: for diverged the first part with a non-finite output and the last statistics; for bug the trace; for damaged what is wrong with the file
    steps BIGINT,  -- Optimiser steps asked for
    batch BIGINT,  -- Sequences in a batch
    seq_len BIGINT,  -- Tokens in a sequence
    n_layers BIGINT,  -- Blocks of the model
    d_model BIGINT,  -- Its width
    lr DOUBLE,  -- Peak learning rate
    seed BIGINT,  -- Decides batches and initialisation
    salt BIGINT,  -- Changes the initialisation alone (A/A arms); 0 otherwise
    threads BIGINT,  -- CPU threads it was pinned to
    corpus VARCHAR,  -- Fingerprint of the token streams
    tokenizer VARCHAR,  -- What makes its tokens: bytes, or bpe, its vocabulary and the fingerprint of the text it was learnt from, since merges learnt elsewhere are others. Nats per token are comparable where this is the same, and nowhere else
    split VARCHAR,  -- What its held-out loss is of: tuning where a search chose by it, else verdict
    conditions VARCHAR,  -- Hash of all that it is trained and measured under but its block, seed and salt: where it is the same, so is the noise floor. NULL for trials of earlier versions
    specification JSON,  -- The whole trial: architecture with its block, data, recipe, measure
    versions_id VARCHAR,  -- What it ran with: see versions. Trials that differ here are comparable but not bit for bit
    attention VARCHAR,  -- What computed its attentions: the backend and, where it says so, its operator. It follows from the block and from versions_id, and takes no part in pairing; NULL where nothing was computed
    attempt INTEGER NOT NULL,  -- Which attempt this is, from 1; 0 before the first
    digest VARCHAR,  -- SHA-256 of its sorted metric rows: the same digest means the same numbers, bit for bit
);

-- Which trials each plan asks for; a trial may belong to many plans and spaces
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
    kind VARCHAR,  -- edit (one edit, against the variant before it), baseline (against the baseline), noise (the baseline against itself with another initialisation), or main or interaction (effects over several variants)
    change VARCHAR,  -- Name of the change; for an edit the name of the factor
    detail VARCHAR,  -- What changes, field by field
    before_id VARCHAR,  -- variant_id before; empty for an effect over several variants
    after_id VARCHAR,  -- variant_id after; empty for an effect over several variants
    terms VARCHAR,  -- The terms of fairness it is made under; NULL where the space declares but one set
    weights JSON,  -- What it sums up, as [variant_id, weight]; NULL for a difference of two variants, and in a factorial, whose effects are fitted
);

-- What each comparison of each plan came to on each metric, as it was last judged; see effects and verdicts
CREATE TABLE judged (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    current BOOLEAN NOT NULL,  -- Whether the space was last asked so
    position INTEGER NOT NULL,  -- Order among the verdicts of the plan, from 1
    kind VARCHAR NOT NULL,  -- edit, baseline, noise (which is never judged), main or interaction: as comparisons.kind
    change VARCHAR NOT NULL,  -- What changes: for an edit or a main effect the name of the edit
    terms VARCHAR,  -- The terms of fairness it is made under; empty where the space declares but one set
    metric VARCHAR NOT NULL,  -- The metric judged
    before_id VARCHAR,  -- variant_id before; empty for an effect over several variants
    after_id VARCHAR,  -- variant_id after; empty for an effect over several variants
    n BIGINT,  -- Pairs of seeds; of an effect over several variants, seeds
    verdict VARCHAR,  -- better, worse, better_by_rank, worse_by_rank (with a diverged run on a side, by ranks over all seeds), equivalent, undecided or diverged; of noise, which is never judged, undecided
    estimate DOUBLE,  -- Mean of after less before on the scale: a difference, or on the log scale the logarithm of a ratio
    low DOUBLE,  -- Lower end of its interval at confidence; infinite where n bounds nothing, not adjusted for the number of comparisons
    high DOUBLE,  -- Upper end of its interval
    adjusted_low DOUBLE,  -- Lower end of the interval that agrees with the verdict: adjusted for the number of comparisons as its p is; NULL where it was judged by a version that did not say it
    adjusted_high DOUBLE,  -- Upper end of that interval
    adjusted_confidence DOUBLE,  -- Confidence of that interval
    sd DOUBLE,  -- Standard deviation of the differences over seeds, on the same scale
    p DOUBLE,  -- Two-sided p of no difference
    p_adjusted DOUBLE,  -- That by Holm over the family: verdicts are made by it
    q DOUBLE,  -- That by Benjamini and Hochberg over the family
    p_equivalent DOUBLE,  -- Greater p of the two one-sided tests against the margin; NULL without one
    p_equivalent_adjusted DOUBLE,  -- That by Holm over the family
    method VARCHAR,  -- What made interval and p: student, sign_flip, sign, repeated (at the level of one of several looks) pooled (with what the effects of a factorial leave unexplained of one seed) or worst_rank (p by ranks over all seeds, a diverged run worse than any number; the interval is of survivors)
    df DOUBLE,  -- Its degrees of freedom
    scale VARCHAR,  -- linear or log
    margin DOUBLE,  -- Margin of equivalence on that scale; NULL without one
    differs BOOLEAN,  -- Equivalent, and significant all the same
    seeds_needed BIGINT,  -- Pairs that would decide, in all; NULL where nothing is left to decide or no affordable number would
    note VARCHAR,  -- What is to be said of it: who diverged, who is missing
    ranked BIGINT,  -- Seeds that p is of, where it is by ranks, the diverged among them; 0 where it is by the n differences
    level DOUBLE,  -- What the adjusted p was held against: 0.8 of what earlier judgements of the question, at other seeds, had left of one less the confidence; with looks all of it. NULL for noise
    judgement BIGINT,  -- Which judgement of its question gave the verdict and the numbers, from 1; NULL for noise
    better VARCHAR,  -- Which direction of the metric is better: lower or higher
    confidence DOUBLE,  -- Confidence of the interval; all verdicts ever given of the family are false in at most one less it
    seeds BIGINT,  -- Seeds that were looked at
);

-- Questions over time: one row for each judgement of each question, at whatever seeds. What was asked (comparisons, variants as they are trained, metrics and their scales) makes the question; seeds, results, margins and evaluation make the judgement
CREATE TABLE questions (
    space VARCHAR NOT NULL,  -- Name of a space that it was made for; each has a row
    question VARCHAR NOT NULL,  -- Hash of what is asked: the same whatever the seeds, and in whatever space
    number BIGINT NOT NULL,  -- Which judgement of the question it is, from 1; the same seeds again are no other, under the same margin and evaluation
    metrics VARCHAR[],  -- The metrics of its family
    comparisons BIGINT,  -- Distinct comparisons of the family on each metric
    seeds BIGINT[],  -- The seeds it was of
    looks BIGINT[],  -- Numbers of seeds after which it was looked, all of which are one judgement; NULL where the seeds were fixed
    without_result BIGINT,  -- How many of their trials had no result, being a bug, a timeout or out of memory; once one has, that is another judgement
    alpha DOUBLE,  -- In how many tables any verdict may be false, over all judgements of the question together
    level DOUBLE,  -- What of it this one was held at
    left_of_alpha DOUBLE,  -- What it leaves of it to those after it
    better BIGINT,  -- How many verdicts it had that said better, those of earlier judgements included, which stand
    worse BIGINT,  -- That said worse
    equivalent BIGINT,  -- That said equivalent
    undecided BIGINT,  -- That were undecided
    diverged BIGINT,  -- That could not be given, since a side diverged at every seed
    judged_at DOUBLE,  -- When it was last judged at these seeds, in seconds since 1970, UTC
    effects JSON,  -- What it found of each comparison on each metric, with all numbers
);

-- What a search has proposed, one row for each proposal in order
CREATE TABLE plan_proposals (
    space VARCHAR NOT NULL,  -- Name of the space
    plan VARCHAR NOT NULL,  -- The plan: see plans
    k INTEGER NOT NULL,  -- Number of the proposal, from 0
    derivation VARCHAR,  -- Its number among the derivations of the grammar, which may be beyond 64 bits
    variant_id VARCHAR,  -- What it is: see variants
    repeat BOOLEAN,  -- Whether it was proposed before, or is the reference; it was not trained again
    choices INTEGER,  -- Choices that the grammar asks for on the way to it
    random INTEGER,  -- Of these, how many were made without regard to any result
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
    step BIGINT NOT NULL,  -- Where it was measured; of equal peaks the earliest
    address VARCHAR,  -- The part it was measured at; empty for the whole model, NULL for a mean over parts, or over steps
);

-- What a clock measured: never part of what is compared
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
    source VARCHAR,  -- Where it is from
);

-- What trials ran with: one row for each thing that may change the last bits
CREATE TABLE versions (
    versions_id VARCHAR NOT NULL,  -- Hash of the whole set; trials.versions_id refers to it
    name VARCHAR NOT NULL,  -- python, torch, ablate, platform, cpu, …
    version VARCHAR,  -- Its version or name
);
