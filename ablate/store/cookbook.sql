-- Ready-made queries over results. A query begins with its name and the question it answers; the line after it lists its
-- parameters and, after `=`, their default values (without `=`: no restriction); one with `no rows:` says what it means
-- that there are none. Every answer that is a mean gives the
-- number of values behind it and what is missing. Where a space has several plans, the current one is meant (the last
-- that was requested), unless stated otherwise.

-- @best_variants: Which variant is best by each judged metric, and how far is it from the baseline?
-- $space
WITH numbers AS (
    SELECT
        f.space, f.variant_id, f.variant, f.seed, f.trial_id, s.baseline,
        unnest([
            {'metric': 'eval_loss', 'value': f.eval_loss},
            {'metric': 'eval_bits_per_byte', 'value': f.eval_bits_per_byte},
            {'metric': 'log_peak_kurtosis', 'value': ln(f.peak_kurtosis)},
            {'metric': 'token_correlation', 'value': f.token_correlation},
            {'metric': 'peak_token_cosine', 'value': f.peak_token_cosine}
        ], recursive := true)
    FROM final f JOIN spaces s USING (plan) SEMI JOIN counted c ON (c.plan, c.trial_id) = (f.plan, f.trial_id)
    WHERE f.status = 'finished' AND ($space IS NULL OR f.space = $space)
),
means AS (
    SELECT
        space, metric, variant_id, variant, count(*) AS n,
        avg(value ORDER BY seed, trial_id) AS mean, stddev_samp(value ORDER BY seed, trial_id) AS sd
    FROM numbers WHERE value IS NOT NULL GROUP BY ALL
),
best AS (SELECT * FROM means QUALIFY row_number() OVER (PARTITION BY space, metric ORDER BY mean, variant) = 1),
differences AS (
    SELECT
        a.space, a.metric, a.variant_id, count(*) AS pairs,
        avg(a.value - b.value ORDER BY a.seed, a.trial_id) AS difference,
        stddev_samp(a.value - b.value ORDER BY a.seed, a.trial_id) AS difference_sd
    FROM numbers a JOIN numbers b ON (b.space, b.metric, b.seed, b.variant_id) = (a.space, a.metric, a.seed, a.baseline)
    WHERE a.value IS NOT NULL AND b.value IS NOT NULL
    GROUP BY ALL
)
SELECT b.space, b.metric, b.variant, l.n AS asked, b.n, b.mean, b.sd, d.difference, d.difference_sd, d.pairs
FROM best b
JOIN leaderboard l ON l.current AND l.space = b.space AND l.variant_id = b.variant_id
LEFT JOIN differences d ON (d.space, d.metric, d.variant_id) = (b.space, b.metric, b.variant_id)
ORDER BY b.space, b.metric;

-- @edit_effects: What does each edit do, over all the spaces that test it (only in bits per byte where their tokenizers differ)?
-- $space
WITH pairs AS (
    SELECT *, before_status = 'finished' AND after_status = 'finished' AND same_versions AS counts
    FROM edit_pairs WHERE current AND ($space IS NULL OR space = $space)
)
SELECT
    edit,
    count(DISTINCT space) AS spaces,
    count(*) FILTER (counts) AS pairs,
    count(*) FILTER (NOT counts) AS not_paired,
    count(DISTINCT coalesce(tokenizer, '')) FILTER (counts) AS tokenizers,
    CASE WHEN tokenizers = 1 THEN
        avg(eval_loss_difference ORDER BY space, position, seed) FILTER (counts)
    END AS eval_loss_difference,
    CASE WHEN tokenizers = 1 THEN
        stddev_samp(eval_loss_difference ORDER BY space, position, seed) FILTER (counts)
    END AS eval_loss_difference_sd,
    avg(eval_bits_per_byte_difference ORDER BY space, position, seed) FILTER (counts) AS eval_bits_per_byte_difference,
    stddev_samp(eval_bits_per_byte_difference ORDER BY space, position, seed) FILTER (counts)
        AS eval_bits_per_byte_difference_sd,
    count(*) FILTER (counts AND eval_loss_difference < 0) AS loss_is_lower,
    exp(avg(log_peak_kurtosis_ratio ORDER BY space, position, seed) FILTER (counts)) AS peak_kurtosis_ratio,
    avg(token_correlation_difference ORDER BY space, position, seed) FILTER (counts) AS token_correlation_difference
FROM pairs GROUP BY edit ORDER BY edit;

-- @across_tokenizers: How does another tokenizer change the loss of each block, in bits per byte of the same text?
-- $space
-- Recipe and model are the same except for the vocabulary. Under another tokenizer a seed has different batches, windows
-- and initial parameters, so seeds are not paired: a difference has the standard error and the degrees of freedom of
-- Welch 1947; where numbers of seeds differ and one is below five, those of the smaller side alone, as in verdicts.
WITH trained AS (
    SELECT c.space, c.variant_id, min(CAST(json_merge_patch(
        json_object('recipe', t.specification -> '$.recipe', 'model', t.specification -> '$.architecture'),
        '{"model": {"sizes": {"vocab_size": null}}}'
    ) AS VARCHAR)) AS so
    FROM counted c JOIN trials t USING (trial_id) WHERE c.current GROUP BY c.space, c.variant_id
),
arms AS (
    SELECT
        l.variant_id, d.so, l.variant, l.space, l.tokenizer, l.split, l.finished AS n, l.eval_bits_per_byte_mean AS mean,
        l.eval_bits_per_byte_sd ** 2 / l.finished AS error,
        list_value(
            s.corpus ->> '$.title', s.corpus ->> '$.train.bytes', s.corpus ->> '$.tuning.bytes',
            s.corpus ->> '$.verdict.bytes'
        ) AS text
    FROM leaderboard l JOIN spaces s USING (space) JOIN trained d USING (space, variant_id)
    WHERE l.current AND l.eval_bits_per_byte_mean IS NOT NULL
)
SELECT
    a.variant, a.space AS space_a, a.tokenizer AS tokenizer_a, a.n AS n_a, a.mean AS bits_per_byte_a,
    b.space AS space_b, b.tokenizer AS tokenizer_b, b.n AS n_b, b.mean AS bits_per_byte_b,
    b.mean - a.mean AS difference, sqrt(a.error + b.error) AS standard_error,
    CASE WHEN a.n <> b.n AND least(a.n, b.n) BETWEEN 2 AND 4 THEN least(a.n, b.n) - 1
        ELSE (a.error + b.error) ** 2 / (a.error ** 2 / (a.n - 1) + b.error ** 2 / (b.n - 1))
    END AS degrees_of_freedom
FROM arms a
JOIN arms b ON (b.variant_id, b.so, b.text) = (a.variant_id, a.so, a.text) AND b.split IS NOT DISTINCT FROM a.split
    AND (a.tokenizer, a.space) < (b.tokenizer, b.space) AND a.tokenizer <> b.tokenizer
WHERE $space IS NULL OR $space IN (a.space, b.space)
ORDER BY a.variant, a.space, b.space;

-- @loss_curves: How does the loss change over training, with a band of one standard deviation over seeds?
-- $space, $metric = train_loss, $address =
SELECT space, variant, step, n, n_not_finite, mean, low, high, min, max
FROM curves
WHERE current AND metric = $metric AND address = coalesce($address, '') AND ($space IS NULL OR space = $space)
ORDER BY space, variant, step;

-- @kurtosis_by_layer: How does kurtosis (or another metric of parts of the model) change, by layer and step?
-- $space, $metric = kurtosis
SELECT
    m.space, v.variant, TRY_CAST(regexp_extract(x.address, '^layers\.(\d+)', 1) AS INTEGER) AS layer, x.address, x.step,
    count(*) FILTER (isfinite(x.value)) AS n,
    avg(x.value ORDER BY m.seed, m.trial_id) FILTER (isfinite(x.value)) AS mean,
    max(x.value) FILTER (isfinite(x.value)) AS max
FROM metrics x
JOIN counted m USING (trial_id)
JOIN variants v ON v.plan = m.plan AND v.variant_id = m.variant_id
WHERE x.metric = $metric AND x.address <> '' AND ($space IS NULL OR m.space = $space)
GROUP BY ALL ORDER BY m.space, v.variant, layer NULLS LAST, x.address, x.step;

-- @kurtosis_peaks: Where, when and for which seed does each variant's kurtosis peak in each layer?
-- $space, $metric = kurtosis
SELECT
    m.space, v.variant, TRY_CAST(regexp_extract(x.address, '^layers\.(\d+)', 1) AS INTEGER) AS layer, x.address,
    count(DISTINCT m.trial_id) AS n, max(x.value) AS peak,
    arg_min(x.step, (-x.value, x.step, m.seed)) AS step, arg_min(m.seed, (-x.value, x.step, m.seed)) AS seed
FROM metrics x
JOIN counted m USING (trial_id)
JOIN variants v ON v.plan = m.plan AND v.variant_id = m.variant_id
WHERE x.metric = $metric AND isfinite(x.value) AND ($space IS NULL OR m.space = $space)
GROUP BY ALL ORDER BY m.space, v.variant, layer NULLS LAST, x.address;

-- @divergences: Which trials diverged, where and at which step, and what were their last statistics?
-- $space
-- no rows: no trial diverged
SELECT
    d.space, d.variant, d.seed, d.step, t.steps, d.address,
    d.detail ->> '$.cause' AS cause,
    TRY_CAST(d.detail ->> '$.last.step' AS BIGINT) AS last_step,
    TRY_CAST(d.detail ->> '$.last.train_loss' AS DOUBLE) AS last_train_loss,
    TRY_CAST(d.detail ->> '$.last.gradient_norm' AS DOUBLE) AS last_gradient_norm,
    f.peak_kurtosis AS peak_kurtosis_until_then, d.trial_id
FROM divergences d
JOIN trials t USING (trial_id)
JOIN final f ON f.plan = d.plan AND f.trial_id = d.trial_id
WHERE d.current AND ($space IS NULL OR d.space = $space)
ORDER BY d.space, d.variant, d.seed;

-- @cost_per_verdict: What did each space cost, in total and per comparison?
-- $space
WITH compared AS (SELECT space, count(*) AS comparisons FROM comparisons WHERE kind <> 'noise' GROUP BY space),
spent AS (
    SELECT
        space, sum(trials) AS trials, sum(ended) AS ended, sum(shared) AS shared,
        sum(seconds ORDER BY variant_id) / 3600 AS hours, CAST(sum(tokens) AS BIGINT) AS tokens,
        sum(training_flops ORDER BY variant_id) AS training_flops
    FROM costs WHERE current GROUP BY space
)
SELECT
    s.*, a.comparisons,
    s.trials / a.comparisons AS trials_per_verdict,
    s.hours / a.comparisons AS hours_per_verdict,
    s.tokens / a.comparisons AS tokens_per_verdict,
    s.training_flops / a.comparisons AS training_flops_per_verdict
FROM spent s LEFT JOIN compared a USING (space)
WHERE $space IS NULL OR s.space = $space
ORDER BY s.space;

-- @missing_seeds: Which seeds of which variants have no result yet, or never will, and why?
-- $space
-- no rows: every seed of every variant that was trained here has a result
SELECT f.space, f.variant, f.seed, f.status, t.ended_step AS step, t.steps, f.trial_id
FROM final f JOIN trials t USING (trial_id)
WHERE f.current AND f.status <> 'finished' AND ($space IS NULL OR f.space = $space)
ORDER BY f.space, f.variant, f.seed;

-- @failures: Which trials failed, with the last line of the traceback and where it was raised?
-- $space
-- no rows: no trial failed
WITH failed AS (
    SELECT
        f.space, f.variant, f.seed, f.status, t.ended_step AS step, f.trial_id, t.detail,
        list_filter(string_split(t.detail ->> '$.trace', chr(10)), lambda line: trim(line) <> '') AS trace
    FROM final f JOIN trials t USING (trial_id)
    WHERE f.current AND f.status IN ('bug', 'out_of_memory', 'timeout', 'lost', 'missing', 'damaged')
        AND ($space IS NULL OR f.space = $space)
)
SELECT
    space, variant, seed, status, step,
    coalesce(trim(trace[-1]), detail ->> '$.error', detail ->> '$.cause', CAST(detail AS VARCHAR)) AS error,
    trim(list_filter(trace, lambda line: trim(line).starts_with('File "'))[-1]) AS place,
    trial_id
FROM failed ORDER BY space, variant, seed;

-- @gradient_spikes: At which of the measured steps did the gradient norm jump above its trial's median?
-- $space, $factor = 3
WITH norms AS (SELECT trial_id, step, value FROM metrics WHERE metric = 'gradient_norm' AND address = ''),
usual AS (SELECT trial_id, median(value) AS median FROM norms WHERE isfinite(value) GROUP BY trial_id)
SELECT f.space, f.variant, f.seed, n.step, n.value AS gradient_norm, u.median, n.value / u.median AS ratio, f.status
FROM norms n
LEFT JOIN usual u USING (trial_id)
JOIN final f USING (trial_id)
WHERE f.current AND (u.median IS NULL OR NOT n.value <= CAST($factor AS DOUBLE) * u.median) AND ($space IS NULL OR f.space = $space)
ORDER BY f.space, f.variant, f.seed, n.step;

-- @signal_propagation: How similar are tokens at each depth, at initialisation and at the end (metric=token_cosine: within sequences)?
-- $space, $metric = token_correlation_rms
WITH measured AS (
    SELECT
        m.space, v.variant, m.seed, m.trial_id, x.address, x.step, x.value,
        max(x.step) OVER (PARTITION BY m.plan, m.trial_id) AS last_step, t.status
    FROM metrics x
    JOIN counted m USING (trial_id)
    JOIN trials t USING (trial_id)
    JOIN variants v ON v.plan = m.plan AND v.variant_id = m.variant_id
    WHERE x.metric = $metric AND ($space IS NULL OR m.space = $space)
)
SELECT
    space, variant, TRY_CAST(regexp_extract(address, '^layers\.(\d+)', 1) AS INTEGER) AS layer, address,
    count(*) FILTER (step = 0 AND isfinite(value)) AS n_at_start,
    avg(value ORDER BY seed, trial_id) FILTER (step = 0 AND isfinite(value)) AS at_start,
    count(*) FILTER (step = last_step AND status = 'finished' AND isfinite(value)) AS n_at_end,
    avg(value ORDER BY seed, trial_id) FILTER (step = last_step AND status = 'finished' AND isfinite(value)) AS at_end
FROM measured GROUP BY ALL ORDER BY space, variant, layer NULLS LAST, address;

-- @same_blocks: Which variants of different spaces are the same block, and how many trials do they share?
WITH shared AS (
    SELECT variant_id, count(*) AS shared_trials FROM (
        SELECT variant_id, trial_id FROM memberships GROUP BY variant_id, trial_id HAVING count(DISTINCT space) > 1
    ) GROUP BY variant_id
)
SELECT
    v.variant_id, count(*) AS spaces,
    string_agg(v.space || ': ' || v.variant, ', ' ORDER BY v.space) AS variants,
    coalesce(any_value(s.shared_trials), 0) AS shared_trials
FROM variants v LEFT JOIN shared s USING (variant_id)
GROUP BY v.variant_id HAVING count(*) > 1 ORDER BY v.variant_id;

-- @mixed_versions: In which spaces did trials run with different versions, which should not be paired?
-- $space
-- no rows: all equal: in each space, the trials that have ended ran with the same versions
WITH ended AS (
    SELECT m.space, x.name, x.version, m.trial_id
    FROM memberships m JOIN trials t USING (trial_id) JOIN versions x USING (versions_id)
    WHERE t.digest IS NOT NULL AND ($space IS NULL OR m.space = $space)
)
SELECT space, name, version, count(*) AS trials
FROM ended
GROUP BY space, name, version QUALIFY count(*) OVER (PARTITION BY space, name) > 1
ORDER BY space, name, version;

-- @recipe_differences: In what do trials differ besides block and seed, and which spaces have which value?
-- $space
-- no rows: all equal: besides block and seed, the trials differ in nothing
WITH specifications AS (
    SELECT DISTINCT m.space, t.trial_id, t.specification
    FROM memberships m JOIN trials t USING (trial_id)
    WHERE t.specification IS NOT NULL AND ($space IS NULL OR m.space = $space)
),
leaves AS (
    SELECT s.space, s.trial_id, ltrim(l.fullkey, '$.') AS path, CAST(l.value AS VARCHAR) AS value
    FROM specifications s, json_tree(s.specification) l
    WHERE l.type NOT IN ('OBJECT', 'ARRAY')
      AND ltrim(l.fullkey, '$.') NOT IN ('trial', 'variant', 'seed', 'salt', 'folder', 'conditions', 'architecture.block')
)
SELECT path, value, count(DISTINCT trial_id) AS trials, string_agg(DISTINCT space, ', ' ORDER BY space) AS spaces
FROM leaves
GROUP BY path, value QUALIFY count(*) OVER (PARTITION BY path) > 1
ORDER BY path, value;

-- @throughput: How fast do variants train, compared with the baseline?
-- $space
WITH speeds AS (SELECT trial_id, median(seconds) AS speed FROM timings WHERE name = 'tokens_per_second' GROUP BY trial_id),
per_variant AS (
    SELECT
        m.space, m.variant_id, count(*) AS n, median(s.speed) AS tokens_per_second,
        min(s.speed) AS slowest, max(s.speed) AS fastest
    FROM memberships m JOIN speeds s USING (trial_id) GROUP BY ALL
)
SELECT
    p.space, v.variant, p.n, p.tokens_per_second, p.slowest, p.fastest,
    p.tokens_per_second / b.tokens_per_second AS against_baseline
FROM per_variant p
JOIN spaces s USING (space)
JOIN variants v ON v.space = p.space AND v.variant_id = p.variant_id
LEFT JOIN per_variant b ON b.space = p.space AND b.variant_id = s.baseline
WHERE $space IS NULL OR p.space = $space
ORDER BY p.space, p.tokens_per_second;

-- @slowest_trials: Which trials took longest, from start to end?
-- $space, $limit = 20
SELECT f.space, f.variant, f.seed, f.status, e.seconds - b.seconds AS seconds, f.tokens, f.trial_id
FROM final f
JOIN timings b ON b.trial_id = f.trial_id AND b.name = 'began'
JOIN timings e ON e.trial_id = f.trial_id AND e.name = 'ended'
WHERE f.current AND ($space IS NULL OR f.space = $space)
ORDER BY seconds DESC, f.space, f.variant, f.seed LIMIT CAST($limit AS BIGINT);

-- @seed_noise: How much do the judged metrics vary over seeds alone, space by space?
-- $space
WITH numbers AS (
    SELECT
        space, variant_id, seed, trial_id,
        unnest([
            {'metric': 'eval_loss', 'value': eval_loss},
            {'metric': 'eval_bits_per_byte', 'value': eval_bits_per_byte},
            {'metric': 'log_peak_kurtosis', 'value': ln(peak_kurtosis)},
            {'metric': 'token_correlation', 'value': token_correlation},
            {'metric': 'peak_token_cosine', 'value': peak_token_cosine}
        ], recursive := true)
    FROM final SEMI JOIN counted USING (plan, trial_id) WHERE current AND status = 'finished' AND ($space IS NULL OR space = $space)
),
variances AS (
    SELECT
        space, metric, variant_id, count(*) AS n,
        avg(value ORDER BY seed, trial_id) AS mean, var_samp(value ORDER BY seed, trial_id) AS variance
    FROM numbers WHERE value IS NOT NULL GROUP BY ALL HAVING count(*) > 1
)
SELECT
    space, metric, count(*) AS variants, CAST(sum(n - 1) AS BIGINT) AS degrees_of_freedom,
    sqrt(sum((n - 1) * variance ORDER BY variant_id) / sum(n - 1)) AS pooled_sd,
    min(sqrt(variance)) AS least_sd, max(sqrt(variance)) AS largest_sd,
    CASE WHEN NOT starts_with(metric, 'log_') THEN pooled_sd / abs(avg(mean ORDER BY variant_id)) END AS relative_sd
FROM variances GROUP BY space, metric ORDER BY space, metric;

-- @pareto: Which variants are on the Pareto front of loss and peak kurtosis?
-- $space
SELECT l.space, l.variant, l.finished AS n, l.n AS asked, l.eval_loss_mean, l.peak_kurtosis
FROM leaderboard l
WHERE l.current AND l.finished > 0 AND ($space IS NULL OR l.space = $space) AND NOT EXISTS (
    SELECT 1 FROM leaderboard o
    WHERE o.current AND o.space = l.space AND o.finished > 0
      AND o.eval_loss_mean <= l.eval_loss_mean AND o.log_peak_kurtosis_mean <= l.log_peak_kurtosis_mean
      AND (o.eval_loss_mean < l.eval_loss_mean OR o.log_peak_kurtosis_mean < l.log_peak_kurtosis_mean)
)
ORDER BY l.space, l.eval_loss_mean, l.variant;

-- @entropy_collapse: Where does attention entropy collapse: the lowest value of each variant and layer?
-- $space
SELECT
    m.space, v.variant, x.address, count(DISTINCT m.trial_id) AS n, min(x.value) AS lowest_entropy,
    arg_min(x.step, (x.value, x.step, m.seed)) AS step, arg_min(m.seed, (x.value, x.step, m.seed)) AS seed
FROM metrics x
JOIN counted m USING (trial_id)
JOIN variants v ON v.plan = m.plan AND v.variant_id = m.variant_id
WHERE x.metric = 'attention_entropy' AND isfinite(x.value) AND ($space IS NULL OR m.space = $space)
GROUP BY ALL ORDER BY m.space, v.variant, x.address;

-- @generalisation: How far is the held-out loss above the training loss at the end?
-- $space
WITH losses AS (
    SELECT f.space, f.variant, f.seed, f.trial_id, f.eval_loss, s.value AS train_loss
    FROM final f JOIN summaries s ON s.trial_id = f.trial_id AND s.name = 'train_loss'
    SEMI JOIN counted c ON (c.plan, c.trial_id) = (f.plan, f.trial_id)
    WHERE f.current AND f.status = 'finished' AND ($space IS NULL OR f.space = $space)
)
SELECT
    space, variant, count(*) AS n, avg(train_loss ORDER BY seed, trial_id) AS train_loss,
    avg(eval_loss ORDER BY seed, trial_id) AS eval_loss, avg(eval_loss - train_loss ORDER BY seed, trial_id) AS gap,
    stddev_samp(eval_loss - train_loss ORDER BY seed, trial_id) AS gap_sd
FROM losses GROUP BY ALL ORDER BY space, variant;

-- @same_numbers: Which different blocks gave the same numbers, bit for bit (edits without any effect)?
SELECT
    t.digest, count(DISTINCT t.variant_id) AS variants, count(*) AS trials,
    string_agg(t.trial_id, ', ' ORDER BY t.trial_id) AS trial_ids
FROM trials t WHERE t.digest IS NOT NULL AND t.status = 'finished'
GROUP BY t.digest HAVING count(DISTINCT t.variant_id) > 1 ORDER BY t.digest;

-- @definitions: What does each metric mean, and do spaces disagree on it?
SELECT
    metric, definition, source, count(*) AS spaces,
    count(*) OVER (PARTITION BY metric) AS definitions_of_this_metric
FROM definitions GROUP BY metric, definition, source ORDER BY metric, definition;

-- @verdicts: What is the answer of each space: which change is better, worse, equivalent, or undecided, and by how much?
-- $space, $plan
-- A difference, or where the metric is judged with `scale: log` (and for trends) a ratio, after/before: each is NULL where
-- the other holds. The ends are adjusted for the number of comparisons, as the verdict is: those of an interval that has no
-- 0 in it (as a ratio no 1) for better and worse (higher and lower where neither side of the metric is better), and lies
-- inside the margin for equivalent. NULL where ranks decide, since no interval of survivors agrees with them, and before a
-- verdict; infinite, as a ratio 0 or infinite, without a bound.
SELECT
    space, kind, change, terms, metric, verdict, n,
    CASE WHEN scale = 'linear' THEN estimate END AS difference,
    CASE WHEN scale = 'linear' THEN adjusted_low END AS difference_adjusted_low,
    CASE WHEN scale = 'linear' THEN adjusted_high END AS difference_adjusted_high,
    CASE WHEN scale = 'log' THEN exp(estimate) END AS ratio,
    CASE WHEN scale = 'log' THEN exp(adjusted_low) END AS ratio_adjusted_low,
    CASE WHEN scale = 'log' THEN exp(adjusted_high) END AS ratio_adjusted_high,
    more_seeds, note, current
FROM verdicts WHERE ($space IS NULL OR space = $space) AND (plan = $plan OR ($plan IS NULL AND current))
ORDER BY space, position;

-- @questions_over_time: How often was each question judged, at which seeds and at what level, and how much of alpha is left?
-- $space
SELECT
    question, number, space, metrics, comparisons, len(seeds) AS n_seeds, seeds, looks, alpha, level, family, new,
    judged_before, so_far, questions_asked, among, left_of_alpha,
    better, worse, higher, lower, equivalent, undecided, diverged, make_timestamp(CAST(q.judged_at * 1e6 AS BIGINT)) AS judged_at
FROM questions q
WHERE $space IS NULL OR question IN (SELECT o.question FROM questions o WHERE o.space = $space)
ORDER BY min(q.judged_at) OVER (PARTITION BY question), question, number;

-- @effects: Where was each change tried, under which terms, and what did it do to each judged metric?
-- $space, $change, $plan
SELECT
    change, metric, space, kind, terms, before, after, verdict, n, estimate, low, high, ratio, p_adjusted, q, method, current
FROM effects
WHERE kind <> 'noise' AND ($space IS NULL OR space = $space) AND ($change IS NULL OR change = $change)
  AND (plan = $plan OR ($plan IS NULL AND current))
ORDER BY change, metric, space, position;

-- @noise_floor: How much do judged metrics differ when only the initialisation changes, and for which spaces does that hold?
-- $space
WITH holds AS (
    SELECT t.conditions, list(DISTINCT m.space ORDER BY m.space) AS holds_for
    FROM memberships m JOIN trials t USING (trial_id) GROUP BY t.conditions
)
SELECT f.metric, f.n, f.sd, f.log_sd, f.whose, f.spaces AS measured_by, h.holds_for, f.conditions
FROM noise_floor f LEFT JOIN holds h USING (conditions)
WHERE $space IS NULL OR list_contains(h.holds_for, $space)
ORDER BY f.conditions, f.metric, f.whose;

-- @plans: Which plans does each space have: since when, in which settings do they differ from the current one, and how much of each has ended?
-- $space
WITH ended AS (
    SELECT plan, count(t.digest) AS ended FROM plan_trials JOIN trials t USING (trial_id) GROUP BY plan
),
leaves AS (
    SELECT p.space, p.plan, ltrim(l.fullkey, '$.') AS path, coalesce(CAST(l.value AS VARCHAR), 'null') AS value
    FROM plans p, json_tree(p.resolved) l
    WHERE l.type NOT IN ('OBJECT', 'ARRAY') OR CAST(l.value AS VARCHAR) IN ('{}', '[]')
),
beside AS (
    SELECT p.plan, c.plan AS latest FROM plans p JOIN plans c ON c.space = p.space AND c.current AND NOT p.current
),
sides AS (
    SELECT b.plan, l.path, l.value AS own, NULL AS last FROM beside b JOIN leaves l ON l.plan = b.plan
    UNION ALL
    SELECT b.plan, l.path, NULL, l.value FROM beside b JOIN leaves l ON l.plan = b.latest
),
settings AS (SELECT plan, path, max(own) AS own, max(last) AS last FROM sides GROUP BY plan, path),
others AS (
    SELECT
        plan,
        string_agg(
            path || ': ' || coalesce(own, 'not there') || ' (now ' || coalesce(last, 'not there') || ')', ', ' ORDER BY path
        ) AS otherwise
    FROM settings WHERE own IS DISTINCT FROM last GROUP BY plan
)
SELECT
    p.space, p.plan, p.current, make_timestamp(CAST(p.first_seen * 1e6 AS BIGINT)) AS first_seen, p.design, p.variants,
    len(p.seeds) AS seeds, p.trials, coalesce(e.ended, 0) AS ended, p.judged_at IS NOT NULL AS judged, o.otherwise
FROM plans p LEFT JOIN ended e USING (plan) LEFT JOIN others o USING (plan)
WHERE $space IS NULL OR p.space = $space
ORDER BY p.space, p.current DESC, p.first_seen DESC NULLS LAST, p.plan;

-- @claims: What has become of what each space claims, and was it claimed before there were results?
-- $space
-- no rows: no space that was run makes a claim: `judge: {expect: …}`
SELECT
    space, claim, about, metric, array_to_string(expected, ' or ') AS expected, verdict, outcome, stamped,
    make_timestamp(CAST(stated_at * 1e6 AS BIGINT)) AS stated, make_timestamp(CAST(known_at * 1e6 AS BIGINT)) AS known,
    array_to_string(changes, '; ') AS changed_since, array_to_string(was, '; ') AS was
FROM claims
WHERE current AND ($space IS NULL OR space = $space)
ORDER BY space, position;

-- @columns: What does each table, view and column mean?
-- $table
WITH relations AS (
    SELECT table_name AS name, comment FROM duckdb_tables()
    WHERE schema_name = 'main' AND database_name = current_database() AND NOT internal
    UNION ALL
    SELECT view_name, comment FROM duckdb_views()
    WHERE schema_name = 'main' AND database_name = current_database() AND NOT internal
),
meanings AS (
    SELECT name AS "table", NULL AS "column", NULL AS type, comment AS meaning, 0 AS place FROM relations
    UNION ALL
    SELECT c.table_name, c.column_name, c.data_type, c.comment, c.column_index FROM duckdb_columns() c
    JOIN relations r ON r.name = c.table_name
    WHERE c.schema_name = 'main' AND c.database_name = current_database()
)
SELECT "table", "column", type, meaning FROM meanings WHERE $table IS NULL OR "table" = $table
ORDER BY "table", place;
