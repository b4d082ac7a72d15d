"""Fair comparisons: each block's model and training where a space declares what is to be equal.

fitted.py   Fitted, FairnessResult: an arm under one set of terms
check.py    whether `fair` fits the design, the recipe and the seeds
fit.py      fit: every arm under every set of terms
match.py    sizes that give a model as many parameters as another's
budget.py   steps that cost as much as the baseline's training
tuning.py   the settings each block is tuned over; choose: which of them it is judged with
tunable.py  what tuning a field of the block must not do
"""

from ablate.plan.fair.fit import fit
from ablate.plan.fair.fitted import FairnessResult, Fitted
from ablate.plan.fair.tunable import check_tuned
from ablate.plan.fair.tuning import TunedSettings, choose, tuning_notes, tuning_seeds, tuning_settings

__all__ = [
    "FairnessResult",
    "Fitted",
    "TunedSettings",
    "check_tuned",
    "choose",
    "fit",
    "tuning_notes",
    "tuning_seeds",
    "tuning_settings",
]
