"""Healing a results folder: each kind of damage is found by one function, and put right by one.

    whole_folder.py   `repair`: everything looked at, said, and put right; what `ablate doctor` calls
    opening.py        `make_ready`: the few of these steps that a run needs before it writes
    report.py         what was found and done, as values
    faults.py         something found, together with what puts it right
    seen.py           what a folder says, read through without changing anything
    leftovers.py      files that were never finished, and claims of workers that died
    text_lines.py     lines that are torn, damaged, or of a newer version
    plans.py          plans and specifications that are lost
    sealed_trials.py  trials that have ended: their files beside the index
    open_trials.py    trials that have not, and their checkpoints; finishing one, going on with one
    runs.py           how runs were asked for
    judgements.py     verdicts, and how questions were judged over time
    corpora.py        token streams
    from_database.py  what the DuckDB file gives back of what is lost, each proven by its digest
    database.py       the DuckDB file itself
    around.py         who was here, whether there is room, and what is kept in `damaged/`

A fault is found without a lock and without writing; the same fault then puts itself right in a locked folder. So what
a dry run says is what is done. Nothing that was damaged is deleted: it is kept in `damaged/`.
"""

from ablate.store.repair.whole_folder import repair

__all__ = ["repair"]
