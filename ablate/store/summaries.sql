-- Summarises the rows of `incoming` for the table `summaries` of tables.sql. Runs once for each trial, when its rows are
-- loaded, so that queries for final numbers need not read the rows again. Means are computed in the order of addresses, so
-- that the same rows give the same bits whatever the number of threads. Single cells of a kernel are not summarised: see
-- the view kernels.
WITH measured AS (SELECT trial_id, step, metric, address, value FROM incoming WHERE kind = 'row' AND metric <> 'token_kernel'),
finite AS (SELECT * FROM measured WHERE isfinite(value)),
last_steps AS (SELECT trial_id, metric, max(step) AS step FROM measured GROUP BY ALL),
lasts AS (
    SELECT
        f.trial_id, f.metric AS name, f.step,
        CASE WHEN bool_or(f.address = '') THEN '' END AS address,
        coalesce(max(f.value) FILTER (f.address = ''), avg(f.value ORDER BY f.address)) AS value
    FROM finite f
    JOIN last_steps USING (trial_id, metric, step)
    JOIN trials t ON t.trial_id = f.trial_id AND t.status = 'finished'
    GROUP BY ALL
),
peaks AS (
    SELECT trial_id, metric, arg_min({'step': step, 'address': address, 'value': value}, (-value, step, address)) AS peak
    FROM finite GROUP BY ALL
),
means AS (
    SELECT f.trial_id, f.metric, avg(f.value ORDER BY f.step, f.address) AS value, max(f.step) AS step
    FROM finite f JOIN trials t ON t.trial_id = f.trial_id AND t.status = 'finished'
    GROUP BY ALL
)
SELECT trial_id, name, value, step, address FROM lasts
UNION ALL
SELECT trial_id, 'mean_' || metric, value, step, NULL FROM means
UNION ALL
SELECT trial_id, 'perplexity', exp(value), step, address FROM lasts WHERE name = 'eval_loss' AND value < 700
UNION ALL
SELECT trial_id, 'peak_' || metric, peak.value, peak.step, peak.address FROM peaks
UNION ALL
SELECT trial_id, 'token_correlation', peak.value, peak.step, peak.address FROM peaks WHERE metric = 'token_correlation_rms'
