"""Open trials: their segments and checkpoints; sealing a trial that has ended, and continuing one that has not.

Every step of sealing can be repeated, so an interrupted one is simply finished.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ablate.store import checkpoints, checksummed_lines, files, open_trial, sealed
from ablate.store.durable import DAMAGED, copy_aside, remove, set_aside, writing
from ablate.store.files import WITNESS, Ending
from ablate.store.open_trial import CheckpointMark, Segment, TrialStart
from ablate.store.projection import Say
from ablate.store.repair.report import Fault, Finding
from ablate.store.snapshot import Snapshot, open_trials


def finish(folder: Path, trial_id: str) -> Ending:
    """Seal a segment whose last line is an outcome. Repeating it after a crash gives the same result."""
    path = open_trial.path_of(folder, trial_id)
    content = open_trial.read(path)
    if content is None:
        raise ValueError(f"the segment of trial {trial_id} is gone")
    ending = sealed.write(folder, content)
    with writing(path):
        path.unlink()
    checkpoints.drop(folder, trial_id)
    return ending


def go_on(folder: Path, trial_id: str, say: Say) -> TrialStart | None:
    """Cut an unfinished trial's segment back to its last checkpoint; empty it and return None if it must start over."""
    path = open_trial.path_of(folder, trial_id)
    content = open_trial.read(path)
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
    checksummed_lines.cut(path, mark.end)
    checkpoints.drop(folder, trial_id, keep=mark.saved.step)
    return TrialStart(mark.saved, content.beginning.versions)


def last_good(folder: Path, trial_id: str, content: Segment) -> CheckpointMark | None:
    """Return the last checkpoint whose state is whole and above which every line is whole."""
    for mark in reversed(content.marks):
        if mark.end <= content.sound and checkpoints.read(folder, trial_id, mark.saved) is not None:
            return mark
    return None


def faults(snapshot: Snapshot, *, thorough: bool) -> Iterator[Fault]:
    """Find the open trials that are over, whose segment only needs to be sealed or has nothing of use, and the states
    of trials that have no segment; if `thorough`, also segments that are damaged, or whose checkpoint is.
    """
    folder, ended = snapshot.folder, snapshot.endings
    segments = {trial: open_trial.read(open_trial.path_of(folder, trial)) for trial in sorted(open_trials(folder))}
    for trial, content in segments.items():
        if fault := _over(folder, trial, content, ended.get(trial)):
            yield fault
        elif thorough and content is not None:
            yield from _unfinished(folder, trial, content, trial in snapshot.plans.specifications)
    for trial in sorted(checkpoints.trials(folder) - segments.keys()):
        what = "is of a trial that is not being trained"
        states = _states(folder, trial)
        findings = (Finding("checkpoint", "repaired", what, path, "deleted", changes=(path,)) for path in states)
        yield Fault(tuple(findings), partial(_drop, folder, trial, trial in ended))


def _over(folder: Path, trial_id: str, content: Segment | None, known: Ending | None) -> Fault | None:
    path = open_trial.path_of(folder, trial_id)
    changes = (path, *_states(folder, trial_id))
    put_away = f"kept in {DAMAGED}; the trial starts over"

    def put(finding: Finding, told: str) -> Fault:
        return Fault((finding,), partial(_put_away, folder, trial_id, told))

    if content is None and not (path.exists() and path.stat().st_size):
        return put(Finding("leftover", "repaired", "is empty", path, "deleted", changes=changes), "")
    if content is None:
        finding = Finding("segment", "repaired", "has lost its first line", path, put_away, 1, changes)
        return put(finding, f"the journal of trial {trial_id} has lost its first line; the trial starts over")
    if content.beginning.trial != trial_id:
        other = content.beginning.trial
        finding = Finding("segment", "repaired", f"is of another trial, {other}", path, put_away, changes=changes)
        return put(finding, f"{path} is of another trial, {other}; it is kept in {DAMAGED}")
    if known and content.beginning.attempt <= known.attempt:
        what = "is of a trial that is already sealed"
        finding = Finding("leftover", "repaired", what, path, "deleted", changes=changes)
        return Fault((finding,), partial(_delete, folder, trial_id))
    if double := sealed.double(content):
        what = f"has step, metric, address {double} twice"
        finding = Finding("segment", "repaired", what, path, put_away, changes=changes)
        return put(finding, f"the journal of trial {trial_id} {what}; the trial starts over")
    if content.outcome is None or content.damaged:
        return None  # it continues when it is started, from where it is whole
    what = f"has ended ({content.outcome.kind}) but is not sealed"
    made = (files.path_of(folder, trial_id), folder / WITNESS)
    finding = Finding("outcome", "repaired", what, path, "sealed", changes=(*changes, *made))
    return Fault((finding,), partial(_seal, folder, trial_id))


def _unfinished(folder: Path, trial_id: str, content: Segment, specified: bool) -> Iterator[Fault]:
    path = open_trial.path_of(folder, trial_id)
    mark = last_good(folder, trial_id, content)
    then = f"the trial continues from step {mark.saved.step}" if mark else "the trial starts over"
    numbers, torn = content.damaged, content.torn
    changes = (path, *_states(folder, trial_id))
    findings = [Finding("damaged line", "repaired", "is damaged", path, then, number, changes) for number in numbers]
    if torn:
        what, remedy = f"ends in the middle of a line ({torn} bytes)", f"cut off; {then}"
        findings.append(Finding("torn", "repaired", what, path, remedy, changes=changes))
    if content.marks and not numbers and mark != content.marks[-1]:
        state = _state(folder, trial_id, content.marks[-1].saved.step)
        what = "is gone or has changed since it was written"
        findings.append(Finding("checkpoint", "repaired", what, state, then, changes=changes))
    if findings:
        yield Fault(tuple(findings), partial(_cut_back, folder, trial_id, content, mark))
    if not specified:
        what = "is of a trial that belongs to no plan"
        yield Fault((Finding("specification", "harmless", what, path, "left as it is"),))


def _seal(folder: Path, trial_id: str) -> None:
    finish(folder, trial_id)


def _put_away(folder: Path, trial_id: str, told: str) -> str:
    """Move an unusable segment to `damaged/`, or delete it if it is empty."""
    path = open_trial.path_of(folder, trial_id)
    if not path.stat().st_size:
        told = ""
        remove(path)
    else:
        set_aside(folder, path)
    checkpoints.drop(folder, trial_id)
    return told


def _delete(folder: Path, trial_id: str) -> None:
    remove(open_trial.path_of(folder, trial_id))
    checkpoints.drop(folder, trial_id)


def _cut_back(folder: Path, trial_id: str, content: Segment, mark: CheckpointMark | None) -> None:
    """Cut a segment back to where its trial continues; the old segment is kept, and so is a damaged state."""
    if content.marks and mark != content.marks[-1]:
        state = _state(folder, trial_id, content.marks[-1].saved.step)
        if checkpoints.read(folder, trial_id, content.marks[-1].saved) is None and state.exists():
            set_aside(folder, state)
    if mark is None:
        _put_away(folder, trial_id, "")
    else:
        copy_aside(folder, open_trial.path_of(folder, trial_id))
        go_on(folder, trial_id, lambda told: None)  # already reported


def _drop(folder: Path, trial_id: str, ended: bool) -> str:
    checkpoints.drop(folder, trial_id)
    return "" if ended else f"trial {trial_id} has a checkpoint but no journal any more; it starts over"


def _start_over(folder: Path, trial_id: str) -> None:
    checksummed_lines.cut(open_trial.path_of(folder, trial_id), 0)
    checkpoints.drop(folder, trial_id)


def _states(folder: Path, trial_id: str) -> list[Path]:
    return [_state(folder, trial_id, step) for step in checkpoints.steps(folder, trial_id)]


def _state(folder: Path, trial_id: str, step: int) -> Path:
    return folder / checkpoints.FOLDER / f"{trial_id}.{step}.pt"
