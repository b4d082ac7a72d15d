-- The views of ablate.duckdb. Means and standard deviations are computed in the order of seeds, so that the same rows give
-- the same bits whatever the number of threads. All but `curves`, `kernels`, `streams` and `forecast_errors` read
-- summaries and never metrics. Pairs are of trials for the verdict; of trials that choose something, only those of a search
-- are paired, since all of them have the same settings.
--
-- A column without a comment here inherits that of the first table or view it reads which has a column of that name.
-- What belongs to a plan has its id, `plan`; where that may not be the current plan of its space, `current` tells.

-- Trials are paired where their versions are the same; one of before, which recorded the processor's name and not what it
-- computes, by that name.
CREATE OR REPLACE MACRO alike(versions, by_name, other_versions, other_by_name) AS
    versions IS NOT DISTINCT FROM other_versions
    OR coalesce(versions = other_by_name OR by_name = other_versions, false);

CREATE OR REPLACE VIEW spaces AS SELECT * EXCLUDE (current) FROM plans WHERE current;
COMMENT ON VIEW spaces IS 'One row for each space: its current plan, the last that was requested. All of its plans are in plans';

CREATE OR REPLACE VIEW variants AS FROM plan_variants SEMI JOIN spaces USING (plan);
COMMENT ON VIEW variants IS 'The rows of plan_variants for the current plan of each space';

CREATE OR REPLACE VIEW memberships AS FROM plan_trials SEMI JOIN spaces USING (plan);
COMMENT ON VIEW memberships IS 'The rows of plan_trials for the current plan of each space';

CREATE OR REPLACE VIEW comparisons AS FROM plan_comparisons SEMI JOIN spaces USING (plan);
COMMENT ON VIEW comparisons IS 'The rows of plan_comparisons for the current plan of each space';

CREATE OR REPLACE VIEW proposals AS FROM plan_proposals SEMI JOIN spaces USING (plan);
COMMENT ON VIEW proposals IS 'The rows of plan_proposals for the current plan of each space';

CREATE OR REPLACE VIEW skipped AS FROM plan_skipped SEMI JOIN spaces USING (plan);
COMMENT ON VIEW skipped IS 'The rows of plan_skipped for the current plan of each space';

CREATE OR REPLACE VIEW definitions AS FROM plan_definitions SEMI JOIN spaces USING (plan);
COMMENT ON VIEW definitions IS 'The rows of plan_definitions for the current plan of each space';

CREATE OR REPLACE VIEW forecasts AS FROM plan_forecasts SEMI JOIN spaces USING (plan);
COMMENT ON VIEW forecasts IS 'The rows of plan_forecasts for the current plan of each space';

CREATE OR REPLACE VIEW clocks AS
SELECT trial_id, name, median(seconds) AS value
FROM timings JOIN trials USING (trial_id)
WHERE status = 'finished' AND name IN ('step_seconds', 'tokens_per_second') GROUP BY trial_id, name;
COMMENT ON VIEW clocks IS 'Timings of each finished trial: they depend on the machine and its load, and are never the same twice';
COMMENT ON COLUMN clocks.name IS 'step_seconds or tokens_per_second';
COMMENT ON COLUMN clocks.value IS 'Median over the measured intervals of the mean over the steps of each';

CREATE OR REPLACE VIEW numbers AS
SELECT trial_id, name, value FROM summaries UNION ALL SELECT trial_id, name, value FROM clocks;
COMMENT ON VIEW numbers IS 'Every number of a trial that can be judged: those of summaries and of clocks';
COMMENT ON COLUMN numbers.name IS 'As summaries.name, step_seconds or tokens_per_second';

CREATE OR REPLACE VIEW trained AS
WITH taken AS (
    SELECT trial_id, batch, seq_len, CASE WHEN status = 'finished' THEN steps ELSE ended_step END AS taken,
        CAST(specification ->> '$.recipe.batch_ramp.from' AS BIGINT) AS first,
        CASE json_type(specification, '$.recipe.batch_ramp.until')
            WHEN 'DOUBLE' THEN round_even(CAST(specification ->> '$.recipe.batch_ramp.until' AS DOUBLE) * steps, 0)
            ELSE CAST(specification ->> '$.recipe.batch_ramp.until' AS BIGINT) END AS ramp
    FROM trials
),
growing AS (SELECT *, CASE WHEN ramp IS NULL THEN 0 ELSE least(taken, CAST(ramp AS BIGINT)) END AS within FROM taken),
counted AS (
    SELECT trial_id, seq_len, (taken - within) * batch + coalesce(list_sum(
        [first + (batch - first) * step // CAST(ramp AS BIGINT) FOR step IN range(within)]), 0) AS sequences
    FROM growing
)
SELECT trial_id, CAST(sequences AS BIGINT) AS sequences, CAST(sequences * seq_len AS BIGINT) AS tokens FROM counted;
COMMENT ON VIEW trained IS 'What each trial has been trained on: one row for each, NULL until it has ended';
COMMENT ON COLUMN trained.sequences IS 'Sequences in all of its batches, which grow where the recipe has a batch_ramp';
COMMENT ON COLUMN trained.tokens IS 'Tokens trained on, repeated ones included; NULL until the trial has ended';

CREATE OR REPLACE VIEW final AS
WITH wide AS (
    SELECT
        trial_id,
        max(value) FILTER (name = 'eval_loss') AS eval_loss,
        max(value) FILTER (name = 'eval_bits_per_byte') AS eval_bits_per_byte,
        max(value) FILTER (name = 'peak_kurtosis') AS peak_kurtosis,
        max(address) FILTER (name = 'peak_kurtosis') AS peak_kurtosis_address,
        max(step) FILTER (name = 'peak_kurtosis') AS peak_kurtosis_step,
        max(value) FILTER (name = 'token_correlation') AS token_correlation,
        max(value) FILTER (name = 'peak_token_cosine') AS peak_token_cosine
    FROM summaries
    WHERE name IN ('eval_loss', 'eval_bits_per_byte', 'peak_kurtosis', 'token_correlation', 'peak_token_cosine') GROUP BY trial_id
)
SELECT
    m.space, m.plan, p.current, m.trial_id, m.variant_id, v.variant, m.seed, t.salt, t.split, t.tokenizer, t.status,
    CASE WHEN t.status = 'diverged' THEN t.ended_step END AS diverged_step,
    w.eval_loss, w.eval_bits_per_byte, w.peak_kurtosis, w.peak_kurtosis_address, w.peak_kurtosis_step, w.token_correlation,
    w.peak_token_cosine, v.parameters, v.flops, 3 * v.flops - coalesce(v.spared, 0) AS training_flops,
    d.tokens
FROM plan_trials m
JOIN plans p USING (plan)
JOIN trials t USING (trial_id)
LEFT JOIN trained d ON d.trial_id = m.trial_id
LEFT JOIN plan_variants v ON v.plan = m.plan AND v.variant_id = m.variant_id
LEFT JOIN wide w ON w.trial_id = m.trial_id;
COMMENT ON VIEW final IS 'One row for each trial of each plan, however it ended; a trial shared by several plans has a row for each. WHERE current keeps those of the current plan of each space';
COMMENT ON COLUMN final.salt IS 'Changes the initialisation alone, in the A/A arm that measures noise; 0 otherwise';
COMMENT ON COLUMN final.split IS 'The split of eval_loss: tuning where something is chosen by it, else verdict';
COMMENT ON COLUMN final.status IS 'As trials.status; only finished trials count in means';
COMMENT ON COLUMN final.diverged_step IS 'Step of the first non-finite loss or gradient; NULL unless diverged';
COMMENT ON COLUMN final.eval_loss IS 'Held-out loss at the end, nats per token; NULL unless finished. Comparable under one tokenizer';
COMMENT ON COLUMN final.eval_bits_per_byte IS 'The same loss in bits per byte of text, comparable across tokenizers; NULL unless finished';
COMMENT ON COLUMN final.peak_kurtosis IS 'Largest finite kurtosis over all addresses and evaluations; of a diverged trial, up to its divergence';
COMMENT ON COLUMN final.peak_kurtosis_address IS 'The part with that kurtosis';
COMMENT ON COLUMN final.peak_kurtosis_step IS 'The step with that kurtosis, the earliest if there are several';
COMMENT ON COLUMN final.token_correlation IS 'Largest finite token_correlation_rms over all addresses and evaluations';
COMMENT ON COLUMN final.peak_token_cosine IS 'Largest finite token_cosine over all addresses and evaluations; 1 is rank collapse';
COMMENT ON COLUMN final.training_flops IS 'FLOPs of training on one sequence: three times a forward pass, minus the gradients that fixed parts do not need (variants.spared)';

CREATE OR REPLACE VIEW counted AS
SELECT m.*, p.current
FROM plan_trials m JOIN trials t USING (trial_id) JOIN plans p USING (plan)
WHERE coalesce(t.salt, 0) = 0 AND (t.split IS DISTINCT FROM 'tuning' OR p.design = 'search');
COMMENT ON VIEW counted IS 'The rows of plan_trials whose numbers stand for their variant: without trials that only chose its settings, and without those of its A/A arm, which measure noise';

CREATE OR REPLACE VIEW leaderboard AS
SELECT
    f.space, f.plan, any_value(f.current) AS current, f.variant_id, f.variant, any_value(f.split) AS split,
    count(*) AS n,
    count(*) FILTER (f.status = 'finished') AS finished,
    count(*) FILTER (f.status = 'diverged') AS diverged,
    count(*) FILTER (f.status IN ('out_of_memory', 'bug', 'timeout', 'lost', 'missing', 'damaged')) AS failed,
    count(*) FILTER (f.status = 'pruned') AS pruned,
    count(*) FILTER (f.status IN ('planned', 'unfinished')) AS unfinished,
    avg(f.eval_loss ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS eval_loss_mean,
    stddev_samp(f.eval_loss ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS eval_loss_sd,
    any_value(f.tokenizer) AS tokenizer,
    avg(f.eval_bits_per_byte ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS eval_bits_per_byte_mean,
    stddev_samp(f.eval_bits_per_byte ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS eval_bits_per_byte_sd,
    avg(ln(f.peak_kurtosis) ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS log_peak_kurtosis_mean,
    stddev_samp(ln(f.peak_kurtosis) ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS log_peak_kurtosis_sd,
    exp(avg(ln(f.peak_kurtosis) ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished')) AS peak_kurtosis,
    avg(f.token_correlation ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS token_correlation_mean,
    stddev_samp(f.token_correlation ORDER BY f.seed, f.trial_id) FILTER (f.status = 'finished') AS token_correlation_sd,
    any_value(f.parameters) AS parameters,
    any_value(f.flops) AS flops
FROM (
    SELECT f.*, bool_or(f.split = 'verdict') OVER (PARTITION BY f.plan, f.variant_id) AS confirmed
    FROM final f SEMI JOIN counted c ON (c.plan, c.trial_id) = (f.plan, f.trial_id)
) f
WHERE f.split IS NOT DISTINCT FROM 'verdict' OR NOT coalesce(f.confirmed, false)
GROUP BY f.space, f.plan, f.variant_id, f.variant;
COMMENT ON VIEW leaderboard IS 'One row for each variant of each plan (WHERE current: of the current plan of each space), except for its A/A arm, which is the baseline again; trials that only chose settings are left out. Means and standard deviations are over finished trials; the others are counted in columns of their own. Of a block that a search has confirmed, only the confirmation counts';
COMMENT ON COLUMN leaderboard.split IS 'The split of the losses: tuning for blocks that a search tried and did not confirm, else verdict';
COMMENT ON COLUMN leaderboard.n IS 'Trials requested';
COMMENT ON COLUMN leaderboard.finished IS 'Trials that finished: the n of every mean here';
COMMENT ON COLUMN leaderboard.diverged IS 'Trials that diverged';
COMMENT ON COLUMN leaderboard.failed IS 'Trials without a result: out_of_memory, bug, timeout, lost, missing or damaged';
COMMENT ON COLUMN leaderboard.pruned IS 'Trials that a search stopped at a rung: no result of a complete training run';
COMMENT ON COLUMN leaderboard.unfinished IS 'Trials not started, running or interrupted';
COMMENT ON COLUMN leaderboard.eval_loss_mean IS 'Mean held-out loss, nats per token: comparable under one tokenizer';
COMMENT ON COLUMN leaderboard.eval_loss_sd IS 'Its sample standard deviation over seeds; NULL for one seed';
COMMENT ON COLUMN leaderboard.eval_bits_per_byte_mean IS 'Mean held-out loss, bits per byte of text: comparable across tokenizers';
COMMENT ON COLUMN leaderboard.eval_bits_per_byte_sd IS 'Its sample standard deviation over seeds; NULL for one seed';
COMMENT ON COLUMN leaderboard.log_peak_kurtosis_mean IS 'Mean natural logarithm of the peak kurtosis';
COMMENT ON COLUMN leaderboard.log_peak_kurtosis_sd IS 'Its sample standard deviation over seeds';
COMMENT ON COLUMN leaderboard.peak_kurtosis IS 'Geometric mean of the peak kurtosis';
COMMENT ON COLUMN leaderboard.token_correlation_mean IS 'Mean of final.token_correlation';
COMMENT ON COLUMN leaderboard.token_correlation_sd IS 'Its sample standard deviation over seeds';

CREATE OR REPLACE VIEW streams AS
WITH probes (quantity, probe) AS (VALUES ('size', 'activation_rms'), ('cosine', 'token_cosine'), ('gradient', 'stream_gradient')),
known AS (
    SELECT x.*, p.quantity FROM metrics x JOIN probes p ON regexp_replace(x.metric, '_in_training$', '') = p.probe
    WHERE isfinite(x.value)
),
last AS (
    SELECT trial_id, quantity, max(step) AS step FROM known SEMI JOIN (FROM trials WHERE status = 'finished') USING (trial_id)
    GROUP BY ALL
),
read AS (
    SELECT x.trial_id, x.quantity, x.address, x.step, arg_max(x.value, ends_with(x.metric, '_in_training')) AS value
    FROM known x LEFT JOIN last l USING (trial_id, quantity)
    WHERE x.step = 0 OR x.step = l.step
    GROUP BY ALL
)
SELECT
    r.trial_id, r.quantity, r.address, r.step,
    CASE r.quantity WHEN 'gradient' THEN r.value / behind.value ELSE r.value END AS value
FROM read r LEFT JOIN read behind
    ON (behind.trial_id, behind.quantity, behind.address, behind.step)
        = (r.trial_id, 'gradient', regexp_replace(r.address, '[.][^.]*$', '.end'), r.step)
WHERE r.quantity <> 'gradient' OR behind.value > 0;
COMMENT ON VIEW streams IS 'What each trial measured of its stream before the first step and, if it finished, when last measured, in the quantities that are forecast: in training itself where the probe ..._in_training is asked for (with dropout, as is forecast), else on the evaluation windows (without). The gradient at step 0 is that of the first step. One row for each quantity, place and step with a finite number; none of a gradient that is 0 behind the last layer, as of a head that starts at 0. It reads metrics';
COMMENT ON COLUMN streams.quantity IS 'size: root mean square of the stream over channels and tokens (probe activation_rms); cosine: mean cosine of two tokens of one sequence (probe token_cosine); gradient: root mean square of the gradient of the loss over that behind the last layer (probe stream_gradient)';
COMMENT ON COLUMN streams.address IS 'The block, or the head, whose input is read; of a gradient, layers.end is behind the last layer';
COMMENT ON COLUMN streams.step IS '0, or the last step at which a trial that finished measured the quantity';
COMMENT ON COLUMN streams.value IS 'The quantity at this place and step';

CREATE OR REPLACE VIEW forecast_errors AS
WITH asked AS (
    SELECT f.space, f.plan, f.variant_id, f.variant, l.layer, l.address, f.whole, unnest([
        {'quantity': 'size', 'forecast': l.size, 'low': l.size_low, 'high': l.size_high},
        {'quantity': 'cosine', 'forecast': l.cosine, 'low': l.cosine_low, 'high': l.cosine_high},
        {'quantity': 'gradient', 'forecast': l.gradient, 'low': l.gradient_low, 'high': l.gradient_high}
    ], recursive := true)
    FROM plan_forecasts f JOIN plan_forecast_layers l USING (plan, variant_id)
    WHERE l.address IS NOT NULL AND EXISTS (
        FROM plan_trials m JOIN trials t USING (trial_id)
        WHERE (m.plan, m.variant_id) = (f.plan, f.variant_id) AND coalesce(t.salt, 0) = 0
    )
),
read AS (
    SELECT c.plan, c.variant_id, c.seed, s.*
    FROM streams s JOIN counted c USING (trial_id)
)
SELECT
    a.space, a.plan, p.current, a.variant_id, a.variant, a.quantity, a.layer, a.address, a.whole, a.forecast,
    a.low, a.high,
    count(r.value) FILTER (r.step = 0) AS n,
    avg(r.value ORDER BY r.seed, r.trial_id) FILTER (r.step = 0) AS measured,
    stddev_samp(r.value ORDER BY r.seed, r.trial_id) FILTER (r.step = 0) AS sd,
    CASE a.quantity WHEN 'cosine' THEN a.forecast - measured ELSE a.forecast / nullif(measured, 0) - 1 END AS error,
    CASE WHEN a.low IS NOT NULL THEN count(r.value) FILTER (r.step = 0 AND r.value BETWEEN a.low AND a.high) END AS within,
    max(r.step) FILTER (r.step > 0) AS trained_step,
    count(r.value) FILTER (r.step > 0) AS trained_n,
    avg(r.value ORDER BY r.seed, r.trial_id) FILTER (r.step > 0) AS trained,
    CASE a.quantity WHEN 'cosine' THEN a.forecast - trained ELSE a.forecast / nullif(trained, 0) - 1 END AS trained_error
FROM asked a JOIN plans p USING (plan)
LEFT JOIN read r ON (r.plan, r.variant_id, r.quantity, r.address) = (a.plan, a.variant_id, a.quantity, a.address)
GROUP BY a.space, a.plan, p.current, a.variant_id, a.variant, a.quantity, a.layer, a.address, a.whole, a.forecast,
    a.low, a.high;
COMMENT ON VIEW forecast_errors IS 'What was forecast of each variant, beside what its trials measured before the first step and after the last, as streams has it: one row for each layer and quantity, except of the A/A arm, which is the baseline again. It reads metrics. n is 0 where no trial has measured it at step 0: the probe is not in measure.probes, or no trial of the variant has begun or has finite numbers; variants without a forecast are in forecasts, with the reason';
COMMENT ON COLUMN forecast_errors.forecast IS 'The forecast, in the limit of width';
COMMENT ON COLUMN forecast_errors.low IS 'Lower end of the interval of the forecast, within which 95 % of networks of this width lie; NULL in a plan that was kept without';
COMMENT ON COLUMN forecast_errors.high IS 'Upper end of this interval';
COMMENT ON COLUMN forecast_errors.n IS 'Trials, one for each seed, that measured it at step 0';
COMMENT ON COLUMN forecast_errors.measured IS 'Mean over these trials';
COMMENT ON COLUMN forecast_errors.sd IS 'Sample standard deviation over these trials; NULL for one';
COMMENT ON COLUMN forecast_errors.trained_step IS 'The last step at which a trial that finished measured it';
COMMENT ON COLUMN forecast_errors.trained_n IS 'Trials that finished and have measured it after step 0';
COMMENT ON COLUMN forecast_errors.trained IS 'Mean over these trials of what each measured last: how far the stream has gone from its start, which a forecast is of';
COMMENT ON COLUMN forecast_errors.trained_error IS 'As error, with trained in place of measured';
COMMENT ON COLUMN forecast_errors.error IS 'Of a size or a gradient relative: forecast over measured, minus 1. Of a cosine, which may be 0 or negative, the difference: forecast minus measured. NULL where n is 0';
COMMENT ON COLUMN forecast_errors.within IS 'How many of the n trials lie within the interval of the forecast, which is one of single networks; NULL where it has none';

CREATE OR REPLACE VIEW kernels AS
WITH cells AS (
    SELECT
        trial_id, step, regexp_extract(address, '^(.*)\[', 1) AS address,
        CAST(regexp_extract(address, '\[(\d+),', 1) AS INTEGER) AS i,
        CAST(regexp_extract(address, ',(\d+)\]$', 1) AS INTEGER) AS j, value
    FROM metrics WHERE metric = 'token_kernel'
)
SELECT
    m.space, m.plan, m.current, v.variant, m.seed, m.trial_id, c.step, c.address, c.i, c.j,
    c.i * t.seq_len // least(16, t.seq_len) + CAST((c.i * t.seq_len) % least(16, t.seq_len) > 0 AS INTEGER) AS first_i,
    c.j * t.seq_len // least(16, t.seq_len) + CAST((c.j * t.seq_len) % least(16, t.seq_len) > 0 AS INTEGER) AS first_j,
    c.value
FROM cells c
JOIN counted m USING (trial_id)
JOIN trials t USING (trial_id)
JOIN plan_variants v ON v.plan = m.plan AND v.variant_id = m.variant_id;
COMMENT ON VIEW kernels IS 'Snapshots of the normalised kernel matrix of tokens within a sequence, averaged over sequences: one row for each cell with i >= j of each trial of each plan (the matrix is symmetric)';
COMMENT ON COLUMN kernels.step IS 'Updates done before the snapshot';
COMMENT ON COLUMN kernels.address IS 'The block whose input it is of, such as layers.3, or the head';
COMMENT ON COLUMN kernels.i IS 'Row: one of min(16, seq_len) equal ranges of positions, from 0; for up to 16 tokens the position itself';
COMMENT ON COLUMN kernels.j IS 'Column, likewise; never above i';
COMMENT ON COLUMN kernels.first_i IS 'First position of the range i, from 0';
COMMENT ON COLUMN kernels.first_j IS 'First position of the range j, from 0';
COMMENT ON COLUMN kernels.value IS 'Mean cosine of the tokens of both ranges; 1 everywhere is rank collapse';

CREATE OR REPLACE VIEW curves AS
SELECT
    m.space, m.plan, m.current, v.variant, x.metric, x.address, x.step,
    count(*) FILTER (isfinite(x.value)) AS n,
    count(*) FILTER (NOT isfinite(x.value)) AS n_not_finite,
    avg(x.value ORDER BY m.seed, m.trial_id) FILTER (isfinite(x.value)) AS mean,
    stddev_samp(x.value ORDER BY m.seed, m.trial_id) FILTER (isfinite(x.value)) AS sd,
    mean - sd AS low,
    mean + sd AS high,
    min(x.value) FILTER (isfinite(x.value)) AS min,
    max(x.value) FILTER (isfinite(x.value)) AS max
FROM metrics x
JOIN (
    SELECT m.*, p.current, t.split = 'verdict' OR NOT bool_or(t.split IS NOT DISTINCT FROM 'verdict') OVER (PARTITION BY m.plan, m.variant_id) AS counts
    FROM plan_trials m JOIN plans p USING (plan) JOIN trials t USING (trial_id)
) m ON m.trial_id = x.trial_id AND m.counts
JOIN plan_variants v ON v.plan = m.plan AND v.variant_id = m.variant_id
WHERE x.metric <> 'token_kernel'
GROUP BY ALL;
COMMENT ON VIEW curves IS 'Every metric except token_kernel (see kernels) against the step, over the seeds of a variant of a plan; diverged and running trials count up to their last step. Where a variant has trials for the verdict, those that only chose something do not count';
COMMENT ON COLUMN curves.n IS 'Trials with a finite value here';
COMMENT ON COLUMN curves.n_not_finite IS 'Trials whose value here is NaN or infinite';
COMMENT ON COLUMN curves.mean IS 'Mean over the n trials';
COMMENT ON COLUMN curves.sd IS 'Sample standard deviation over the n trials';
COMMENT ON COLUMN curves.low IS 'Lower edge of the band: mean minus one sd; NULL where n is 1';
COMMENT ON COLUMN curves.high IS 'Upper edge of the band: mean plus one sd';
COMMENT ON COLUMN curves.min IS 'Smallest of the n values';
COMMENT ON COLUMN curves.max IS 'Largest of the n values';

CREATE OR REPLACE VIEW divergences AS
SELECT
    m.space, m.plan, p.current, v.variant, m.seed, m.trial_id, t.ended_step AS step,
    json_extract_string(t.detail, '$.address') AS address, t.detail
FROM plan_trials m
JOIN plans p USING (plan)
JOIN trials t ON t.trial_id = m.trial_id AND t.status = 'diverged'
LEFT JOIN plan_variants v ON v.plan = m.plan AND v.variant_id = m.variant_id;
COMMENT ON VIEW divergences IS 'One row for each trial of each plan that diverged';
COMMENT ON COLUMN divergences.step IS 'Step of the first non-finite loss or gradient';
COMMENT ON COLUMN divergences.address IS 'The first part with a non-finite output; NULL if it is not known';

CREATE OR REPLACE VIEW edits AS
SELECT
    c.space, c.plan, p.current, c.position, c.change AS edit, c.detail, b.variant AS before, a.variant AS after, c.before_id, c.after_id,
    coalesce(c.terms, '') AS terms
FROM plan_comparisons c
JOIN plans p USING (plan)
LEFT JOIN plan_variants b ON b.plan = c.plan AND b.variant_id = c.before_id
LEFT JOIN plan_variants a ON a.plan = c.plan AND a.variant_id = c.after_id
WHERE c.kind = 'edit';
COMMENT ON VIEW edits IS 'The edits a design isolates, each between the two variants that differ in it alone';
COMMENT ON COLUMN edits.edit IS 'Name of the edit, which is that of the factor';
COMMENT ON COLUMN edits.before IS 'Name of the variant without it';
COMMENT ON COLUMN edits.after IS 'Name of the variant with it';
COMMENT ON COLUMN edits.before_id IS 'variant_id without it';
COMMENT ON COLUMN edits.after_id IS 'variant_id with it';
COMMENT ON COLUMN edits.terms IS 'The terms of fairness under which they are compared; empty where the space declares only one set';

CREATE OR REPLACE VIEW pairs AS
SELECT
    f.space, f.plan, f.current, f.variant, b.variant AS baseline, f.seed, f.status, b.status AS baseline_status,
    f.eval_loss, b.eval_loss AS baseline_eval_loss, f.eval_loss - b.eval_loss AS eval_loss_difference,
    f.eval_bits_per_byte - b.eval_bits_per_byte AS eval_bits_per_byte_difference,
    CASE WHEN f.status = 'finished' AND b.status = 'finished' THEN ln(f.peak_kurtosis / b.peak_kurtosis) END AS log_peak_kurtosis_ratio,
    CASE WHEN f.status = 'finished' AND b.status = 'finished' THEN f.token_correlation - b.token_correlation END AS token_correlation_difference,
    alike(tf.versions_id, tf.by_name_id, tb.versions_id, tb.by_name_id) AS same_versions
FROM final f
JOIN plans s ON s.plan = f.plan
JOIN final b ON b.plan = f.plan AND b.variant_id = s.baseline AND b.seed = f.seed AND f.variant_id <> s.baseline
    AND b.split IS NOT DISTINCT FROM f.split AND (f.split IS DISTINCT FROM 'tuning' OR s.design = 'search')
    AND b.salt IS NOT DISTINCT FROM f.salt
JOIN trials tf ON tf.trial_id = f.trial_id
JOIN trials tb ON tb.trial_id = b.trial_id;
COMMENT ON VIEW pairs IS 'Each variant paired with the baseline, seed by seed: for one seed both saw the same batches and were evaluated on the same windows. Pairs that differ in the initialisation alone are in noise_pairs';
COMMENT ON COLUMN pairs.baseline IS 'Name of the baseline';
COMMENT ON COLUMN pairs.status IS 'How the variant''s trial ended';
COMMENT ON COLUMN pairs.baseline_status IS 'How the baseline''s trial ended';
COMMENT ON COLUMN pairs.eval_loss IS 'Held-out loss of the variant; NULL unless finished';
COMMENT ON COLUMN pairs.baseline_eval_loss IS 'Held-out loss of the baseline; NULL unless finished';
COMMENT ON COLUMN pairs.eval_loss_difference IS 'Variant minus baseline; NULL unless both finished';
COMMENT ON COLUMN pairs.eval_bits_per_byte_difference IS 'The same in bits per byte of text';
COMMENT ON COLUMN pairs.log_peak_kurtosis_ratio IS 'Natural logarithm of the ratio of peak kurtosis, variant over baseline; NULL unless both finished';
COMMENT ON COLUMN pairs.token_correlation_difference IS 'Variant minus baseline; NULL unless both finished';
COMMENT ON COLUMN pairs.same_versions IS 'Whether both ran with the same versions on machines that compute the same (where one did not record that, of one name); pairs that did not should be left out';

CREATE OR REPLACE VIEW edit_pairs AS
SELECT
    e.space, e.plan, e.current, e.position, e.edit, e.before, e.after, b.seed,
    b.trial_id AS before_trial, a.trial_id AS after_trial, b.status AS before_status, a.status AS after_status,
    b.eval_loss AS before_eval_loss, a.eval_loss AS after_eval_loss,
    a.eval_loss - b.eval_loss AS eval_loss_difference,
    a.tokenizer, a.eval_bits_per_byte - b.eval_bits_per_byte AS eval_bits_per_byte_difference,
    b.peak_kurtosis AS before_peak_kurtosis, a.peak_kurtosis AS after_peak_kurtosis,
    CASE WHEN a.status = 'finished' AND b.status = 'finished' THEN ln(a.peak_kurtosis / b.peak_kurtosis) END AS log_peak_kurtosis_ratio,
    b.token_correlation AS before_token_correlation, a.token_correlation AS after_token_correlation,
    CASE WHEN a.status = 'finished' AND b.status = 'finished' THEN a.token_correlation - b.token_correlation END AS token_correlation_difference,
    alike(tb.versions_id, tb.by_name_id, ta.versions_id, ta.by_name_id) AS same_versions
FROM edits e
JOIN final b ON b.plan = e.plan AND b.variant_id = e.before_id
JOIN plans s ON s.plan = e.plan
JOIN final a ON a.plan = e.plan AND a.variant_id = e.after_id AND a.seed = b.seed
    AND a.split IS NOT DISTINCT FROM b.split AND (b.split IS DISTINCT FROM 'tuning' OR s.design = 'search')
JOIN trials tb ON tb.trial_id = b.trial_id
JOIN trials ta ON ta.trial_id = a.trial_id;
COMMENT ON VIEW edit_pairs IS 'What each edit did in each plan, seed by seed: the variant with it paired with the one without it, both on the same batches';
COMMENT ON COLUMN edit_pairs.edit IS 'Name of the edit: the same name is the same edit in every space';
COMMENT ON COLUMN edit_pairs.before IS 'Name of the variant without it';
COMMENT ON COLUMN edit_pairs.after IS 'Name of the variant with it';
COMMENT ON COLUMN edit_pairs.before_trial IS 'The trial without it; its other numbers are in summaries';
COMMENT ON COLUMN edit_pairs.after_trial IS 'The trial with it';
COMMENT ON COLUMN edit_pairs.before_status IS 'How the trial without it ended';
COMMENT ON COLUMN edit_pairs.after_status IS 'How the trial with it ended';
COMMENT ON COLUMN edit_pairs.before_eval_loss IS 'Held-out loss without it; NULL unless finished';
COMMENT ON COLUMN edit_pairs.after_eval_loss IS 'Held-out loss with it; NULL unless finished';
COMMENT ON COLUMN edit_pairs.eval_loss_difference IS 'After minus before; NULL unless both finished';
COMMENT ON COLUMN edit_pairs.tokenizer IS 'The tokenizer of both, as trials.tokenizer: nats per token cannot be averaged over several';
COMMENT ON COLUMN edit_pairs.eval_bits_per_byte_difference IS 'The same in bits per byte of text, which can be averaged';
COMMENT ON COLUMN edit_pairs.before_peak_kurtosis IS 'Peak kurtosis without it; of a diverged trial, up to its divergence';
COMMENT ON COLUMN edit_pairs.after_peak_kurtosis IS 'Peak kurtosis with it; of a diverged trial, up to its divergence';
COMMENT ON COLUMN edit_pairs.log_peak_kurtosis_ratio IS 'Natural logarithm of after over before; NULL unless both finished';
COMMENT ON COLUMN edit_pairs.before_token_correlation IS 'Token correlation without it; of a diverged trial, up to its divergence';
COMMENT ON COLUMN edit_pairs.after_token_correlation IS 'Token correlation with it; of a diverged trial, up to its divergence';
COMMENT ON COLUMN edit_pairs.token_correlation_difference IS 'After minus before; NULL unless both finished';
COMMENT ON COLUMN edit_pairs.same_versions IS 'Whether both ran with the same versions on machines that compute the same (where one did not record that, of one name); pairs that did not should be left out';

CREATE OR REPLACE VIEW costs AS
WITH spans AS (
    SELECT trial_id, max(seconds) FILTER (name = 'ended') - max(seconds) FILTER (name = 'began') AS seconds
    FROM timings WHERE name IN ('began', 'ended') GROUP BY trial_id
),
sharing AS (SELECT trial_id, count(DISTINCT space) AS spaces FROM plan_trials GROUP BY trial_id)
SELECT
    f.space, f.plan, any_value(f.current) AS current, f.variant_id, f.variant,
    count(*) AS trials,
    count(s.seconds) AS ended,
    count(*) FILTER (a.spaces > 1) AS shared,
    sum(s.seconds ORDER BY f.seed, f.trial_id) AS seconds,
    CAST(sum(f.tokens) AS BIGINT) AS tokens,
    sum(CAST(f.training_flops AS DOUBLE) * (f.tokens / t.seq_len) ORDER BY f.seed, f.trial_id) AS training_flops
FROM final f
JOIN trials t USING (trial_id)
JOIN sharing a USING (trial_id)
LEFT JOIN spans s USING (trial_id)
GROUP BY f.space, f.plan, f.variant_id, f.variant;
COMMENT ON VIEW costs IS 'What each variant of each plan has cost, failed and diverged trials included; a trial shared by several plans is counted in each';
COMMENT ON COLUMN costs.trials IS 'Trials requested';
COMMENT ON COLUMN costs.ended IS 'Of these, trials that have ended, in whatever way; the others add nothing here';
COMMENT ON COLUMN costs.shared IS 'Of these, trials that another space requests as well';
COMMENT ON COLUMN costs.seconds IS 'Sum over trials of the seconds from start to end, pauses included; several workers spend them in parallel';
COMMENT ON COLUMN costs.tokens IS 'Tokens trained on';
COMMENT ON COLUMN costs.training_flops IS 'FLOPs of matrix products in training on them: three times a forward pass, since a backward pass has two products for each, minus the gradients that fixed parts do not need (variants.spared); evaluations are not counted';

CREATE OR REPLACE VIEW standings AS
SELECT
    f.space, f.plan, any_value(f.current) AS current,
    count(DISTINCT f.variant_id) AS variants,
    count(*) AS trials,
    count(*) FILTER (f.status = 'finished') AS finished,
    count(*) FILTER (f.status = 'diverged') AS diverged,
    count(*) FILTER (f.status = 'pruned') AS pruned,
    count(*) FILTER (f.status = 'bug') AS bug,
    count(*) FILTER (f.status = 'out_of_memory') AS out_of_memory,
    count(*) FILTER (f.status = 'timeout') AS timeout,
    count(*) FILTER (f.status = 'lost') AS lost,
    count(*) FILTER (f.status IN ('missing', 'damaged')) AS damaged,
    count(*) FILTER (f.status = 'unfinished') AS unfinished,
    count(*) FILTER (f.status = 'planned') AS planned
FROM final f GROUP BY f.space, f.plan;
COMMENT ON VIEW standings IS 'One row for each plan: how many of its trials are in each state';
COMMENT ON COLUMN standings.variants IS 'Distinct blocks';
COMMENT ON COLUMN standings.trials IS 'Trials requested: the sum of the columns that follow';
COMMENT ON COLUMN standings.finished IS 'Trials that finished';
COMMENT ON COLUMN standings.diverged IS 'Trials that diverged: a result';
COMMENT ON COLUMN standings.pruned IS 'Trials that a search stopped at a rung';
COMMENT ON COLUMN standings.bug IS 'Trials that raised an error of their own';
COMMENT ON COLUMN standings.out_of_memory IS 'Trials that ran out of memory';
COMMENT ON COLUMN standings.timeout IS 'Trials that exceeded their time limit';
COMMENT ON COLUMN standings.lost IS 'Trials whose workers died again and again: the next run tries them again';
COMMENT ON COLUMN standings.damaged IS 'Trials whose sealed file is gone, or has changed since it was sealed';
COMMENT ON COLUMN standings.unfinished IS 'Trials that are running or were interrupted';
COMMENT ON COLUMN standings.planned IS 'Trials not started';

CREATE OR REPLACE VIEW effects AS
WITH ratios AS (
    SELECT
        plan, position, exp(estimate) AS ratio, exp(low) AS ratio_low, exp(high) AS ratio_high,
        exp(adjusted_low) AS ratio_adjusted_low, exp(adjusted_high) AS ratio_adjusted_high
    FROM judged WHERE scale = 'log'
)
SELECT
    j.* EXCLUDE (before_id, after_id, seeds_needed, better)
        REPLACE (CASE WHEN j.kind <> 'noise' THEN j.verdict END AS verdict),
    b.variant AS before, a.variant AS after, r.* EXCLUDE (plan, position)
FROM judged j
LEFT JOIN ratios r ON r.plan = j.plan AND r.position = j.position
LEFT JOIN plan_variants b ON b.plan = j.plan AND b.variant_id = j.before_id
LEFT JOIN plan_variants a ON a.plan = j.plan AND a.variant_id = j.after_id;
COMMENT ON VIEW effects IS 'What each change does to each judged metric, with its interval and p: one row for each comparison of each plan and each metric, as it was last judged';
COMMENT ON COLUMN effects.before IS 'Name of the variant before; NULL for an effect over several variants';
COMMENT ON COLUMN effects.after IS 'Name of the variant after; NULL for an effect over several variants';
COMMENT ON COLUMN effects.ratio IS 'For a metric on the log scale: after over before, by geometric means; NULL on the linear scale';
COMMENT ON COLUMN effects.ratio_low IS 'Lower end of its interval';
COMMENT ON COLUMN effects.ratio_high IS 'Upper end of its interval';
COMMENT ON COLUMN effects.ratio_adjusted_low IS 'Lower end of the interval of the ratio that agrees with the verdict: see adjusted_low';
COMMENT ON COLUMN effects.ratio_adjusted_high IS 'Upper end of that interval';
COMMENT ON COLUMN effects.verdict IS 'better, worse (higher, lower of a metric without a better side), better_by_rank and the like, equivalent, undecided or diverged; NULL for noise, which is not a finding';

CREATE OR REPLACE VIEW verdicts AS
SELECT
    j.* EXCLUDE (
        before_id, after_id, sd, p, p_adjusted, q, p_equivalent, p_equivalent_adjusted, df, differs, seeds_needed, better,
        confidence, seeds
    ) REPLACE (CASE WHEN j.verdict = 'equivalent' AND j.differs THEN 'equivalent, differs' ELSE j.verdict END AS verdict),
    CASE WHEN j.verdict = 'undecided' THEN j.seeds_needed - CASE WHEN j.ranked > 0 THEN j.ranked ELSE j.n END END AS more_seeds
FROM judged j WHERE j.kind <> 'noise';
COMMENT ON VIEW verdicts IS 'The answer of each plan of each space (WHERE current: of its current plan): one row for each comparison and each judged metric. Over all comparisons of a table, the probability that any better, worse, higher or lower is false is at most one minus the confidence, and so is that of any equivalent';
COMMENT ON COLUMN verdicts.verdict IS 'better, worse (higher, lower of a metric without a better side), better_by_rank and the like (where a side has a diverged run: by ranks over all seeds, diverged ones ranked worst, or of such a metric against the others; estimate, low and high are of the other runs and may point the other way), equivalent (within the margin), equivalent, differs (within the margin, and significantly different from zero), undecided, diverged (every seed of a side)';
COMMENT ON COLUMN verdicts.more_seeds IS 'Further pairs that would decide it; NULL where it is decided, or where no affordable number would';

CREATE OR REPLACE VIEW noise_pairs AS
WITH blocks AS (
    -- Blocks trained with a salt, and the same ones without; of several trials under one key the last started.
    SELECT
        t.trial_id, t.conditions, t.versions_id, t.by_name_id, t.variant_id, t.seed, t.salt,
        t.specification ->> '$.architecture.block' AS block
    FROM trials t
    WHERE t.status = 'finished' AND t.split IS NOT DISTINCT FROM 'verdict'
        AND t.conditions IN (SELECT s.conditions FROM trials s WHERE s.salt > 0 AND s.status = 'finished')
),
last AS (
    SELECT b.* FROM blocks b LEFT JOIN timings c ON c.trial_id = b.trial_id AND c.name = 'began'
    QUALIFY row_number() OVER (
        PARTITION BY b.conditions, b.versions_id, b.block, b.seed, b.salt ORDER BY c.seconds DESC, b.trial_id
    ) = 1
)
SELECT
    p.conditions, p.block, p.variant_id, x.name AS metric, p.seed, a.salt, p.versions_id,
    p.trial_id AS trial, a.trial_id AS salted_trial, x.value, y.value AS salted_value
FROM last p
JOIN last a ON (a.conditions, a.block, a.seed) = (p.conditions, p.block, p.seed)
    AND alike(a.versions_id, a.by_name_id, p.versions_id, p.by_name_id) AND a.salt > 0
JOIN numbers x ON x.trial_id = p.trial_id
JOIN numbers y ON y.trial_id = a.trial_id AND y.name = x.name
WHERE p.salt = 0 AND x.name IN (
    SELECT unnest(['eval_loss', 'eval_bits_per_byte', 'peak_kurtosis', 'token_correlation'])
    UNION SELECT unnest(json_keys(resolved, '$.judge.metrics')) FROM plans WHERE resolved IS NOT NULL
);
COMMENT ON VIEW noise_pairs IS 'Pairs of trials that differ in their initialisation alone, over all spaces: nothing else was changed, so their differences are noise';
COMMENT ON COLUMN noise_pairs.conditions IS 'As trials.conditions';
COMMENT ON COLUMN noise_pairs.block IS 'The block of both, printed as YAML';
COMMENT ON COLUMN noise_pairs.variant_id IS 'Fingerprint of the variant without the salt';
COMMENT ON COLUMN noise_pairs.metric IS 'The judged metric';
COMMENT ON COLUMN noise_pairs.seed IS 'The seed: both saw the same batches and were evaluated on the same windows';
COMMENT ON COLUMN noise_pairs.salt IS 'The salt of the second trial';
COMMENT ON COLUMN noise_pairs.versions_id IS 'The versions both ran with: see versions';
COMMENT ON COLUMN noise_pairs.trial IS 'The trial without a salt';
COMMENT ON COLUMN noise_pairs.salted_trial IS 'The trial with a salt';
COMMENT ON COLUMN noise_pairs.value IS 'The value without the salt';
COMMENT ON COLUMN noise_pairs.salted_value IS 'The value with the salt';

CREATE OR REPLACE VIEW noise_floor AS
SELECT
    p.conditions, p.metric, any_value(v.variant) AS whose, p.variant_id,
    count(*) AS n,
    stddev_samp(p.salted_value - p.value ORDER BY p.seed, p.salt) AS sd,
    CASE WHEN min(least(p.value, p.salted_value)) > 0 THEN
        stddev_samp(ln(p.salted_value / p.value) ORDER BY p.seed, p.salt)
    END AS log_sd,
    any_value(v.spaces) AS spaces
FROM noise_pairs p
LEFT JOIN (
    SELECT m.trial_id, min(v.variant) AS variant, list(DISTINCT m.space ORDER BY m.space) AS spaces
    FROM plan_trials m JOIN plan_variants v ON v.plan = m.plan AND v.variant_id = m.variant_id GROUP BY m.trial_id
) v ON v.trial_id = p.trial
GROUP BY p.conditions, p.metric, p.variant_id, p.block, p.versions_id;
COMMENT ON VIEW noise_floor IS 'How much each judged metric varies when only the initialisation changes: below it no difference between blocks can be seen';
COMMENT ON COLUMN noise_floor.conditions IS 'As trials.conditions: the floor holds for every trial under the same conditions';
COMMENT ON COLUMN noise_floor.metric IS 'The judged metric';
COMMENT ON COLUMN noise_floor.whose IS 'Name of the variant it was measured on';
COMMENT ON COLUMN noise_floor.variant_id IS 'Its fingerprint';
COMMENT ON COLUMN noise_floor.n IS 'Number of pairs';
COMMENT ON COLUMN noise_floor.sd IS 'Standard deviation of the paired differences, on the metric''s own scale; NULL for one pair';
COMMENT ON COLUMN noise_floor.log_sd IS 'The same for differences of natural logarithms; NULL where a value is not above zero';
COMMENT ON COLUMN noise_floor.spaces IS 'The spaces that its trials belong to';
