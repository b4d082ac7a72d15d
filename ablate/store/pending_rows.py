"""The rows that a database lacks of what a folder keeps, as tables to insert."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow

from ablate.plan.plan import Interval
from ablate.space.judge import Expected
from ablate.store import files, records, sealed
from ablate.store.documents import (
    ComparisonDocument,
    JudgementFile,
    PlanDocument,
    Question,
    Specification,
    VariantDocument,
    Verdicts,
    digest,
    judge_in,
)
from ablate.store.durable import compact
from ablate.store.files import Ending
from ablate.store.journal import Segment
from ablate.store.machines import ATTENTION, CPU, by_name, of_machine
from ablate.store.predictions import Stamps, claims_of, forecast_of, names_in
from ablate.store.records import KeptDesign, KeptPlan, KeptTable, frozen, runs_in, seeds_in
from ablate.store.schema import TABLES, Row
from ablate.store.snapshot import DAMAGED, MISSING, Snapshot
from ablate.verdict.claims import expectations
from ablate.verdict.judgement import effect_of
from ablate.verdict.summary import Correlation

OF_SPACES: tuple[str, ...] = (
    *("files", "plans", "plan_variants", "plan_trials", "plan_comparisons", "plan_proposals", "plan_skipped"),
    *("plan_definitions", "plan_forecasts", "plan_forecast_layers", "judged", "sizes"),
    *("questions", "accounts", "claims", "judged_runs"),
)

COUNTED = ("better", "worse", "higher", "lower", "equivalent", "undecided", "diverged")
"""The verdicts that the table `questions` counts; better_by_rank counts as better, and so on."""

State: TypeAlias = tuple[str, int, str | None]
"""The status of a trial in a database, its attempt, and the digest of its rows if it has ended."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a database: the mark of its snapshot, each trial's state, the `names` of files by space.

    `bare` are trials whose specification it lacks.
    """

    mark: str = ""
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    trials: Mapping[str, State] = field(default_factory=dict)
    bare: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of every table for the spaces and trials that differ, and where the rest of their rows are.

    Rows of ended trials are in sealed `files`, those of `live` trials have been read. `lost` maps files that are gone
    or damaged to their faults: their trials have no rows here.
    """

    spaces: Sequence[str]
    trials: Sequence[str]
    tables: Mapping[str, pyarrow.Table]
    files: tuple[Path, ...]
    live: Mapping[str, Segment]
    lost: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.spaces or self.trials)


def changes(snapshot: Snapshot, stored: Stored, *, live: bool = False) -> Changes:
    """The rows that `stored` lacks of a snapshot; with `live`, also those of open trials.

    Every byte of the sealed files to load is read, so that a damaged one affects its own trial alone.
    """
    begun = snapshot.live if live else {}
    names = {space: frozenset(of) for space, of in _names(snapshot).items()}
    spaces = [space for space in {**names, **stored.names} if names.get(space) != stored.names.get(space)]
    lost = {**dict.fromkeys(gone_trials(snapshot, stored), files.GONE), **snapshot.lost_trials}
    # A trial that was known when the database was filled must lose what the folder lost.
    known = [*snapshot.plans.specifications, *snapshot.endings, *snapshot.live, *lost, *stored.trials]
    states = {trial: _state(trial, snapshot, lost) for trial in dict.fromkeys(known)}
    anew = begun.keys() | (stored.bare & snapshot.plans.specifications.keys())
    differ = [trial for trial, state in states.items() if trial in anew or stored.trials.get(trial) != state]
    examined = {
        trial: sealed.examine(snapshot.folder, trial, snapshot.sealed(trial)) for trial in differ if states[trial][2]
    }
    damaged = {trial: file.fault for trial, file in examined.items() if file.written is None}
    states |= {trial: (DAMAGED, states[trial][1], None) for trial in damaged}
    changed = [trial for trial in differ if trial in anew or stored.trials.get(trial) != states[trial]]
    ended = [snapshot.endings[trial] for trial in changed if states[trial][2]]
    ran_with = [ending.versions for ending in ended] + [segment.beginning.versions for segment in begun.values()]
    versions = {digest(of_machine(each)): of_machine(each) for each in ran_with}
    own = {trial: file.specification or {} for trial, file in examined.items()}
    faults = {**lost, **damaged}
    rows: dict[str, Iterable[Row]] = {
        **_rows_of_spaces(spaces, snapshot),
        "trials": (_trial_row(trial, states[trial], snapshot, own.get(trial, {}), faults) for trial in changed),
        "versions": (
            {"versions_id": id, "name": name, "version": version}
            for id, of in sorted(versions.items())
            for name, version in sorted(of.items())
        ),
        "timings": (row for ending in ended for row in _clock(ending)),
    }
    places = tuple(files.path_of(snapshot.folder, ending.trial) for ending in ended)
    tables = {name: TABLES[name].table_of(of) for name, of in rows.items()}
    return Changes(spaces, changed, tables, places, begun, {files.name_of(id): fault for id, fault in faults.items()})


def gone_trials(snapshot: Snapshot, stored: Stored) -> Iterator[str]:
    """Yield the trials that a database knows to have ended, and of which the folder has nothing."""
    for trial, (status, _, rows) in stored.trials.items():
        ended = rows is not None or status in (MISSING, DAMAGED)
        if ended and trial not in snapshot.endings and trial not in snapshot.open:
            yield trial


def _names(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the names of the files of each space; those of sources, which are of none, under ""."""
    names: dict[str, list[str]] = {}
    for space, documents in snapshot.by_space.items():
        names[space] = [document.name for document in documents]
    names[""] = [*names.get("", ()), *files.names(snapshot.folder, files.SOURCES)]
    return {space: of for space, of in names.items() if of}


def _state(trial: str, snapshot: Snapshot, lost: Mapping[str, str]) -> State:
    if trial in snapshot.live:
        return "unfinished", snapshot.live[trial].beginning.attempt, None
    if trial in snapshot.endings:
        ending = snapshot.endings[trial]
        return ending.kind, ending.attempt, ending.digest
    if trial in lost:
        listed = snapshot.witness.written.get(files.name_of(trial))
        attempt = listed.ending.attempt if listed and listed.ending else 1
        return MISSING if lost[trial] == files.GONE else DAMAGED, attempt, None
    return "planned", 0, None


def _trial_row(trial: str, state: State, snapshot: Snapshot, own: Specification, faults: Mapping[str, str]) -> Row:
    status, attempt, digest_of_rows = state
    ending = snapshot.endings.get(trial) if digest_of_rows else None
    begun = snapshot.live.get(trial) if status == "unfinished" else None
    versions = ending.versions if ending else begun.beginning.versions if begun else None
    fault = {"error": f"lost: {files.name_of(trial)} {faults[trial]}"} if trial in faults else None
    specification = snapshot.plans.specifications.get(trial) or own
    recipe = specification.get("recipe", {})
    return {
        **specification,
        **specification.get("architecture", {}).get("sizes", {}),
        "trial_id": trial,
        "variant_id": specification.get("variant"),
        "status": status,
        "ended_step": ending.step if ending else None,
        "detail": ending.detail if ending else fault,
        "steps": recipe.get("steps"),
        "batch": recipe.get("batch"),
        "lr": next((settings.get("lr") for settings in recipe.get("optimizer", {}).values()), None),
        "tokenizer": _tokenizer(specification),
        "specification": specification or None,
        "versions_id": None if versions is None else digest(of_machine(versions)),
        "by_name_id": None if versions is None else digest(by_name(versions)),
        "processor": None if versions is None else versions.get(CPU),
        "attention": None if versions is None else versions.get(ATTENTION),
        "attempt": attempt,
        "digest": digest_of_rows,
    }


def _tokenizer(trial: Specification) -> str | None:
    tokenizer = trial.get("data", {}).get("tokenizer")
    if not isinstance(tokenizer, dict):
        return None if tokenizer is None else str(tokenizer)
    if "file" in tokenizer:
        return f"file {tokenizer['file'][:16]}"
    learnt_from = trial["corpus"][:8]
    if "wordpiece" in tokenizer:
        pieces = tokenizer["wordpiece"]
        case = "lowercase" if pieces["lowercase"] else "cased"
        return f"wordpiece {pieces['size']} {case} of {learnt_from}"
    if "unigram" in tokenizer:
        return f"unigram {tokenizer['unigram']} of {learnt_from}"
    return f"bpe {tokenizer['bpe']} of {learnt_from}"


def _clock(ending: Ending) -> Iterator[Row]:
    for name, step, seconds in (("began", 0, ending.began), ("ended", ending.step, ending.ended)):
        yield {"trial_id": ending.trial, "step": step, "name": name, "seconds": seconds}


def _rows_of_spaces(spaces: Iterable[str], snapshot: Snapshot) -> dict[str, Iterable[Row]]:
    rows: dict[str, list[Row]] = {name: [] for name in OF_SPACES}
    stamps, over_time, names = Stamps(snapshot), records.questions_by_space(snapshot.judgements), _names(snapshot)
    for space in spaces:
        for name in names.get(space, ()):
            rows["files"].append({"name": name, "space": space, "content": files.whole(snapshot.folder, name)[0]})
        rows["questions"] += map(_question_row, over_time.get(space, ()))
        rows["accounts"] += (row for question in over_time.get(space, ()) for row in _account_rows(question))
        kept: list[tuple[KeptPlan | KeptTable, dict[str, Iterable[Row]], bool]] = []
        tables, plans = snapshot.tables.get(space, ()), snapshot.plans.of_space.get(space, ())
        kept += [(table, _rows_of_table(table), table is tables[-1]) for table in tables]
        kept += [(plan, _rows_of_plan(plan, snapshot, stamps), plan is plans[-1]) for plan in plans]
        for each, of_one, current in kept:
            whole: Row = {"space": space, "plan": each.id, "current": current}
            if (judged := snapshot.verdicts.get(each.id)) is not None:
                of_one |= _rows_of_judgement(judged.content)
                whole = {**whole, "judged_at": judged.content["at"] or None}
            for table_name, of_table in of_one.items():
                rows[table_name] += ({**row, **whole} for row in of_table)
    return dict(rows)


def _rows_of_plan(kept: KeptPlan, snapshot: Snapshot, stamps: Stamps) -> dict[str, Iterable[Row]]:
    plan, judged = kept.document, snapshot.verdicts.get(kept.id)
    variants, comparisons, proposals = plan["variants"], plan["comparisons"], plan.get("proposals", ())
    ids = [{"variant_id": v["id"], "variant": v["name"], "position": place} for place, v in enumerate(variants, 1)]
    counts = {"variants": len(variants), "trials": len(plan["trials"]), "first_seen": kept.first_seen}
    return {
        "plans": [{**plan, **counts}],
        "plan_variants": [{**variant, **id} for variant, id in zip(variants, ids, strict=True)],
        "plan_comparisons": _comparison_rows(comparisons),
        "plan_proposals": [{**proposal} for proposal in proposals],
        "plan_skipped": [
            {"k": proposal["k"], "danger": danger, "n": n}
            for proposal in proposals
            for danger, n in proposal.get("skipped", ())
        ],
        "plan_trials": [{"trial_id": trial, "variant_id": of, "seed": seed} for trial, of, seed in plan["trials"]],
        "plan_forecasts": [{**_forecast(variant), **id} for variant, id in zip(variants, ids, strict=True)],
        "plan_forecast_layers": [
            {**layer, "variant_id": variant["id"]} for variant in variants for layer in _forecast_layers(variant)
        ],
        "plan_definitions": plan["definitions"],
        "claims": claim_rows(plan, judged.content["verdicts"] if judged else None, stamps),
    }


def _rows_of_table(kept: KeptTable) -> dict[str, Iterable[Row]]:
    table = kept.document
    variants = [
        {"variant_id": name, "variant": name, "position": place, "names": [name], "edits": []}
        for place, name in enumerate(table["variants"], 1)
    ]
    whole = {
        **{name: table[name] for name in ("design", "baseline", "notes")},
        "seeds": seeds_in(table["seeds"]),
        "variants": len(variants),
        "trials": len(table["runs"]),
        "first_seen": kept.first_seen,
        "source": table["name"],
        "resolved": {"table": table["origin"], "question": table["question"]},
        "open": False,
    }
    return {
        "plans": [whole],
        "plan_variants": variants,
        "plan_comparisons": _comparison_rows(table["comparisons"]),
        "judged_runs": [
            {"variant": variant, "run": str(seed), "status": status, "metric": metric, "value": value}
            for variant, seed, status, metric, value in runs_in(table)
        ],
    }


def _comparison_rows(comparisons: Iterable[ComparisonDocument]) -> list[Row]:
    return [{**of, "position": place, "terms": of.get("terms") or None} for place, of in enumerate(comparisons, 1)]


def _forecast(variant: VariantDocument) -> Row:
    made = forecast_of(variant)
    names = ("growth", "cosine", "gradient", "logits", "repetition", "context", "dangers", "whole")
    numbers = {} if made.refused else {name: getattr(made, name) for name in names}
    ends = {"growth": made.growth_interval, "cosine": made.cosine_interval, "gradient": made.gradient_interval}
    theory = made.theory if "forecast" in variant else None
    return {**numbers, **_ends(ends), "refused": made.refused or None, "theory": theory}


def _forecast_layers(variant: VariantDocument) -> Iterator[Row]:
    made = forecast_of(variant)
    read = {stream.layer: address for stream, address in made.read}
    for stream in made.streams:
        columns = asdict(stream) | {"address": read.get(stream.layer)}
        yield columns | _ends({name: columns.pop(f"{name}_interval") for name in ("size", "cosine", "gradient")})


def _ends(intervals: Mapping[str, Interval | None]) -> dict[str, float]:
    given = {name: ends for name, ends in intervals.items() if ends is not None}
    return {f"{name}_{end}": ends[place] for name, ends in given.items() for place, end in enumerate(("low", "high"))}


def _rows_of_judgement(judgement: JudgementFile) -> dict[str, Iterable[Row]]:
    verdicts = judgement["verdicts"]
    assert verdicts is not None
    better = {metric["name"]: metric["better"] for metric in verdicts["metrics"]}
    whole = {"confidence": verdicts["confidence"], "seeds": len(verdicts["seeds"])}
    sizes = [{**ladder, **size} for ladder in verdicts.get("ladders", ()) for size in ladder["sizes"]]
    return {
        "judged": [
            {**effect, **whole, "position": place, "better": better.get(effect["metric"])}
            for place, effect in enumerate(verdicts["effects"], 1)
        ],
        "sizes": [{**size, "position": place} for place, size in enumerate(sizes, 1)],
    }


def _question_row(question: Question) -> Row:
    effects, accounts = question["effects"], question.get("accounts", ())
    found = [effect["verdict"].removesuffix("_by_rank") for effect in effects]
    return {
        **question,
        **{verdict: found.count(verdict) for verdict in COUNTED},
        "comparisons": len({effect["comparison"] for effect in effects}),
        "seeds": seeds_in(question["seeds"]),
        "looks": question["looks"] or None,
        "without_result": len(question["without"]),
        "left_of_alpha": question["left"] * question["alpha"],
        "judged_at": question["at"],
        "effects": compact(effects),
        "family": max((account["family"] for account in accounts), default=None),
        "new": sum(account["state"] == "new" for account in accounts) if accounts else None,
        "judged_before": sum(account["state"] != "new" for account in accounts) if accounts else None,
    }


def _account_rows(question: Question) -> Iterator[Row]:
    for account in question.get("accounts", ()):
        yield {
            **account,
            "space": question["space"],
            "question": question["question"],
            "number": question["number"],
            "measures": account["of"],
            "judgement": account["number"],
            "level": (account["before"] - account["left"]) * question["alpha"],
            "left_of_alpha": account["left"] * question["alpha"],
        }


# The claims of a kept plan as rows: what each foresees, what was seen, and when it was made


def claim_rows(plan: PlanDocument, verdicts: Verdicts | None, stamps: Stamps) -> Iterator[Row]:
    """Yield a row for each claim of a plan; without `verdicts` what was seen is NULL."""
    claims = [Expected.model_validate(claim) for claim in claims_of(plan)]
    if not claims:
        return
    effects = [] if verdicts is None else [effect_of(effect) for effect in verdicts["effects"]]
    kept = [] if verdicts is None else [Correlation(**frozen(each)) for each in verdicts.get("correlations", ())]
    ways = {name: of.get("better", "lower") for name, of in judge_in(plan)["metrics"].items()}
    judged = expectations(claims, ways, names_in(plan), KeptDesign(plan).comparisons, effects, kept)
    made = zip(judged, stamps.of(plan), strict=True)
    for position, (claim, stamp) in enumerate(made, start=1):
        sign = None if claim.correlation is None else claim.correlation.sign or "undecided"
        yield {
            "position": position,
            "claim": claim.claim,
            "about": claim.of,
            "metric": claim.metric,
            "expected": claim.verdicts or sorted({verdict for step in claim.steps for verdict in step.verdicts}),
            "verdict": sign or ", ".join(step.effect.verdict for step in claim.steps) or None,
            "correlation": None if claim.correlation is None else claim.correlation.mean,
            "outcome": None if verdicts is None else claim.outcome,
            **{_COLUMNS.get(name, name): value for name, value in asdict(stamp).items()},
        }


_COLUMNS = {"at": "stated_at", "plan": "stated_plan", "space": "stated_space"}
"""The columns of fields of a stamp that have other names."""
