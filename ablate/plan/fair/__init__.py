"""Fair comparisons: each block's model and training where a space declares what is to be equal.

fitted.py   Fitted, FairnessResult: an arm under one set of terms
declared.py what a space declares equal; the rates that are tuned for none
check.py    whether `fair` fits the design, the recipe and the seeds
fit.py      fit: every arm under every set of terms
match.py    sizes that give a model as many parameters as another's
budget.py   steps that cost as much as the baseline's training
tuning.py   the settings each block is tuned over; choose: which of them it is judged with
tunable.py  what tuning a field of the block must not do
"""

from ablate.plan.fair.declared import budget_declared, declared, term_notes
from ablate.plan.fair.fit import fit
from ablate.plan.fair.fitted import FairnessResult, Fitted
from ablate.plan.fair.tunable import check_tuned
from ablate.plan.fair.tuning import TunedSettings, choose, tuning_notes, tuning_seeds, tuning_settings

__all__ = [
    "FairnessResult",
    "Fitted",
    "TunedSettings",
    "budget_declared",
    "check_tuned",
    "choose",
    "declared",
    "fit",
    "term_notes",
    "tuning_notes",
    "tuning_seeds",
    "tuning_settings",
]
