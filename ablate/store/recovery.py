"""Putting a folder right after a driver that did not end well, and going on with a trial that has not ended.

Every step of sealing can be done again, so whatever was under way is simply finished: a segment with an outcome is
sealed, a sealed file without a line in the index gets one, and what a rename had not put in place is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ablate.store import checkpoints, ledger, lines, sealed, segment
from ablate.store.durable import UNFINISHED, writing
from ablate.store.ending import Ending
from ablate.store.ledger import Asked
from ablate.store.lines import Appender, Reading
from ablate.store.projection import Say
from ablate.store.segment import Mark, Segment
from ablate.train.events import Checkpoint


def recover(folder: Path, say: Say) -> tuple[Asked, dict[str, Ending]]:
    """Finish what was under way in a locked folder; the plans and the endings it holds."""
    for place in (folder, folder / sealed.FOLDER, folder / checkpoints.FOLDER):
        for leftover in place.glob(f"*{UNFINISHED}*"):
            leftover.unlink()
    asked = ledger.asked(_read(folder / ledger.PLANS, say))
    endings = _recover_endings(folder, say)
    outcomes = Appender(folder / ledger.OUTCOMES)
    try:
        for trial_id in sorted(ledger.open_trials(folder)):
            ending = _recover_segment(folder, trial_id, endings.get(trial_id), outcomes, say)
            if ending:
                endings[trial_id] = ending
    finally:
        outcomes.close()
    for trial_id in checkpoints.trials(folder) - ledger.open_trials(folder):
        checkpoints.drop(folder, trial_id)
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


def go_on(folder: Path, trial_id: str, versions: Mapping[str, str], say: Say) -> Checkpoint | None:
    """Cut an unfinished trial's segment back to its last checkpoint, or to nothing if it must start over."""
    path = segment.path_of(folder, trial_id)
    content = segment.read(path)
    if content is None:
        _start_over(folder, trial_id)
        return None
    if content.torn:
        say(f"the journal of trial {trial_id} ends in the middle of a line; {content.torn} bytes are cut off")
    if content.beginning.versions != dict(versions):
        differ = sorted(k for k in versions if versions[k] != content.beginning.versions.get(k))
        say(f"trial {trial_id} was begun with other versions ({', '.join(differ)}); it starts over")
        _start_over(folder, trial_id)
        return None
    if content.damaged:
        say(f"the journal of trial {trial_id} is damaged in line {', '.join(map(str, content.damaged))}")
    mark, checkpoint = _last_good(folder, trial_id, content)
    if content.damaged and not checkpoint:
        say(f"trial {trial_id} starts over")
    elif content.marks and not checkpoint:
        say(f"the checkpoint of trial {trial_id} is damaged or gone; the trial starts over")
    if mark is None or checkpoint is None:
        _start_over(folder, trial_id)
        return None
    lines.cut(path, mark.end)
    checkpoints.drop(folder, trial_id, keep=mark.step)
    return checkpoint


def _last_good(folder: Path, trial_id: str, content: Segment) -> tuple[Mark | None, Checkpoint | None]:
    """The last checkpoint whose state is whole and above which every line is."""
    for mark in reversed(content.marks):
        above_damage = content.first_damage is None or mark.end <= content.first_damage
        if above_damage and (checkpoint := checkpoints.read(folder, trial_id, mark)):
            return mark, checkpoint
    return None, None


def _start_over(folder: Path, trial_id: str) -> None:
    lines.cut(segment.path_of(folder, trial_id), 0)
    checkpoints.drop(folder, trial_id)


def _recover_endings(folder: Path, say: Say) -> dict[str, Ending]:
    """The endings of the index, with the sealed files as the judge of what is there."""
    known = ledger.endings(_read(folder / ledger.OUTCOMES, say))
    there = ledger.sealed_trials(folder)
    for trial_id in sorted(set(known) - there):
        say(f"the sealed file of trial {trial_id} is gone; the trial is not known any more")
        del known[trial_id]
    unlisted = [sealed.read_ending(sealed.path_of(folder, trial_id)) for trial_id in sorted(there - set(known))]
    found = {ending.trial_id: ending for ending in unlisted if ending}
    if found:
        outcomes = Appender(folder / ledger.OUTCOMES)
        try:
            outcomes.write(ledger.ending_record(ending) for ending in found.values())
        finally:
            outcomes.close()
    return known | found


def _recover_segment(folder: Path, trial_id: str, known: Ending | None, outcomes: Appender, say: Say) -> Ending | None:
    """Seal a segment that only lacked that, and delete one that was sealed already or says nothing."""
    path = segment.path_of(folder, trial_id)
    content = segment.read(path)
    if content is None:
        if path.stat().st_size:
            say(f"the journal of trial {trial_id} has lost its first line; the trial starts over")
        path.unlink()
        return None
    if known and content.beginning.attempt <= known.attempt:
        path.unlink()
        return None
    if content.outcome is None:
        return None
    if content.damaged:
        say(
            f"the journal of trial {trial_id} is damaged in line {', '.join(map(str, content.damaged))}; it starts over"
        )
        _start_over(folder, trial_id)
        return None
    return finish(folder, trial_id, outcomes)


def _read(path: Path, say: Say) -> Reading:
    """The whole lines of one of the ledger's files, its torn tail cut off."""
    reading = lines.read(path)
    if reading.torn:
        say(f"{path} ends in the middle of a line; {reading.torn} bytes are cut off")
        lines.cut(path, reading.ends[-1] if reading.ends else 0)
    if reading.damaged:
        say(f"{path} is damaged in line {', '.join(map(str, reading.damaged))}; those lines are passed over")
    return reading
