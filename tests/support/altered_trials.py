"""Trials with changes, whether a field is the trial's own or its work's."""

from __future__ import annotations

from dataclasses import fields, replace

from ablate.plan.identity import ModelTraining
from ablate.plan.plan import Trial


def altered(trial: Trial, **changes: object) -> Trial:
    of_work = {field.name: changes.pop(field.name) for field in fields(ModelTraining) if field.name in changes}
    return replace(trial, work=replace(trial.work, **of_work), **changes)
