"""What a run does with a locked folder before it writes: only what it needs and is cheap to find.

Damaged lines stay where they are, and a segment is cut back when its trial continues; `repair` does both at once.
"""

from __future__ import annotations

from pathlib import Path

from ablate.store import checksummed_lines, claim, ledger
from ablate.store.ending import Ending
from ablate.store.ledger import KeptPlans
from ablate.store.pending_rows import Stored
from ablate.store.projection import DATABASE, Say, put_damaged_aside, read_stored
from ablate.store.repair import judgements, leftovers, open_trials, plans, sealed_trials, text_lines
from ablate.store.repair.faults import put_right
from ablate.store.repair.seen import read_ledgers


def make_ready(folder: Path, say: Say) -> tuple[KeptPlans, dict[str, Ending]]:
    """Finish interrupted writes in a locked folder; return its plans and endings."""
    put_right(leftovers.faults(folder, claim.holders(folder)), say)
    stored = read_stored(folder / DATABASE)
    ledgers = read_ledgers(folder)
    for path, reading in ledgers.items():
        if told := text_lines.passed_over(path, reading):
            say(told)
        put_right(text_lines.torn(path, reading), say)
        if reading.joined:
            checksummed_lines.end_last(path)
    plan_lines = ledgers.get(folder / ledger.PLANS, checksummed_lines.NOTHING)
    kept = ledger.kept_plans(plan_lines)
    back = plans.lacking(folder, plan_lines, kept, stored)
    put_right(plans.faults(folder, kept, back), say)
    kept = plans.with_lines(kept, back)
    put_right(judgements.faults_of_verdicts(folder, ledgers, kept, stored), say)
    index = ledgers.get(folder / ledger.OUTCOMES, checksummed_lines.NOTHING)
    endings = _endings(folder, bool(index.damaged or index.torn), ledger.endings(index), stored, say)
    put_damaged_aside(folder, say)
    return kept, endings


def _endings(folder: Path, thorough: bool, known: dict[str, Ending], stored: Stored, say: Say) -> dict[str, Ending]:
    """Make the index, the sealed files and the segments agree; return how trials have ended."""
    examined = sealed_trials.examine_doubtful(folder, known, stored, thorough=thorough)
    back = sealed_trials.come_back(folder, known, examined)
    endings = sealed_trials.mended(known, examined, back)
    over = dict(open_trials.over(folder, open_trials.read(folder), endings))
    nobodys = tuple(open_trials.checkpoints_of_nobody(folder, ledger.open_trials(folder), endings))
    put_right([*sealed_trials.faults(folder, known, examined, back), *over.values(), *nobodys], say)
    return ledger.endings(checksummed_lines.read(folder / ledger.OUTCOMES)) if examined or over else endings
