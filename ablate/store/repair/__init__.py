"""Repair of a results folder: one function finds each kind of damage, and one repairs it.

    whole_folder.py   `repair`: everything checked, reported and repaired; called by `ablate doctor`
    opening.py        `make_ready`: the few of these steps that a run needs before it writes
    report.py         what was found and done, as values
    faults.py         a fault together with its repair
    seen.py           the content of a folder, read through without changing anything
    leftovers.py      unfinished files, and claims of dead workers
    text_lines.py     lines that are torn, damaged, or of a newer version
    plans.py          plans and specifications that are lost
    sealed_trials.py  ended trials: their files compared with the index
    open_trials.py    trials that have not ended, and their checkpoints; sealing or continuing one
    runs.py           how runs were requested
    judgements.py     verdicts, and how questions were judged over time
    corpora.py        token streams
    from_database.py  what can be recovered from the DuckDB file, each thing verified by its digest
    database.py       the DuckDB file itself
    around.py         killed runs, free disk space, and what is kept in `damaged/`

A fault is found without a lock and without writing; its own cure then repairs it in a locked folder. So a dry run
reports exactly what would be done. Nothing damaged is deleted: it is kept in `damaged/`.
"""

from ablate.store.repair.whole_folder import repair

__all__ = ["repair"]
