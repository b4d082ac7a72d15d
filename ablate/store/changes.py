"""What the journal says, and the part of it that a database does not know yet, as tables to be put in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow

from ablate.store import ledger, lines, sealed, segment, verdicts
from ablate.store.describe import digest
from ablate.store.ending import Ending
from ablate.store.ledger import Asked
from ablate.store.lines import compact
from ablate.store.questions import TOLD, Document, by_space, mark, question_rows
from ablate.store.segment import Segment
from ablate.store.verdicts import Verdicts
from ablate.store.versions import ATTENTION, of_machine

TEXT, WHOLE, REAL, TEXTS = pyarrow.string(), pyarrow.int64(), pyarrow.float64(), pyarrow.list_(pyarrow.string())

COLUMNS: Mapping[str, Mapping[str, pyarrow.DataType]] = {
    "spaces": dict.fromkeys(["space", "question", "design", "baseline"], TEXT)
    | {"seeds": pyarrow.list_(WHOLE), "notes": TEXTS}
    | dict.fromkeys(["source", "resolved", "corpus"], TEXT)
    | {"open": pyarrow.bool_(), "looks": pyarrow.list_(WHOLE), "factors": TEXT, "plan_digest": TEXT}
    | {"judged_digest": TEXT, "questions_digest": TEXT},
    "variants": dict.fromkeys(["space", "variant_id", "variant"], TEXT)
    | {"position": WHOLE, "names": TEXTS, "edits": TEXTS}
    | {"parameters": WHOLE, "flops": WHOLE, "spared": WHOLE, "block": TEXT}
    | {"terms": TEXTS, "setting": TEXT, "breaks": TEXT},
    "memberships": {"space": TEXT, "trial_id": TEXT, "variant_id": TEXT, "seed": WHOLE},
    "comparisons": {"space": TEXT, "position": WHOLE}
    | dict.fromkeys(["kind", "change", "detail", "before_id", "after_id", "terms", "weights"], TEXT),
    "proposals": {"space": TEXT, "k": WHOLE, "derivation": TEXT, "variant_id": TEXT, "repeat": pyarrow.bool_()}
    | dict.fromkeys(["choices", "random"], WHOLE),
    "definitions": dict.fromkeys(["space", "metric", "definition", "source"], TEXT),
    "judged": {"space": TEXT, "position": WHOLE}
    | dict.fromkeys(["kind", "change", "terms", "metric", "before_id", "after_id"], TEXT)
    | {"n": WHOLE}
    | dict.fromkeys(["estimate", "low", "high", "sd", "p", "p_adjusted", "q"], REAL)
    | dict.fromkeys(["p_equivalent", "p_equivalent_adjusted"], REAL)
    | {"method": TEXT, "df": REAL, "scale": TEXT, "margin": REAL, "verdict": TEXT, "differs": pyarrow.bool_()}
    | {
        "seeds_needed": WHOLE,
        "note": TEXT,
        "ranked": WHOLE,
        "level": REAL,
        "judgement": WHOLE,
        "better": TEXT,
        "confidence": REAL,
        "seeds": WHOLE,
    }
    | {"current": pyarrow.bool_()},
    "questions": {"space": TEXT, "question": TEXT, "number": WHOLE, "metrics": TEXTS, "comparisons": WHOLE}
    | {"seeds": pyarrow.list_(WHOLE), "looks": pyarrow.list_(WHOLE), "without_result": WHOLE}
    | dict.fromkeys(["alpha", "level", "left_of_alpha"], REAL)
    | dict.fromkeys(TOLD, WHOLE)
    | {"judged_at": REAL, "effects": TEXT},
    "trials": dict.fromkeys(["trial_id", "variant_id", "status"], TEXT)
    | {"ended_step": WHOLE, "detail": TEXT, "steps": WHOLE, "batch": WHOLE, "seq_len": WHOLE}
    | {"n_layers": WHOLE, "d_model": WHOLE, "lr": REAL}
    | {
        "seed": WHOLE,
        "salt": WHOLE,
        "threads": WHOLE,
        "corpus": TEXT,
        "tokenizer": TEXT,
        "split": TEXT,
        "conditions": TEXT,
        "specification": TEXT,
        "versions_id": TEXT,
        "attention": TEXT,
    }
    | {"attempt": WHOLE, "digest": TEXT},
    "timings": {"trial_id": TEXT, "step": WHOLE, "name": TEXT, "seconds": REAL},
    "versions": {"versions_id": TEXT, "name": TEXT, "version": TEXT},
}
"""The tables of `tables.sql` that are filled from the journal, with their columns in order.

Metrics and summaries are filled from rows: those of sealed files, and those of segments while trials run.
"""

OF_PLANS = ("spaces", "variants", "memberships", "comparisons", "proposals", "definitions", "judged", "questions")
"""The tables that are filled from plans, and from what they have come to."""

DAMAGED = "damaged"
"""The status of a trial whose sealed file is not what was sealed."""

Rows = list[tuple[Any, ...]]
State = tuple[str, int, str | None]
"""What a database knows of a trial: its status, its attempt, and the digest of its rows if it has ended."""


@dataclass(frozen=True, slots=True)
class Journal:
    """All that a results folder says: plans, specifications, endings, which attempts are begun and not ended, what was
    `judged`, and by space how its `questions` were judged over time.
    """

    asked: Asked
    endings: Mapping[str, Ending]
    unfinished: Mapping[str, int]
    judged: Verdicts = field(default_factory=dict)
    questions: Mapping[str, Sequence[Document]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a database knows: the digest of each space's plan and of its verdicts, and the state of each trial.

    `bare` are trials whose specification it lacks, since the journal had lost it when they were put in.
    """

    plans: Mapping[str, str]
    trials: Mapping[str, State]
    bare: frozenset[str] = frozenset()
    judged: Mapping[str, str] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of every table for the spaces and trials that differ, and where the rest of their rows are.

    Those of ended trials are in sealed `files`; those of `live` trials have been read. `damaged` says of trials whose
    files cannot be believed what is wrong with them: they have no rows here.
    """

    tables: Mapping[str, pyarrow.Table]
    files: tuple[Path, ...]
    live: Mapping[str, Segment]
    damaged: Mapping[str, str]

    def __bool__(self) -> bool:
        return any(table.num_rows for table in self.tables.values())


def read_journal(folder: Path) -> tuple[Journal, dict[str, Segment]]:
    """What the folder says now, with the open segments' content; needs no lock, and may run while a driver writes."""
    # Segments first: one that is sealed and deleted meanwhile is then found among the endings, so nothing is missed.
    read = (segment.read(segment.path_of(folder, trial_id)) for trial_id in sorted(ledger.open_trials(folder)))
    segments = {found.beginning.trial_id: found for found in read if found}
    known = ledger.endings(lines.read(folder / ledger.OUTCOMES))
    sealed_now = ledger.sealed_trials(folder)
    endings = {trial_id: ending for trial_id, ending in known.items() if trial_id in sealed_now}
    live = {
        trial_id: found
        for trial_id, found in segments.items()
        if trial_id not in endings or found.beginning.attempt > endings[trial_id].attempt
    }
    attempts = {trial_id: found.beginning.attempt for trial_id, found in live.items()}
    asked = ledger.asked(lines.read(folder / ledger.PLANS))
    return Journal(asked, endings, attempts, verdicts.read(folder), by_space(folder)), live


def changes(folder: Path, journal: Journal, stored: Stored, live: Mapping[str, Segment] | None = None) -> Changes:
    """What `stored` lacks of `journal`. With `live`, the rows of those segments are among the changes.

    Every byte of the sealed files that are to be loaded is read, so that a damaged one costs its own trial alone.
    """
    live = live or {}
    plans = {space: plan for space, plan in journal.asked.plans.items() if _asked_or_judged(space, journal, stored)}
    states = {trial_id: _state(trial_id, journal) for trial_id in _trial_ids(journal, stored)}
    anew = live.keys() | (stored.bare & journal.asked.trials.keys())
    differ = [id for id, state in states.items() if id in anew or stored.trials.get(id) != state]
    damaged = {id: fault for id in differ if states[id][2] and (fault := _fault(folder, journal.endings[id]))}
    states |= {id: (DAMAGED, states[id][1], None) for id in damaged}
    changed = [id for id in differ if id in anew or stored.trials.get(id) != states[id]]
    ended = [journal.endings[id] for id in changed if states[id][2]]
    ran_with = [ending.versions for ending in ended] + [found.beginning.versions for found in live.values()]
    versions = [of_machine(one) for one in ran_with]
    rows: dict[str, Rows] = {
        **_plan_rows(plans, journal.judged, journal.questions),
        "trials": [_trial_row(id, states[id], journal, live, damaged.get(id)) for id in changed],
        "versions": sorted({(digest(one), name, value) for one in versions for name, value in one.items()}),
        "timings": [row for ending in ended for row in _clock(ending)],
    }
    files = tuple(sealed.path_of(folder, ending.trial_id) for ending in ended)
    return Changes({name: table_of(columns, rows[name]) for name, columns in COLUMNS.items()}, files, live, damaged)


def _asked_or_judged(space: str, journal: Journal, stored: Stored) -> bool:
    """Whether a space was asked otherwise, or judged, since the database was filled."""
    judged = journal.judged.get(space, ("", {}))[0], mark(journal.questions.get(space, ()))
    known = stored.judged.get(space, ""), stored.questions.get(space, "")
    return (stored.plans.get(space), known) != (journal.asked.plans[space][0], judged)


def _trial_ids(journal: Journal, stored: Stored) -> Iterator[str]:
    """Every trial that is known, or was when the database was filled: what is gone from the folder goes there too."""
    yield from dict.fromkeys([*journal.asked.trials, *journal.endings, *journal.unfinished, *stored.trials])


def _state(trial_id: str, journal: Journal) -> State:
    if trial_id in journal.unfinished:
        return "unfinished", journal.unfinished[trial_id], None
    if trial_id in journal.endings:
        ending = journal.endings[trial_id]
        return ending.outcome.kind, ending.attempt, ending.digest
    return "planned", 0, None


def _fault(folder: Path, ending: Ending) -> str:
    """What is wrong with the sealed file of an ended trial; empty if nothing is."""
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
    trial = journal.asked.trials.get(trial_id, {})
    recipe = trial.get("recipe", {})
    sizes = trial.get("architecture", {}).get("sizes", {})
    optimizer: Mapping[str, Any] = next(iter(recipe.get("optimizer", {}).values()), {})
    return (
        trial_id,
        trial.get("variant"),
        status,
        ending.outcome.step if ending else None,
        None if detail is None else compact(detail),
        recipe.get("steps"),
        recipe.get("batch"),
        sizes.get("seq_len"),
        sizes.get("n_layers"),
        sizes.get("d_model"),
        optimizer.get("lr"),
        trial.get("seed"),
        trial.get("salt"),
        trial.get("threads"),
        trial.get("corpus"),
        _tokenizer(trial),
        trial.get("split"),
        trial.get("conditions"),
        ledger.text_of(trial) if trial else None,
        digest(of_machine(versions)) if versions is not None else None,
        versions.get(ATTENTION) if versions is not None else None,
        attempt,
        digest_of_rows,
    )


def _tokenizer(trial: Document) -> str | None:
    """A tokenizer by what it is: merges of byte pairs are those of the text they were learnt from."""
    said = trial.get("data", {}).get("tokenizer")
    return f"bpe {said['bpe']} of {trial['corpus'][:8]}" if isinstance(said, dict) else said


def _clock(ending: Ending) -> Rows:
    return [(ending.trial_id, 0, "began", ending.began), (ending.trial_id, ending.outcome.step, "ended", ending.ended)]


def _plan_rows(
    plans: Mapping[str, tuple[str, Mapping[str, Any]]],
    judged: Verdicts,
    asked: Mapping[str, Sequence[Document]],
) -> dict[str, Rows]:
    rows: dict[str, Rows] = {name: [] for name in OF_PLANS}
    for space, (plan_digest, plan) in plans.items():
        judged_mark, verdict = judged.get(space, (None, None))
        texts = (plan["source"], compact(plan["resolved"]), compact(plan["corpus"]), plan.get("open"))
        over_time = asked.get(space, ())
        looks = (plan.get("looks"), _text(plan.get("factors")), plan_digest, judged_mark, mark(over_time) or None)
        head = (plan["question"], plan["design"], plan["baseline"], plan["seeds"], plan["notes"])
        rows["spaces"].append((space, *head, *texts, *looks))
        rows["judged"] += [] if verdict is None else verdicts.rows(space, verdict, plan["resolved"])
        rows["questions"] += question_rows(over_time)
        for position, v in enumerate(plan["variants"], 1):
            known = (v["names"], v["edits"], v["parameters"], v["flops"], v.get("spared"), v["block"])
            terms = (v.get("terms"), _text(v.get("setting")), _text(v.get("breaks")))
            rows["variants"].append((space, v["id"], v["name"], position, *known, *terms))
        for position, c in enumerate(plan["comparisons"], 1):
            told = (c["kind"], c["change"], c["detail"], c["before"], c["after"])
            rows["comparisons"].append((space, position, *told, c.get("terms") or None, _text(c.get("weights"))))
        rows["proposals"] += [(space, *one.values()) for one in plan.get("proposals", ())]
        rows["memberships"] += [(space, *trial) for trial in plan["trials"]]
        rows["definitions"] += [(space, d["metric"], d["definition"], d["source"]) for d in plan["definitions"]]
    return rows


def _text(document: Any) -> str | None:
    return compact(document) if document else None


def table_of(columns: Mapping[str, pyarrow.DataType], rows: Rows) -> pyarrow.Table:
    """Rows as a table of these columns."""
    schema = pyarrow.schema(list(columns.items()))
    values = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pyarrow.table([pyarrow.array(c, type=t) for c, t in zip(values, schema.types, strict=True)], schema=schema)
