"""Repair of a results folder: seals verified, caches filled again.

    whole_folder.py   `repair`: all checked, leftovers, disk space and clocks too; and what a run needs before it writes
    report.py         findings, faults with their cures, and the report
    kept_files.py     the files that own results: verified, recovered from the DuckDB file, listed
    open_trials.py    trials that have not ended, and their checkpoints; sealing or continuing one
    database.py       the DuckDB file

A fault is found without a lock and without writing; its own cure then repairs it in a locked folder. So a dry run
reports exactly what would be done. Nothing damaged is deleted: it is kept in `damaged/`.
"""

from ablate.store.repair.whole_folder import repair

__all__ = ["repair"]
