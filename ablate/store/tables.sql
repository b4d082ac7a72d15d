-- The tables of ablate.duckdb. They are a projection of the journal: filled again whenever this text changes.
-- Every table and column has a comment, which DuckDB keeps: SELECT table_name, column_name, comment FROM duckdb_columns().

CREATE OR REPLACE TABLE projection (sql_digest VARCHAR NOT NULL);
COMMENT ON TABLE projection IS 'One row: which text of the schema made this file';
COMMENT ON COLUMN projection.sql_digest IS 'Hash of tables.sql, summaries.sql and views.sql; another one, and the file is filled anew';

CREATE OR REPLACE TABLE spaces (
    space VARCHAR NOT NULL, question VARCHAR, design VARCHAR, baseline VARCHAR, seeds BIGINT[], notes VARCHAR[],
    source VARCHAR, resolved JSON, corpus JSON, open BOOLEAN, looks BIGINT[], factors JSON, plan_digest VARCHAR NOT NULL,
    judged_digest VARCHAR, questions_digest VARCHAR
);
COMMENT ON TABLE spaces IS 'One row for each space, as it was last asked';
COMMENT ON COLUMN spaces.space IS 'Name of the space';
COMMENT ON COLUMN spaces.question IS 'The question it asks, in the words of its file';
COMMENT ON COLUMN spaces.design IS 'How variants were chosen: compare, path, leave_one_out, …';
COMMENT ON COLUMN spaces.baseline IS 'variant_id that the others are compared with';
COMMENT ON COLUMN spaces.seeds IS 'The seeds every variant is trained with; of a search also those at which the best were confirmed';
COMMENT ON COLUMN spaces.notes IS 'What the plan folded, left out or assumed';
COMMENT ON COLUMN spaces.source IS 'Text of the space''s file';
COMMENT ON COLUMN spaces.resolved IS 'The space with nothing left out: what the file and the grammar''s defaults come to';
COMMENT ON COLUMN spaces.corpus IS 'The corpus report: files, tokens, splits, fingerprint';
COMMENT ON COLUMN spaces.open IS 'Whether more trials may follow: a search that goes on, or seeds that are added until all is decided';
COMMENT ON COLUMN spaces.looks IS 'Numbers of seeds after which it is looked whether more are needed; NULL where the seeds are fixed';
COMMENT ON COLUMN spaces.factors IS 'Of a factorial, under each set of terms: its edits, runs, effects and aliases';
COMMENT ON COLUMN spaces.plan_digest IS 'Hash of the plan';
COMMENT ON COLUMN spaces.questions_digest IS 'Hash of how its questions were judged over time; NULL where they were not: see questions';
COMMENT ON COLUMN spaces.judged_digest IS 'Hash of what it was last judged to be; NULL where it was not: see judged';

CREATE OR REPLACE TABLE variants (
    space VARCHAR NOT NULL, variant_id VARCHAR NOT NULL, variant VARCHAR, position INTEGER, names VARCHAR[],
    edits VARCHAR[], parameters BIGINT, flops BIGINT, spared BIGINT, block VARCHAR, terms VARCHAR[], setting JSON, breaks JSON
);
COMMENT ON TABLE variants IS 'One row for each distinct block of a space, under each size and number of steps it is trained with';
COMMENT ON COLUMN variants.space IS 'Name of the space';
COMMENT ON COLUMN variants.variant_id IS 'Fingerprint of the variant';
COMMENT ON COLUMN variants.variant IS 'The name shown';
COMMENT ON COLUMN variants.position IS 'Order in the plan, from 1';
COMMENT ON COLUMN variants.names IS 'Every name that led to this block';
COMMENT ON COLUMN variants.edits IS 'Edits applied to the design''s start';
COMMENT ON COLUMN variants.parameters IS 'Trained parameters of the whole model';
COMMENT ON COLUMN variants.flops IS 'FLOPs of matrix products in one forward pass over one sequence; a product of [m,k] and [k,n] counts 2mkn';
COMMENT ON COLUMN variants.spared IS 'FLOPs that training on one sequence spares of three times as many, since nobody asks for the gradients of what is fixed; NULL for none';
COMMENT ON COLUMN variants.block IS 'The block, printed as YAML';
COMMENT ON COLUMN variants.terms IS 'The terms of fairness it stands under; NULL where the space declares but one set';
COMMENT ON COLUMN variants.setting IS 'What of it is not as the space has it for every block: layers, width, steps, what tuning chose, salt; NULL for nothing';
COMMENT ON COLUMN variants.breaks IS 'Constraints of the grammar that it breaks and that the space lets through with a warning, as {constraint, because}; NULL for none';

CREATE OR REPLACE TABLE trials (
    trial_id VARCHAR NOT NULL, variant_id VARCHAR, status VARCHAR NOT NULL, ended_step BIGINT, detail JSON,
    steps BIGINT, batch BIGINT, seq_len BIGINT, n_layers BIGINT, d_model BIGINT, lr DOUBLE, seed BIGINT, salt BIGINT, threads BIGINT, corpus VARCHAR, tokenizer VARCHAR, split VARCHAR,
    conditions VARCHAR, specification JSON, versions_id VARCHAR, attention VARCHAR, attempt INTEGER NOT NULL, digest VARCHAR
);
COMMENT ON TABLE trials IS 'One row for each trial: one training run, in whatever spaces ask for it (see memberships)';
COMMENT ON COLUMN trials.trial_id IS 'Hash of everything that decides its numbers';
COMMENT ON COLUMN trials.variant_id IS 'Fingerprint of its variant';
COMMENT ON COLUMN trials.status IS 'planned, unfinished (begun: running or interrupted), finished, diverged, pruned (a search stopped it at a rung), out_of_memory, bug, timeout, lost (its workers died; the next run tries it again), or damaged (its sealed file is not what was sealed: see ablate doctor)';
COMMENT ON COLUMN trials.ended_step IS 'Step at which it ended; NULL until then';
COMMENT ON COLUMN trials.detail IS 'What is known of the end: for diverged the first part with a non-finite output and the last statistics; for bug the trace; for damaged what is wrong with the file';
COMMENT ON COLUMN trials.steps IS 'Optimiser steps asked for';
COMMENT ON COLUMN trials.batch IS 'Sequences in a batch';
COMMENT ON COLUMN trials.seq_len IS 'Tokens in a sequence';
COMMENT ON COLUMN trials.n_layers IS 'Blocks of the model';
COMMENT ON COLUMN trials.d_model IS 'Its width';
COMMENT ON COLUMN trials.lr IS 'Peak learning rate';
COMMENT ON COLUMN trials.seed IS 'Decides batches and initialisation';
COMMENT ON COLUMN trials.salt IS 'Changes the initialisation alone (A/A arms); 0 otherwise';
COMMENT ON COLUMN trials.threads IS 'CPU threads it was pinned to';
COMMENT ON COLUMN trials.corpus IS 'Fingerprint of the token streams';
COMMENT ON COLUMN trials.tokenizer IS 'What makes its tokens: bytes, or bpe, its vocabulary and the fingerprint of the text it was learnt from, since merges learnt elsewhere are others. Nats per token are comparable where this is the same, and nowhere else';
COMMENT ON COLUMN trials.split IS 'What its held-out loss is of: tuning where a search chose by it, else verdict';
COMMENT ON COLUMN trials.conditions IS 'Hash of all that it is trained and measured under but its block, seed and salt: where it is the same, so is the noise floor. NULL for trials of earlier versions';
COMMENT ON COLUMN trials.specification IS 'The whole trial: architecture with its block, data, recipe, measure';
COMMENT ON COLUMN trials.versions_id IS 'What it ran with: see versions. Trials that differ here are comparable but not bit for bit';
COMMENT ON COLUMN trials.attention IS 'What computed its attentions: the backend and, where it says so, its operator. It follows from the block and from versions_id, and takes no part in pairing; NULL where nothing was computed';
COMMENT ON COLUMN trials.attempt IS 'Which attempt this is, from 1; 0 before the first';
COMMENT ON COLUMN trials.digest IS 'SHA-256 of its sorted metric rows: the same digest means the same numbers, bit for bit';

CREATE OR REPLACE TABLE memberships (
    space VARCHAR NOT NULL, trial_id VARCHAR NOT NULL, variant_id VARCHAR NOT NULL, seed BIGINT NOT NULL
);
COMMENT ON TABLE memberships IS 'Which trials a space asks for; a trial may belong to many spaces';
COMMENT ON COLUMN memberships.space IS 'Name of the space';
COMMENT ON COLUMN memberships.trial_id IS 'The trial';
COMMENT ON COLUMN memberships.variant_id IS 'The variant it stands for in this space';
COMMENT ON COLUMN memberships.seed IS 'The seed; for one seed every variant sees the same batches and is evaluated on the same windows';

CREATE OR REPLACE TABLE comparisons (
    space VARCHAR NOT NULL, position INTEGER NOT NULL, kind VARCHAR, change VARCHAR, detail VARCHAR, before_id VARCHAR, after_id VARCHAR,
    terms VARCHAR, weights JSON
);
COMMENT ON TABLE comparisons IS 'The questions a design asks: what does a change do, from one variant to another?';
COMMENT ON COLUMN comparisons.space IS 'Name of the space';
COMMENT ON COLUMN comparisons.position IS 'Order in the plan, from 1';
COMMENT ON COLUMN comparisons.kind IS 'edit (one edit, against the variant before it), baseline (against the baseline), noise (the baseline against itself with another initialisation), or main or interaction (effects over several variants)';
COMMENT ON COLUMN comparisons.change IS 'Name of the change; for an edit the name of the factor';
COMMENT ON COLUMN comparisons.detail IS 'What changes, field by field';
COMMENT ON COLUMN comparisons.before_id IS 'variant_id before; empty for an effect over several variants';
COMMENT ON COLUMN comparisons.after_id IS 'variant_id after; empty for an effect over several variants';
COMMENT ON COLUMN comparisons.terms IS 'The terms of fairness it is made under; NULL where the space declares but one set';
COMMENT ON COLUMN comparisons.weights IS 'What it sums up, as [variant_id, weight]; NULL for a difference of two variants, and in a factorial, whose effects are fitted';

CREATE OR REPLACE TABLE judged (
    space VARCHAR NOT NULL, position INTEGER NOT NULL, kind VARCHAR, change VARCHAR, terms VARCHAR, metric VARCHAR, before_id VARCHAR, after_id VARCHAR,
    n BIGINT, estimate DOUBLE, low DOUBLE, high DOUBLE, sd DOUBLE, p DOUBLE, p_adjusted DOUBLE, q DOUBLE,
    p_equivalent DOUBLE, p_equivalent_adjusted DOUBLE, method VARCHAR, df DOUBLE, scale VARCHAR, margin DOUBLE,
    verdict VARCHAR, differs BOOLEAN, seeds_needed BIGINT, note VARCHAR, ranked BIGINT, level DOUBLE, judgement BIGINT, better VARCHAR, confidence DOUBLE, seeds BIGINT, current BOOLEAN
);
COMMENT ON TABLE judged IS 'What each comparison of each space came to on each metric, as it was last judged; see effects and verdicts';
COMMENT ON COLUMN judged.space IS 'Name of the space';
COMMENT ON COLUMN judged.position IS 'Order among the verdicts of the space, from 1';
COMMENT ON COLUMN judged.kind IS 'As comparisons.kind';
COMMENT ON COLUMN judged.change IS 'As comparisons.change';
COMMENT ON COLUMN judged.terms IS 'The terms of fairness it is made under; empty where the space declares but one set';
COMMENT ON COLUMN judged.metric IS 'The metric judged';
COMMENT ON COLUMN judged.before_id IS 'variant_id before; empty for an effect over several variants';
COMMENT ON COLUMN judged.after_id IS 'variant_id after; empty for an effect over several variants';
COMMENT ON COLUMN judged.n IS 'Pairs of seeds; of an effect over several variants, seeds';
COMMENT ON COLUMN judged.estimate IS 'Mean of after less before on the scale: a difference, or on the log scale the logarithm of a ratio';
COMMENT ON COLUMN judged.low IS 'Lower end of its interval at confidence; infinite where n bounds nothing, not adjusted for the number of comparisons';
COMMENT ON COLUMN judged.high IS 'Upper end of its interval';
COMMENT ON COLUMN judged.sd IS 'Standard deviation of the differences over seeds, on the same scale';
COMMENT ON COLUMN judged.p IS 'Two-sided p of no difference';
COMMENT ON COLUMN judged.p_adjusted IS 'That by Holm over the family';
COMMENT ON COLUMN judged.q IS 'That by Benjamini and Hochberg over the family';
COMMENT ON COLUMN judged.p_equivalent IS 'Greater p of the two one-sided tests against the margin; NULL without one';
COMMENT ON COLUMN judged.p_equivalent_adjusted IS 'That by Holm over the family';
COMMENT ON COLUMN judged.method IS 'What made interval and p: student, sign_flip, sign, repeated (at the level of one of several looks) pooled (with what the effects of a factorial leave unexplained of one seed) or worst_rank (p by ranks over all seeds, a diverged run worse than any number; the interval is of survivors)';
COMMENT ON COLUMN judged.df IS 'Its degrees of freedom';
COMMENT ON COLUMN judged.scale IS 'linear or log';
COMMENT ON COLUMN judged.margin IS 'Margin of equivalence on that scale; NULL without one';
COMMENT ON COLUMN judged.verdict IS 'better, worse, better_by_rank, worse_by_rank (with a diverged run on a side, by ranks over all seeds), equivalent, undecided or diverged; of noise, which is never judged, undecided';
COMMENT ON COLUMN judged.differs IS 'Equivalent, and significant all the same';
COMMENT ON COLUMN judged.seeds_needed IS 'Pairs that would decide, in all; NULL where nothing is left to decide or no affordable number would';
COMMENT ON COLUMN judged.note IS 'What is to be said of it: who diverged, who is missing';
COMMENT ON COLUMN judged.ranked IS 'Seeds that p is of, where it is by ranks, the diverged among them; 0 where it is by the n differences';
COMMENT ON COLUMN judged.level IS 'What the adjusted p was held against: 0.8 of what earlier judgements of the question, at other seeds, had left of one less the confidence; with looks all of it. NULL for noise';
COMMENT ON COLUMN judged.judgement IS 'Which judgement of its question gave the verdict and the numbers, from 1; NULL for noise';
COMMENT ON COLUMN judged.better IS 'Which direction of the metric is better: lower or higher';
COMMENT ON COLUMN judged.confidence IS 'Confidence of the interval; all verdicts ever given of the family are false in at most one less it';
COMMENT ON COLUMN judged.seeds IS 'Seeds that were looked at';
COMMENT ON COLUMN judged.current IS 'Whether the space is asked as it was when it was judged';

CREATE OR REPLACE TABLE questions (
    space VARCHAR NOT NULL, question VARCHAR NOT NULL, number BIGINT NOT NULL, metrics VARCHAR[], comparisons BIGINT, seeds BIGINT[], looks BIGINT[], without_result BIGINT,
    alpha DOUBLE, level DOUBLE, left_of_alpha DOUBLE,
    better BIGINT, worse BIGINT, equivalent BIGINT, undecided BIGINT, diverged BIGINT, judged_at DOUBLE, effects JSON
);
COMMENT ON TABLE questions IS 'Questions over time: one row for each judgement of each question, at whatever seeds. What was asked (comparisons, variants as they are trained, metrics and their scales) makes the question; seeds, results, margins and evaluation make the judgement';
COMMENT ON COLUMN questions.space IS 'Name of a space that it was made for; each has a row';
COMMENT ON COLUMN questions.question IS 'Hash of what is asked: the same whatever the seeds, and in whatever space';
COMMENT ON COLUMN questions.number IS 'Which judgement of the question it is, from 1; the same seeds again are no other, under the same margin and evaluation';
COMMENT ON COLUMN questions.metrics IS 'The metrics of its family';
COMMENT ON COLUMN questions.comparisons IS 'Distinct comparisons of the family on each metric';
COMMENT ON COLUMN questions.seeds IS 'The seeds it was of';
COMMENT ON COLUMN questions.without_result IS 'How many of their trials had no result, being a bug, a timeout or out of memory; once one has, that is another judgement';
COMMENT ON COLUMN questions.looks IS 'Numbers of seeds after which it was looked, all of which are one judgement; NULL where the seeds were fixed';
COMMENT ON COLUMN questions.alpha IS 'In how many tables any verdict may be false, over all judgements of the question together';
COMMENT ON COLUMN questions.level IS 'What of it this one was held at';
COMMENT ON COLUMN questions.left_of_alpha IS 'What it leaves of it to those after it';
COMMENT ON COLUMN questions.better IS 'How many verdicts it had that said better, those of earlier judgements included, which stand';
COMMENT ON COLUMN questions.worse IS 'That said worse';
COMMENT ON COLUMN questions.equivalent IS 'That said equivalent';
COMMENT ON COLUMN questions.undecided IS 'That were undecided';
COMMENT ON COLUMN questions.diverged IS 'That could not be given, since a side diverged at every seed';
COMMENT ON COLUMN questions.judged_at IS 'When it was last judged at these seeds, in seconds since 1970, UTC';
COMMENT ON COLUMN questions.effects IS 'What it found of each comparison on each metric, with all numbers';

CREATE OR REPLACE TABLE proposals (
    space VARCHAR NOT NULL, k INTEGER NOT NULL, derivation VARCHAR, variant_id VARCHAR, repeat BOOLEAN, choices INTEGER, random INTEGER
);
COMMENT ON TABLE proposals IS 'What a search has proposed, one row for each proposal in order';
COMMENT ON COLUMN proposals.space IS 'Name of the space';
COMMENT ON COLUMN proposals.k IS 'Number of the proposal, from 0';
COMMENT ON COLUMN proposals.derivation IS 'Its number among the derivations of the grammar, which may be beyond 64 bits';
COMMENT ON COLUMN proposals.variant_id IS 'What it is: see variants';
COMMENT ON COLUMN proposals.repeat IS 'Whether it was proposed before, or is the reference; it was not trained again';
COMMENT ON COLUMN proposals.choices IS 'Choices that the grammar asks for on the way to it';
COMMENT ON COLUMN proposals.random IS 'Of these, how many were made without regard to any result';

CREATE OR REPLACE TABLE metrics (trial_id VARCHAR NOT NULL, step BIGINT NOT NULL, metric VARCHAR NOT NULL, address VARCHAR NOT NULL, value DOUBLE);
COMMENT ON TABLE metrics IS 'Every measured number, once for each (trial_id, step, metric, address)';
COMMENT ON COLUMN metrics.trial_id IS 'The trial';
COMMENT ON COLUMN metrics.step IS 'Optimiser steps done before the measurement';
COMMENT ON COLUMN metrics.metric IS 'Name of the metric; see definitions';
COMMENT ON COLUMN metrics.address IS 'The part measured, as in layers.3.attention; empty for the whole model';
COMMENT ON COLUMN metrics.value IS 'The number; may be NaN or infinite (divergence is a result)';

CREATE OR REPLACE TABLE summaries (trial_id VARCHAR NOT NULL, name VARCHAR NOT NULL, value DOUBLE NOT NULL, step BIGINT NOT NULL, address VARCHAR);
COMMENT ON TABLE summaries IS 'Each trial''s numbers, one for each name: <metric> at its end, peak_<metric> and mean_<metric> over its whole course. Filled from its rows when they are loaded, by summaries.sql';
COMMENT ON COLUMN summaries.trial_id IS 'The trial';
COMMENT ON COLUMN summaries.name IS '<metric>: of the whole model, or the mean over addresses, at the last step measured, of finished trials alone; peak_<metric>: the largest finite value over all addresses and steps, of diverged trials too; mean_<metric>: the mean of the finite values over all addresses and steps, of finished trials alone; token_correlation is peak_token_correlation_rms; perplexity is exp(eval_loss)';
COMMENT ON COLUMN summaries.value IS 'The number; always finite';
COMMENT ON COLUMN summaries.step IS 'Where it was measured; of equal peaks the earliest';
COMMENT ON COLUMN summaries.address IS 'The part it was measured at; empty for the whole model, NULL for a mean over parts, or over steps';

CREATE OR REPLACE TABLE timings (trial_id VARCHAR NOT NULL, step BIGINT NOT NULL, name VARCHAR NOT NULL, seconds DOUBLE);
COMMENT ON TABLE timings IS 'What a clock measured: never part of what is compared';
COMMENT ON COLUMN timings.trial_id IS 'The trial';
COMMENT ON COLUMN timings.step IS 'The step';
COMMENT ON COLUMN timings.name IS 'What was timed; began and ended are seconds since 1970, UTC';
COMMENT ON COLUMN timings.seconds IS 'Seconds';

CREATE OR REPLACE TABLE definitions (space VARCHAR NOT NULL, metric VARCHAR NOT NULL, definition VARCHAR, source VARCHAR);
COMMENT ON TABLE definitions IS 'What each metric means; papers differ, so definitions travel with the numbers';
COMMENT ON COLUMN definitions.space IS 'Name of the space';
COMMENT ON COLUMN definitions.metric IS 'Name of the metric';
COMMENT ON COLUMN definitions.definition IS 'The definition in one line';
COMMENT ON COLUMN definitions.source IS 'Where it is from';

CREATE OR REPLACE TABLE versions (versions_id VARCHAR NOT NULL, name VARCHAR NOT NULL, version VARCHAR);
COMMENT ON TABLE versions IS 'What trials ran with: one row for each thing that may change the last bits';
COMMENT ON COLUMN versions.versions_id IS 'Hash of the whole set; trials.versions_id refers to it';
COMMENT ON COLUMN versions.name IS 'python, torch, ablate, platform, cpu, …';
COMMENT ON COLUMN versions.version IS 'Its version or name';
