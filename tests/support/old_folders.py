"""Results folders that earlier versions wrote, and all that is read of them: see `tests/store/folders/README.md`."""

from __future__ import annotations

import json
import shutil
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from ablate.store.query import query
from ablate.store.snapshot import Snapshot, standings

FOLDERS = Path(__file__).parents[1] / "store" / "folders"

TABLES = {
    "trials": "SELECT trial_id, status, ended_step, attempt, digest, detail ->> 'error' AS error FROM trials",
    "summaries": "SELECT trial_id, name, value, step, address FROM summaries",
    "metrics": "SELECT trial_id, step, metric, address, value FROM metrics",
    "plans": "SELECT space, plan, current, design, open, variants, trials, seeds, looks, baseline FROM plans",
    "variants": "SELECT plan, variant_id, variant, position, parameters, flops, terms FROM plan_variants",
    "memberships": "SELECT plan, trial_id, variant_id, seed FROM plan_trials",
    "definitions": "SELECT plan, count(*) AS definitions FROM plan_definitions GROUP BY plan",
    "forecasts": "SELECT plan, variant, growth, cosine, refused IS NULL AS forecast FROM plan_forecasts",
    "effects": "SELECT space, plan, current, position, kind, change, terms, metric, before, after, n, estimate, low,"
    " high, adjusted_low, adjusted_high, verdict, level, judgement FROM effects",
    "questions": "SELECT * EXCLUDE (judged_at, effects, family, new, judged_before, so_far, questions_asked, among,"
    " higher, lower),"
    " json_array_length(effects) AS effects FROM questions",  # those between came later
    "sizes": "SELECT plan, metric, size, trained, compute, n, speed_up, low, high, decided FROM sizes",
    "proposals": "SELECT * EXCLUDE space FROM plan_proposals",
    "skipped": "SELECT * EXCLUDE space FROM plan_skipped",
    "leaderboard": "SELECT plan, variant, split, n, finished, diverged, failed, pruned, unfinished, eval_loss_mean,"
    " eval_loss_sd, peak_kurtosis FROM leaderboard",
}
"""What is read of each table, as SQL; no column is a time."""

ASKED = "SELECT " + ", ".join(f"(SELECT list(t) FROM ({sql}) t) AS {name}" for name, sql in TABLES.items())
"""All of them in one query, since each takes as long as opening the folder."""

STANDING = ("space", "trial_id", "variant", "seed", "state", "step", "steps", "saved")


def old_folder(commit: str, to: Path) -> Path:
    """A copy, at `to`, of the folder that the version of a commit wrote, with the times of its files."""
    if (FOLDERS / commit).is_dir():
        return Path(shutil.copytree(FOLDERS / commit, to))
    with tarfile.open(FOLDERS / f"{commit}.tar.xz") as archive:
        archive.extractall(to, filter="data")
    return to


def all_of(folder: Path) -> str:
    """All that is read of a folder, as JSON: a line for each trial with its numbers, each standing and each row.

    Of metrics there is a hash, since there are many.
    """
    found = query(folder, ASKED)
    tables: dict[str, list[dict[str, Any]]] = {
        name: rows or [] for name, rows in zip(found.columns, found.rows[0], strict=True)
    }
    summaries, metrics = tables.pop("summaries"), tables.pop("metrics")
    for trial in tables["trials"]:
        own = sorted(_line(row) for row in metrics if row["trial_id"] == trial["trial_id"])
        trial |= {"metrics": len(own), "of_metrics": sha256("".join(own).encode()).hexdigest()[:16]}
        of_trial = [row for row in summaries if row["trial_id"] == trial["trial_id"]]
        trial["summaries"] = {
            row["name"]: [row["value"], row["step"], row["address"]]
            for row in sorted(of_trial, key=lambda row: str(row["name"]))
        }
    tables["standings"] = [{name: getattr(one, name) for name in STANDING} for one in standings(Snapshot(folder))]
    written = {name: ",\n".join(sorted(map(_line, rows))) for name, rows in tables.items()}
    return "{\n" + ",\n".join(f'"{name}": [\n{rows}\n]' for name, rows in written.items()) + "\n}\n"


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)
