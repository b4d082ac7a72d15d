"""Fit every arm to every set of terms: matched in size first, then given its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ablate.block.expression import Block
from ablate.plan.designs import DesignArm, arm_of
from ablate.plan.fair.budget import Training, compared, steps_for
from ablate.plan.fair.check import check_fair
from ablate.plan.fair.fitted import FairnessResult, Fitted
from ablate.plan.fair.match import Matched, match
from ablate.plan.known import Known
from ablate.plan.models import Models
from ablate.plan.setting import Setting
from ablate.source.located import Span
from ablate.source.problems import Problems
from ablate.space import fair
from ablate.space.space import Space
from ablate.space.variants import Changes


def fit(arms: Sequence[DesignArm], models: Models, known: Known, problems: Problems) -> FairnessResult:
    """Fit every arm to every set of terms; the baseline has the sizes and steps of the space under all of them.

    What cannot be matched is reported in `problems`.
    """
    space = models.space
    check_fair(space, problems)
    fitting = _Fitting(models, known, problems)
    fitted = tuple(fitting.under(name, arm) for name in space.fair.terms for arm in arms)
    tokens = [name for name, terms in space.fair.terms.items() if terms.budget == "tokens"]
    told = [*(fitting.tokens(name, arms) for name in tokens), *fitting.notes]
    is_open = any(arm.setting.open for arm in fitted)
    if is_open:
        told.append(
            "wall-clock budgets: seconds per step are measured once, when the space runs; "
            "until then the numbers of steps under them are not known"
        )
    return FairnessResult(fitted, tuple(told), open=is_open)


@dataclass
class _Fitting:
    """One pass over arms and terms; `notes` describe its results."""

    models: Models
    known: Known
    problems: Problems
    notes: list[str] = field(default_factory=list)
    _matched: dict[tuple[Block, Changes, fair.Match], Matched | None] = field(default_factory=dict)
    _baselines: dict[Changes, Training] = field(default_factory=dict)

    def _beside(self, arm: DesignArm) -> DesignArm:
        """Return the baseline that an arm is compared with: that of its size."""
        space = self.models.space
        baseline = arm_of(space, space.judge.against)
        changes = dict(baseline.changes) | dict(arm.size)
        return replace(baseline, changes=tuple(sorted(changes.items())))

    def _baseline(self, arm: DesignArm) -> Training:
        """Return what training the baseline at the size of an arm costs."""
        if arm.size not in self._baselines:
            beside = self._beside(arm)
            self._baselines[arm.size] = self._training(beside.block, beside.setting)
        return self._baselines[arm.size]

    def under(self, name: str, arm: DesignArm) -> Fitted:
        """Fit one arm to the terms of that name."""
        terms = self.models.space.fair.terms[name]
        plain = Fitted(terms=name, arm=arm, block=arm.block, setting=arm.setting)
        if self._costs_the_same(terms, arm) or self._is_baseline(arm):
            return plain
        block, setting = arm.block, arm.setting
        if isinstance(terms.match, fair.Match):
            matched = self._match(name, arm, terms.match)
            if matched is None:
                return plain
            block, setting = matched.block, matched.setting
        return replace(plain, block=block, setting=self._budget(name, arm, block, setting, terms.budget))

    def _is_baseline(self, arm: DesignArm) -> bool:
        beside = self._beside(arm)
        return self.models.treatment(arm.block, arm.setting) == self.models.treatment(beside.block, beside.setting)

    def tokens(self, name: str, arms: Sequence[DesignArm]) -> str:
        """Describe what an equal number of tokens is."""
        if len({arm.size for arm in arms}) > 1:
            return f"{name or 'equal tokens'}: at each size, as many tokens for every block as for the baseline"
        baseline = self._baseline(arms[0])
        steps, batches = baseline.steps, f"{baseline.steps:,} steps × {baseline.batch:,} sequences"
        if baseline.ramp is not None:
            grown = f"{baseline.ramp.from_:,} to {baseline.batch:,} sequences, {baseline.sequences(steps):,} in all"
            batches = f"{steps:,} steps of {grown},"
        number = f"{batches} × {baseline.context:,} tokens"
        alike = all(self._tokens_like_baseline(arm) for arm in arms)
        rest = ", the same as equal steps" if alike else "; where the batch or the context differs, the steps follow"
        tokens = baseline.sequences(steps) * baseline.context
        return f"{name or 'equal tokens'}: {number} = {tokens:,} tokens for every block{rest}"

    def _tokens_like_baseline(self, arm: DesignArm) -> bool:
        """Return whether each step of an arm has as many tokens as the baseline's."""
        changed, baseline = self.models.at(arm.changes), self._baseline(arm)
        tokens = changed.recipe.batch * changed.model.context
        return (tokens, changed.recipe.batch_ramp) == (baseline.tokens, baseline.ramp)

    def _costs_the_same(self, terms: fair.Terms, arm: DesignArm) -> bool:
        """Return whether these terms leave the arm as it is, whatever its block."""
        return terms.plain and (terms.budget == "steps" or self._tokens_like_baseline(arm))

    def _training(self, block: Block, setting: Setting) -> Training:
        changed = self.models.at(setting.changes)
        return Training(
            steps=changed.recipe.steps,
            batch=changed.recipe.batch,
            context=changed.model.context,
            cost=self.models.cost(block, setting),
            pace=self.known.paces.get(self.models.as_written(block, setting)),
            ramp=changed.recipe.batch_ramp,
        )

    def _match(self, name: str, arm: DesignArm, terms: fair.Match) -> Matched | None:
        key = arm.block, arm.changes, terms
        if key not in self._matched:
            self._matched[key] = match(arm, self._baseline(arm).cost.parameters, terms, self.models)
        matched = self._matched[key]
        if matched is None or not matched.within:
            self._report_unmatched(name, arm, terms, matched)
            return None
        text = f"{matched.what}, parameters {compared(matched.parameters, matched.wanted)}"
        self.notes.append(f"{_named(arm, name)}: {text}")
        return matched

    def _report_unmatched(self, name: str, arm: DesignArm, terms: fair.Match, nearest: Matched | None) -> None:
        space = self.models.space
        against = f"{arm.name} cannot be matched to {space.judge.against} in parameters by {terms.by}"
        if nearest is not None:
            why = f"the nearest is {nearest.what}, {compared(nearest.parameters, nearest.wanted)}"
        elif terms.by == fair.HIDDEN:
            why = "it has no MLP whose hidden width can be matched"
        else:
            why = f"it cannot be built at any other {terms.by}"
        ways = [f"match by {' or '.join(by for by in fair.BYS if by != terms.by)}"]
        if nearest is not None and (share := _rounded_up(abs(nearest.off))) < 1:
            ways.append(f"allow parameters: {_percent(share).replace(' ', '')}")
        self.problems.add(f"{against}: {why}", _place(space, name), notes=(f"{', '.join(ways)}, or set match: none",))

    def _budget(self, name: str, arm: DesignArm, block: Block, setting: Setting, budget: fair.BudgetKind) -> Setting:
        """Return the setting with the steps that the budget gives."""
        here = self._training(block, setting)
        spent = steps_for(budget, here, self._baseline(arm))
        if spent.what:
            self.notes.append(f"{_named(arm, name)}: {spent.what}")
        if spent.steps is None:
            return replace(setting, open=True)
        return replace(setting, steps=None if spent.steps == here.steps else spent.steps)


def _named(arm: DesignArm, terms: str) -> str:
    return f"{arm.name}, {terms}" if terms else arm.name


def _rounded_up(share: float) -> float:
    """Round a share up to one digit of its per cent, or to a whole per cent.

    >>> _rounded_up(0.00131), _rounded_up(0.0421)
    (0.002, 0.05)
    """
    unit = 10.0 ** min(math.floor(math.log10(share)), -2)
    return round(math.ceil(share / unit) * unit, 12)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _place(space: Space, name: str) -> Span:
    """Return where the match of these terms is written."""
    own = ("fair", "under", name, "match")
    return (
        space.origins.section(*own) if name and space.origins.written(*own) else space.origins.section("fair", "match")
    )
