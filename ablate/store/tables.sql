-- The tables of ablate.duckdb. They are a projection of the journal: filled again whenever this text changes.
-- Every table and column has a comment, which DuckDB keeps: SELECT table_name, column_name, comment FROM duckdb_columns().

CREATE OR REPLACE TABLE projection (sql_digest VARCHAR NOT NULL);
COMMENT ON TABLE projection IS 'One row: which text of the schema made this file';
COMMENT ON COLUMN projection.sql_digest IS 'Hash of tables.sql, summaries.sql and views.sql; another one, and the file is filled anew';

CREATE OR REPLACE TABLE spaces (
    space VARCHAR NOT NULL, question VARCHAR, design VARCHAR, baseline VARCHAR, seeds BIGINT[], notes VARCHAR[],
    source VARCHAR, resolved JSON, corpus JSON, open BOOLEAN, plan_digest VARCHAR NOT NULL
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
COMMENT ON COLUMN spaces.open IS 'Whether it is a search that goes on: more trials may follow';
COMMENT ON COLUMN spaces.plan_digest IS 'Hash of the plan';

CREATE OR REPLACE TABLE variants (
    space VARCHAR NOT NULL, variant_id VARCHAR NOT NULL, variant VARCHAR, position INTEGER, names VARCHAR[],
    edits VARCHAR[], parameters BIGINT, flops BIGINT, block VARCHAR
);
COMMENT ON TABLE variants IS 'One row for each distinct block of a space';
COMMENT ON COLUMN variants.space IS 'Name of the space';
COMMENT ON COLUMN variants.variant_id IS 'Fingerprint of the variant';
COMMENT ON COLUMN variants.variant IS 'The name shown';
COMMENT ON COLUMN variants.position IS 'Order in the plan, from 1';
COMMENT ON COLUMN variants.names IS 'Every name that led to this block';
COMMENT ON COLUMN variants.edits IS 'Edits applied to the design''s start';
COMMENT ON COLUMN variants.parameters IS 'Trained parameters of the whole model';
COMMENT ON COLUMN variants.flops IS 'FLOPs of matrix products in one forward pass over one sequence; a product of [m,k] and [k,n] counts 2mkn';
COMMENT ON COLUMN variants.block IS 'The block, printed as YAML';

CREATE OR REPLACE TABLE trials (
    trial_id VARCHAR NOT NULL, variant_id VARCHAR, status VARCHAR NOT NULL, ended_step BIGINT, detail JSON,
    steps BIGINT, batch BIGINT, seq_len BIGINT, n_layers BIGINT, d_model BIGINT, lr DOUBLE, seed BIGINT, salt BIGINT, threads BIGINT, corpus VARCHAR, split VARCHAR,
    specification JSON, versions_id VARCHAR, attempt INTEGER NOT NULL, digest VARCHAR
);
COMMENT ON TABLE trials IS 'One row for each trial: one training run, in whatever spaces ask for it (see memberships)';
COMMENT ON COLUMN trials.trial_id IS 'Hash of everything that decides its numbers';
COMMENT ON COLUMN trials.variant_id IS 'Fingerprint of its variant';
COMMENT ON COLUMN trials.status IS 'planned, unfinished (begun: running or interrupted), finished, diverged, pruned (a search stopped it at a rung), out_of_memory, bug, timeout, or damaged (its sealed file is not what was sealed: see ablate doctor)';
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
COMMENT ON COLUMN trials.split IS 'What its held-out loss is of: tuning where a search chose by it, else verdict';
COMMENT ON COLUMN trials.specification IS 'The whole trial: architecture with its block, data, recipe, measure';
COMMENT ON COLUMN trials.versions_id IS 'What it ran with: see versions. Trials that differ here are comparable but not bit for bit';
COMMENT ON COLUMN trials.attempt IS 'Which attempt this is, from 1; 0 before the first';
COMMENT ON COLUMN trials.digest IS 'SHA-256 of its sorted metric rows: the same digest means the same numbers, bit for bit';

CREATE OR REPLACE TABLE memberships (
    space VARCHAR NOT NULL, trial_id VARCHAR NOT NULL, variant_id VARCHAR NOT NULL, seed BIGINT NOT NULL
);
COMMENT ON TABLE memberships IS 'Which trials a space asks for; a trial may belong to many spaces';
COMMENT ON COLUMN memberships.space IS 'Name of the space';
COMMENT ON COLUMN memberships.trial_id IS 'The trial';
COMMENT ON COLUMN memberships.variant_id IS 'The variant it stands for in this space';
COMMENT ON COLUMN memberships.seed IS 'The seed; for one seed every variant sees the same batches';

CREATE OR REPLACE TABLE comparisons (
    space VARCHAR NOT NULL, position INTEGER NOT NULL, kind VARCHAR, change VARCHAR, detail VARCHAR, before_id VARCHAR, after_id VARCHAR
);
COMMENT ON TABLE comparisons IS 'The questions a design asks: what does a change do, from one variant to another?';
COMMENT ON COLUMN comparisons.space IS 'Name of the space';
COMMENT ON COLUMN comparisons.position IS 'Order in the plan, from 1';
COMMENT ON COLUMN comparisons.kind IS 'edit (one edit, against the variant before it) or baseline (against the baseline)';
COMMENT ON COLUMN comparisons.change IS 'Name of the change; for an edit the name of the factor';
COMMENT ON COLUMN comparisons.detail IS 'What changes, field by field';
COMMENT ON COLUMN comparisons.before_id IS 'variant_id before';
COMMENT ON COLUMN comparisons.after_id IS 'variant_id after';

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
COMMENT ON TABLE summaries IS 'Each trial''s numbers, one for each name: <metric> at its end, peak_<metric> over its whole course. Filled from its rows when they are loaded, by summaries.sql';
COMMENT ON COLUMN summaries.trial_id IS 'The trial';
COMMENT ON COLUMN summaries.name IS '<metric>: of the whole model, or the mean over addresses, at the last step measured, of finished trials alone; peak_<metric>: the largest finite value over all addresses and steps, of diverged trials too; token_correlation is peak_token_correlation_rms';
COMMENT ON COLUMN summaries.value IS 'The number; always finite';
COMMENT ON COLUMN summaries.step IS 'Where it was measured; of equal peaks the earliest';
COMMENT ON COLUMN summaries.address IS 'The part it was measured at; empty for the whole model, NULL for a mean over parts';

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
