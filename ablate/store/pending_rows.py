"""The content of the journal, and the part of it that a database lacks so far, as tables to insert."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow

from ablate.plan.forecast import Forecast, Interval
from ablate.store import checksummed_lines, ledger, open_trial, sealed, verdicts
from ablate.store.checksummed_lines import compact
from ablate.store.ending import Ending
from ablate.store.kept_forecasts import NOT_KEPT, forecast_of
from ablate.store.ledger import KeptPlans
from ablate.store.open_trial import Segment
from ablate.store.questions import Document, by_space, mark, question_rows
from ablate.store.schema import TABLES
from ablate.store.serialise import digest
from ablate.store.verdicts import Verdicts
from ablate.store.versions import ATTENTION, of_machine

OF_PLANS = (
    "plans",
    "plan_variants",
    "plan_trials",
    "plan_comparisons",
    "plan_proposals",
    "plan_skipped",
    "plan_definitions",
    "plan_forecasts",
    "plan_forecast_layers",
    "judged",
    "sizes",
    "questions",
)
"""The tables that are filled from plans and their results."""

OF_JOURNAL = (*OF_PLANS, "trials", "timings", "versions")
"""All tables that are filled from the journal. Metrics and summaries are filled from rows: those of sealed files, and
those of segments while trials run."""

DAMAGED = "damaged"
"""The status of a trial whose sealed file has changed since it was sealed."""

Rows = list[tuple[Any, ...]]
State = tuple[str, int, str | None]
"""What a database knows of a trial: its status, its attempt, and the digest of its rows if it has ended."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The content of a results folder: plans, specifications, endings, the attempts that have started and not ended,
    verdicts (`judged`), and by space the judgements of its `questions` over time.
    """

    kept: KeptPlans
    endings: Mapping[str, Ending]
    unfinished: Mapping[str, int]
    judged: Verdicts = field(default_factory=dict)
    questions: Mapping[str, Sequence[Document]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a database: the digest of each space's current plan and of its verdicts, and each trial's state.

    `earlier` has the other plans by space: their ids, their digests and those of their verdicts; `first_seen` is by
    plan id. `bare` are trials whose specification it lacks, since the journal had lost it when they were inserted.
    """

    plans: Mapping[str, str]
    trials: Mapping[str, State]
    bare: frozenset[str] = frozenset()
    judged: Mapping[str, str] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, frozenset[tuple[str, str, str]]] = field(default_factory=dict)
    first_seen: Mapping[str, float] = field(default_factory=dict)

    def plans_of(self, space: str) -> frozenset[str]:
        """Return the digests of all plans of a space."""
        others = {digest for _, digest, _ in self.earlier.get(space, ())}
        return frozenset(others | ({self.plans[space]} if space in self.plans else set()))


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of every table for the spaces and trials that differ, and where the rest of their rows are.

    Rows of ended trials are in sealed `files`; those of `live` trials have been read. `damaged` maps trials with
    damaged files to what is wrong with them: they have no rows here.
    """

    tables: Mapping[str, pyarrow.Table]
    files: tuple[Path, ...]
    live: Mapping[str, Segment]
    damaged: Mapping[str, str]

    def __bool__(self) -> bool:
        return any(table.num_rows for table in self.tables.values())


def read_journal(folder: Path) -> tuple[Journal, dict[str, Segment]]:
    """Read the folder as it is now, and its open segments; needs no lock, and may run while a driver writes."""
    # Segments first: one that is sealed and deleted meanwhile is then among the endings, so nothing is missed.
    read = (open_trial.read(open_trial.path_of(folder, trial_id)) for trial_id in sorted(ledger.open_trials(folder)))
    segments = {segment.beginning.trial_id: segment for segment in read if segment}
    known = ledger.endings(checksummed_lines.read(folder / ledger.OUTCOMES))
    sealed_now = ledger.sealed_trials(folder)
    endings = {trial_id: ending for trial_id, ending in known.items() if trial_id in sealed_now}
    live = {
        trial_id: segment
        for trial_id, segment in segments.items()
        if trial_id not in endings or segment.beginning.attempt > endings[trial_id].attempt
    }
    attempts = {trial_id: segment.beginning.attempt for trial_id, segment in live.items()}
    kept = ledger.kept_plans(checksummed_lines.read(folder / ledger.PLANS))
    return Journal(kept, endings, attempts, verdicts.read(folder), by_space(folder)), live


def changes(folder: Path, journal: Journal, stored: Stored, live: Mapping[str, Segment] | None = None) -> Changes:
    """Return what `stored` lacks of `journal`. With `live`, the rows of those segments are among the changes.

    Every byte of the sealed files to load is read, so that a damaged one affects its own trial alone.
    """
    live = live or {}
    spaces = [space for space in journal.kept.plans if _plans_changed(space, journal, stored)]
    states = {trial_id: _state(trial_id, journal) for trial_id in _trial_ids(journal, stored)}
    anew = live.keys() | (stored.bare & journal.kept.trials.keys())
    differ = [id for id, state in states.items() if id in anew or stored.trials.get(id) != state]
    damaged = {id: fault for id in differ if states[id][2] and (fault := _fault(folder, journal.endings[id]))}
    states |= {id: (DAMAGED, states[id][1], None) for id in damaged}
    changed = [id for id in differ if id in anew or stored.trials.get(id) != states[id]]
    ended = [journal.endings[id] for id in changed if states[id][2]]
    ran_with = [ending.versions for ending in ended] + [segment.beginning.versions for segment in live.values()]
    versions = [of_machine(each) for each in ran_with]
    rows: dict[str, Rows] = {
        **_plan_rows(spaces, journal),
        "trials": [_trial_row(id, states[id], journal, live, damaged.get(id)) for id in changed],
        "versions": sorted({(digest(each), name, value) for each in versions for name, value in each.items()}),
        "timings": [row for ending in ended for row in _clock(ending)],
    }
    files = tuple(sealed.path_of(folder, ending.trial_id) for ending in ended)
    tables = {name: table_of(TABLES[name].arrow(), rows[name]) for name in OF_JOURNAL}
    return Changes(tables, files, live, damaged)


def _plans_changed(space: str, journal: Journal, stored: Stored) -> bool:
    """Return whether a space was requested differently, or judged, since the database was filled."""
    judged = {id: mark_of_verdict for id, (mark_of_verdict, _) in journal.judged.get(space, {}).items()}
    plans = journal.kept.every(space)
    *earlier, (id, (latest, _)) = plans.items()
    if any(stored.first_seen.get(id) != journal.kept.first_seen.get(id) for id in plans):
        return True
    others = frozenset((other, digest, judged.get(other, "")) for other, (digest, _) in earlier)
    known = stored.judged.get(space, ""), stored.questions.get(space, ""), stored.earlier.get(space, frozenset())
    now = judged.get(id, ""), mark(journal.questions.get(space, ())), others
    return (stored.plans.get(space), known) != (latest, now)


def _trial_ids(journal: Journal, stored: Stored) -> Iterator[str]:
    """Yield every trial that is known now or was when the database was filled: it must lose what the folder lost."""
    yield from dict.fromkeys([*journal.kept.trials, *journal.endings, *journal.unfinished, *stored.trials])


def _state(trial_id: str, journal: Journal) -> State:
    if trial_id in journal.unfinished:
        return "unfinished", journal.unfinished[trial_id], None
    if trial_id in journal.endings:
        ending = journal.endings[trial_id]
        return ending.outcome.kind, ending.attempt, ending.digest
    return "planned", 0, None


def _fault(folder: Path, ending: Ending) -> str:
    """Return what is wrong with the sealed file of an ended trial; empty if nothing is."""
    if sealed.is_whole(folder, ending):
        return ""
    return sealed.examine(sealed.path_of(folder, ending.trial_id), ending).fault


def _trial_row(
    trial_id: str, state: State, journal: Journal, live: Mapping[str, Segment], fault: str | None
) -> tuple[Any, ...]:
    status, attempt, digest_of_rows = state
    ending = journal.endings.get(trial_id) if digest_of_rows else None
    versions = ending.versions if ending else live[trial_id].beginning.versions if trial_id in live else None
    detail = ending.outcome.detail if ending else {"error": f"the sealed file {fault}"} if fault else None
    trial = journal.kept.trials.get(trial_id, {})
    recipe = trial.get("recipe", {})
    sizes = trial.get("architecture", {}).get("sizes", {})
    optimizer: Mapping[str, Any] = next(iter(recipe.get("optimizer", {}).values()), {})
    return TABLES["trials"].row(
        {
            "trial_id": trial_id,
            "variant_id": trial.get("variant"),
            "status": status,
            "ended_step": ending.outcome.step if ending else None,
            "detail": None if detail is None else compact(detail),
            **{name: recipe.get(name) for name in ("steps", "batch")},
            **{name: sizes.get(name) for name in ("seq_len", "n_layers", "d_model")},
            "lr": optimizer.get("lr"),
            **{name: trial.get(name) for name in ("seed", "salt", "threads", "corpus", "split", "conditions")},
            "tokenizer": _tokenizer(trial),
            "specification": ledger.text_of(trial) if trial else None,
            "versions_id": digest(of_machine(versions)) if versions is not None else None,
            "attention": versions.get(ATTENTION) if versions is not None else None,
            "attempt": attempt,
            "digest": digest_of_rows,
        }
    )


def _tokenizer(trial: Document) -> str | None:
    """Return the identity of a tokenizer: merges depend on the text they were learnt from."""
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


def _clock(ending: Ending) -> Rows:
    return [(ending.trial_id, 0, "began", ending.began), (ending.trial_id, ending.outcome.step, "ended", ending.ended)]


def _plan_rows(spaces: Iterable[str], journal: Journal) -> dict[str, Rows]:
    """Return the rows of all plans of these spaces."""
    rows: dict[str, Rows] = {name: [] for name in OF_PLANS}
    for space in spaces:
        over_time = journal.questions.get(space, ())
        rows["questions"] += question_rows(over_time)
        plans = journal.kept.every(space)
        *_, latest = plans
        for id, kept in plans.items():
            mark_of_verdict, verdict = journal.judged.get(space, {}).get(id, (None, None))
            current = id == latest
            marks = {"judged_digest": mark_of_verdict, "questions_digest": mark(over_time) or None}
            head = {"plan": id, "current": current, "first_seen": journal.kept.first_seen.get(id), **marks}
            for name, of_plan in _rows_of_plan(*kept, head).items():
                rows[name] += of_plan
            rows["judged"] += [] if verdict is None else verdicts.rows(verdict, current=current)
            rows["sizes"] += [] if verdict is None else verdicts.size_rows(verdict, current=current)
    return rows


def _rows_of_plan(plan_digest: str, plan: Document, head: Document) -> dict[str, Rows]:
    """Return the rows of a plan: its own row, which begins with `head`, and those of its parts."""
    whose = {"space": plan["space"], "plan": head["plan"]}
    fields = {name: plan[name] for name in ("question", "design", "baseline", "seeds", "notes", "source")}
    texts = {name: compact(plan[name]) for name in ("resolved", "corpus")} | {"document": ledger.text_of(plan)}
    grows = {"open": plan.get("open"), "looks": plan.get("looks"), "factors": _text(plan.get("factors"))}
    counts = {name: len(plan[name]) for name in ("variants", "trials")}
    whole = {**whose, **head, **fields, **texts, **grows, **counts, "plan_digest": plan_digest}
    return {
        "plans": [TABLES["plans"].row(whole)],
        "plan_variants": [
            TABLES["plan_variants"].row(
                {name: v[name] for name in ("names", "edits", "parameters", "flops", "block")}
                | {**whose, "variant_id": v["id"], "variant": v["name"], "position": position}
                | {"spared": v.get("spared"), "terms": v.get("terms")}
                | {name: _text(v.get(name)) for name in ("setting", "breaks")}
            )
            for position, v in enumerate(plan["variants"], 1)
        ],
        "plan_comparisons": [
            TABLES["plan_comparisons"].row(
                {**whose, "position": position, "before_id": c["before"], "after_id": c["after"]}
                | {name: c[name] for name in ("kind", "change", "detail")}
                | {"terms": c.get("terms") or None, "weights": _text(c.get("weights"))}
            )
            for position, c in enumerate(plan["comparisons"], 1)
        ],
        "plan_proposals": [
            TABLES["plan_proposals"].row(
                {**whose, "variant_id": p["variant"]}
                | {name: p[name] for name in ("k", "derivation", "repeat", "choices", "random")}
            )
            for p in plan.get("proposals", ())
        ],
        "plan_skipped": [
            TABLES["plan_skipped"].row({**whose, "k": p["k"], "danger": danger, "n": n})
            for p in plan.get("proposals", ())
            for danger, n in p.get("skipped", ())
        ],
        "plan_trials": [
            TABLES["plan_trials"].row({**whose, "trial_id": trial_id, "variant_id": variant, "seed": seed})
            for trial_id, variant, seed in plan["trials"]
        ],
        "plan_forecasts": [
            TABLES["plan_forecasts"].row(
                {**whose, "variant_id": v["id"], "variant": v["name"], "position": position, **_forecast(v)}
            )
            for position, v in enumerate(plan["variants"], 1)
        ],
        "plan_forecast_layers": [
            TABLES["plan_forecast_layers"].row({**whose, "variant_id": v["id"], **layer})
            for v in plan["variants"]
            for layer in _forecast_layers(v)
        ],
        "plan_definitions": [
            TABLES["plan_definitions"].row({**whose, **{name: d[name] for name in ("metric", "definition", "source")}})
            for d in plan["definitions"]
        ],
    }


def _forecast(variant: Document) -> dict[str, Any]:
    """Return the columns of a variant's forecast, or the reason why there is none."""
    made = _kept_forecast(variant)
    names = ("growth", "cosine", "gradient", "logits", "repetition", "context", "dangers", "whole")
    numbers = {name: None if made.refused else getattr(made, name) for name in names}
    ends = {"growth": made.growth_interval, "cosine": made.cosine_interval, "gradient": made.gradient_interval}
    theory = made.theory if "forecast" in variant else None
    return {**numbers, **_ends(ends), "refused": made.refused or None, "theory": theory}


def _forecast_layers(variant: Document) -> Iterator[dict[str, Any]]:
    """Yield what a variant's forecast says of each layer, and where a probe reads it."""
    made = _kept_forecast(variant)
    read = {stream.layer: address for stream, address in made.read}
    for stream in made.streams:
        columns = asdict(stream) | {"address": read.get(stream.layer)}
        yield columns | _ends({name: columns.pop(f"{name}_interval") for name in ("size", "cosine", "gradient")})


def _ends(intervals: Mapping[str, Interval | None]) -> dict[str, float | None]:
    """Return the columns with the ends of intervals, NULL where there is none."""
    given = {name: (None, None) if ends is None else ends for name, ends in intervals.items()}
    return {
        f"{name}_{end}": value for name, ends in given.items() for end, value in zip(("low", "high"), ends, strict=True)
    }


def _kept_forecast(variant: Document) -> Forecast:
    return forecast_of(variant["forecast"]) if "forecast" in variant else Forecast(refused=NOT_KEPT)


def _text(document: Any) -> str | None:
    return compact(document) if document else None


def table_of(schema: pyarrow.Schema, rows: Rows) -> pyarrow.Table:
    """Return rows as a table of these columns."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pyarrow.table([pyarrow.array(c, type=t) for c, t in zip(values, schema.types, strict=True)], schema=schema)
