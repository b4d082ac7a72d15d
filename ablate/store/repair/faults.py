"""Faults: what is wrong in a results folder, each with its repair."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ablate.store.repair.report import Finding

Cure = Callable[[], str]
"""Repairs a fault in a locked folder, and returns what a run reports of it ("" for nothing)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was written: its findings, and its cure; None where nothing is done."""

    findings: tuple[Finding, ...]
    cure: Cure | None = None


def put_right(faults: Iterable[Fault], say: Callable[[str], None]) -> None:
    """Cure all of these, in order; `say` gets what a run reports of it."""
    for fault in tuple(faults):  # all are found before the first is cured
        if fault.cure and (told := fault.cure()):
            say(told)
