"""Putting a folder right after a driver that did not end well, and going on with a trial that has not ended.

Every step of sealing can be done again, so whatever was under way is simply finished: a segment with an outcome is
sealed, a sealed file without a line in the index gets one, and what a rename had not put in place is deleted.
"""

from __future__ import annotations

from pathlib import Path

from ablate.store import checkpoints, claim, ledger, lines, restore, sealed, segment
from ablate.store.durable import DAMAGED, remove, set_aside, unfinished_in, writing
from ablate.store.ending import Ending
from ablate.store.ledger import Asked
from ablate.store.lines import Appender
from ablate.store.projection import DATABASE, Say, put_damaged_aside, read_stored
from ablate.store.segment import Mark, Segment, Start


def recover(folder: Path, say: Say, *, thorough: bool = False) -> tuple[Asked, dict[str, Ending]]:
    """Finish what was under way in a locked folder; the plans and the endings it holds.

    `thorough` reads every sealed file through.
    """
    for place in (folder, folder / sealed.FOLDER, folder / checkpoints.FOLDER, folder / segment.FOLDER):
        for leftover in unfinished_in(place):
            remove(leftover)
    claim.sweep(folder)
    stored = read_stored(folder / DATABASE)
    asked = restore.asked(folder, stored, say)
    for path in sorted(folder.glob("*.jsonl")):
        if path.name in (ledger.PLANS, ledger.OUTCOMES):  # which are looked at with what can be got back of them
            restore.cut_tail(path, say)
        else:
            restore.whole_lines(path, say)
    outcomes = Appender(folder / ledger.OUTCOMES)
    try:
        endings = restore.endings(folder, stored, outcomes, say, thorough)
        for trial_id in sorted(ledger.open_trials(folder)):
            ending = _recover_segment(folder, trial_id, endings.get(trial_id), outcomes, say)
            if ending:
                endings[trial_id] = ending
    finally:
        outcomes.close()
    for trial_id in sorted(checkpoints.trials(folder) - ledger.open_trials(folder)):
        if trial_id not in endings:
            say(f"trial {trial_id} has a checkpoint and no journal any more; it starts over")
        checkpoints.drop(folder, trial_id)
    put_damaged_aside(folder, say)
    return asked, endings


def finish(folder: Path, trial_id: str, outcomes: Appender) -> Ending:
    """Seal a segment whose last line is an outcome. Done again after a crash it comes to the same."""
    path = segment.path_of(folder, trial_id)
    content = segment.read(path)
    if content is None:
        raise ValueError(f"the segment of trial {trial_id} is gone")
    ending = sealed.write(folder, content)
    outcomes.write([ledger.ending_record(ending)])
    outcomes.sync()
    with writing(path):
        path.unlink()
    checkpoints.drop(folder, trial_id)
    return ending


def go_on(folder: Path, trial_id: str, say: Say) -> Start | None:
    """Cut an unfinished trial's segment back to its last checkpoint; to nothing, and None, if it must start over."""
    path = segment.path_of(folder, trial_id)
    content = segment.read(path)
    if content is None:
        _start_over(folder, trial_id)
        return None
    if content.torn:
        say(f"the journal of trial {trial_id} ends in the middle of a line; {content.torn} bytes are cut off")
    if content.damaged:
        say(f"the journal of trial {trial_id} is damaged in line {', '.join(map(str, content.damaged))}")
    mark = last_good(folder, trial_id, content)
    if content.damaged and not mark:
        say(f"trial {trial_id} starts over")
    elif content.marks and not mark:
        say(f"the checkpoint of trial {trial_id} is damaged or gone; the trial starts over")
    if mark is None:
        _start_over(folder, trial_id)
        return None
    lines.cut(path, mark.end)
    checkpoints.drop(folder, trial_id, keep=mark.saved.step)
    return Start(mark.saved, content.beginning.versions)


def last_good(folder: Path, trial_id: str, content: Segment) -> Mark | None:
    """The last checkpoint whose state is whole and above which every line is."""
    for mark in reversed(content.marks):
        above_damage = content.first_damage is None or mark.end <= content.first_damage
        if above_damage and checkpoints.read(folder, trial_id, mark.saved) is not None:
            return mark
    return None


def _start_over(folder: Path, trial_id: str) -> None:
    lines.cut(segment.path_of(folder, trial_id), 0)
    checkpoints.drop(folder, trial_id)


def _recover_segment(folder: Path, trial_id: str, known: Ending | None, outcomes: Appender, say: Say) -> Ending | None:
    """Seal a segment that only lacked that, and delete one that was sealed already or says nothing."""
    path = segment.path_of(folder, trial_id)
    content = segment.read(path)
    if content is None:
        if path.stat().st_size:
            say(f"the journal of trial {trial_id} has lost its first line; the trial starts over")
        _put_away(folder, trial_id)
        return None
    if content.beginning.trial_id != trial_id:
        say(f"{path} is of another trial, {content.beginning.trial_id}; it is kept in {DAMAGED}")
        _put_away(folder, trial_id)
        return None
    if known and content.beginning.attempt <= known.attempt:
        path.unlink()
        return None
    if double := sealed.double(content):
        say(f"the journal of trial {trial_id} has step, metric, address {double} twice; the trial starts over")
        _put_away(folder, trial_id)
        return None
    if content.outcome is None or content.damaged:
        return None  # it goes on when it is begun, from where it is whole
    return finish(folder, trial_id, outcomes)


def _put_away(folder: Path, trial_id: str) -> None:
    """Take a segment that says nothing out of the way, whatever it holds kept in `damaged/`."""
    path = segment.path_of(folder, trial_id)
    if path.stat().st_size:
        set_aside(folder, path)
    else:
        path.unlink()
    checkpoints.drop(folder, trial_id)
