"""Accounts: how each comparison of a plan is judged now, given the earlier judgements in a results folder.

At data that it was judged at (numbers, seeds, margin, evaluation and confidence) a comparison is settled. At other data
it is judged again, and interim analyses that were begun go on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from ablate.block.normal_form import digest
from ablate.output.words import spoken
from ablate.plan.plan import Factors, Plan, training_of
from ablate.space.judge import Judge
from ablate.statistics.multiple_testing import SHARE_LEFT, spent
from ablate.store import records as kept
from ablate.store.documents import AccountDocument, EffectDocument, Question, Specification, trained_as, trial_document
from ablate.store.durable import JsonObject
from ablate.store.records import KeptDesign, questions_in_order
from ablate.store.snapshot import Snapshot
from ablate.verdict.contrasts import (
    Compared,
    Contrast,
    ContrastSource,
    JudgedDesign,
    JudgedRun,
    Unit,
    comparison_id,
    comparison_key,
    contrasts,
    is_tested_on,
)
from ablate.verdict.experiment import RESULTS, Final, Finals, Seed
from ablate.verdict.interim import variants_of
from ablate.verdict.judgement import (
    FOUND,
    Account,
    ComparisonAccount,
    EarlierVerdict,
    Family,
    NextJudgement,
    State,
    any_false,
    effect_of,
    families,
    how_measured,
    measured_alone,
    renamed,
    turned,
)

# Earlier judgements of each comparison, whatever question, space, seeds or names they came with. Those of versions that
# kept one account for the whole question are read through their plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierJudgement:
    question: Question
    account: AccountDocument
    effect: EffectDocument

    @property
    def unit(self) -> Unit:
        return Unit(self.account["comparison"], self.account["of"])

    @property
    def tested(self) -> bool:
        """False where it was settled then."""
        return self.account["state"] != "settled"


@dataclass(frozen=True)
class AskedBefore:
    questions: tuple[Question, ...]
    snapshot: Snapshot

    @cached_property
    def past(self) -> tuple[EarlierJudgement, ...]:
        return tuple(past for question in self.questions for past in self.of_one(question))

    @cached_property
    def of(self) -> Mapping[Unit, tuple[EarlierJudgement, ...]]:
        judged: dict[Unit, tuple[EarlierJudgement, ...]] = {}
        for past in self.past:
            judged[past.unit] = (*judged.get(past.unit, ()), past)
        return judged

    @cached_property
    def families(self) -> tuple[frozenset[Unit], ...]:
        """The comparisons of each question so far: all ever judged in one family, directly or through others."""
        families: list[frozenset[Unit]] = []
        for question in self.questions:
            own = frozenset(past.unit for past in self.of_one(question))
            families = joined(families, own)
        return tuple(families)

    def until(self, question: Question) -> AskedBefore:
        return AskedBefore(self.questions[: self.questions.index(question)], self.snapshot)

    @cached_property
    def trainings(self) -> Mapping[Unit, frozenset[tuple[str, str]]]:
        return {unit: frozenset(past[0].account["trained"].items()) for unit, past in self.of.items()}

    def of_comparison(self, compared: Compared, id: str, metric: str) -> tuple[EarlierJudgement, ...]:
        """The judgements of a comparison; those whose plan is lost are known by its `id` in the plan."""
        unit = compared.on(metric)
        return (*self.of.get(Unit(id, unit.measured), ()), *self.of.get(unit, ()))

    def of_one(self, question: Question) -> tuple[EarlierJudgement, ...]:
        if "accounts" in question:
            effects = {(effect["comparison"], effect["metric"]): effect for effect in question["effects"]}
            return tuple(
                EarlierJudgement(
                    question=question, account=account, effect=effects[account["comparison"], account["metric"]]
                )
                for account in question["accounts"]
                if (account["comparison"], account["metric"]) in effects
            )
        return tuple(_of_earlier_version(question, self._contrasts(question)))

    def _contrasts(self, question: Question) -> Mapping[str, Compared]:
        """The contrasts of an earlier version's plan, by the ids that it has for them."""
        plans = self.snapshot.plans
        space, *_ = question["spaces"]
        of_space = plans.of_space.get(space, ())
        plan = next((plan for plan in of_space if plan.id == question["plan"]), of_space[-1] if of_space else None)
        if plan is None:
            return {}
        document = plan.document
        trials = [plans.specifications[trial] for trial, *_ in document["trials"] if trial in plans.specifications]
        return {comparison_id(each): compared for each, compared in compared_in(KeptDesign(document), trials).items()}


def asked_of(snapshot: Snapshot) -> AskedBefore:
    return AskedBefore(questions_in_order(snapshot.judgements), snapshot)


def joined(families: Iterable[frozenset[Unit]], own: frozenset[Unit]) -> list[frozenset[Unit]]:
    """The families, of which those that share a comparison with `own` are one, with it."""
    apart = [family for family in families if family.isdisjoint(own)]
    return [*apart, own.union(*(family for family in families if not family.isdisjoint(own)))]


def compared_in(design: ContrastSource, trials: Iterable[Specification]) -> dict[Contrast, Compared]:
    judged = [trial for trial in trials if trial["split"] == "verdict" and trial["salt"] == 0]
    first = {str(trial["variant"]): trial for trial in reversed(judged)}
    trained = {variant: trained_as(trial) for variant, trial in first.items()}
    return compared_as(design, trained, {variant: str(trial["corpus"]) for variant, trial in first.items()})


def compared_as(
    design: ContrastSource, trained: Mapping[str, str], texts: Mapping[str, str]
) -> dict[Contrast, Compared]:
    factors: dict[object, Factors] = {each.runs: each for _, each in design.factors}
    compared: dict[Contrast, Compared] = {}
    for question in contrasts(design):
        if question is None:
            continue
        own = {variant: trained.get(variant, "") for variant in variants_of(question)}
        corpora = frozenset(texts[variant] for variant in own if variant in texts)
        key, sign = comparison_key(question, own, factors)
        compared[question] = Compared(key=key, sign=sign, trained=own, corpora=corpora)
    return compared


def _of_earlier_version(question: Question, known: Mapping[str, Compared]) -> Iterator[EarlierJudgement]:
    family = len({(effect["comparison"], effect["metric"]) for effect in question["effects"]})
    sizes = {name: sum(e["metric"] == name for e in question["effects"]) for name in question["metrics"]}
    for effect in question["effects"]:
        # Where the plan is lost, what was compared is known by its variants alone.
        compared = known.get(effect["comparison"], Compared(key=effect["comparison"], trained={}, corpora=frozenset()))
        metric = effect["metric"]
        account: AccountDocument = {
            "comparison": compared.key,
            "sign": compared.sign,
            "metric": metric,
            "of": compared.on(metric).measured,
            "trained": compared.trained,
            "measured": "",
            "data": "",
            "state": "new" if question["number"] == 1 else "again",
            "number": question["number"],
            "before": question["before"],
            "left": question["left"],
            "family": family if question["family"] == "page" else sizes[metric],
        }
        yield EarlierJudgement(question=question, account=account, effect=effect)


# The account of each comparison as it is asked now.


def account_of(
    design: Plan | JudgedDesign, finals: Finals, *, rules: Judge, folder: Path, reading: bool = False
) -> Account:
    """The account of each comparison of a design, by the judgements that a folder keeps.

    If only `reading`, new data give no verdicts: else one could look at any number of seeds.
    """
    every = asked_of(Snapshot(folder))
    design = judged_design(design)
    account: dict[str, NextJudgement] = {}
    for family in families(design, rules):
        asking = _Asking(design, finals, rules, family)
        same = [question for question in every.questions if asking.is_same(question)]
        held = asking.as_then(every, same[-1]) if same else asking.anew(every)
        account |= dict.fromkeys(family.metrics, replace(held, counted=bool(same) or not reading))
    return account


def judged_design(design: Plan | JudgedDesign) -> JudgedDesign:
    """The identity of a plan's questions; of trials, only those for the verdict count."""
    if isinstance(design, JudgedDesign):
        return design
    plan = design
    parts: dict[int, JsonObject] = {}
    trials = [trial for trial in plan.trials if trial.split == "verdict" and trial.salt == 0]
    first = {trial.variant: trial for trial in reversed(trials)}
    evaluation = plan.trials[0].work.measure.evaluation if plan.trials else None
    return JudgedDesign(
        baseline=plan.baseline,
        comparisons=plan.comparisons,
        factors=plan.factors,
        ladders=plan.ladders,
        seeds=plan.seeds,
        looks=plan.looks,
        trained={variant: training_of(trial) for variant, trial in first.items()},
        compared=compared_in(plan, [trial_document(trial, parts) for trial in first.values()]),
        runs=[JudgedRun(variant=trial.variant, seed=trial.seed, id=trial.id) for trial in trials],
        evaluation=evaluation and evaluation.windows,
        every=evaluation and evaluation.every,
    )


def account_documents(
    design: JudgedDesign, rules: Judge, finals: Finals, family: Family, held: NextJudgement
) -> list[AccountDocument]:
    asking = _Asking(design, finals, rules, family)
    documents: list[AccountDocument] = []
    for name, id, compared in asking.places:
        account = held.of(name, id)
        spends = 0.0 if account.state == "settled" else spent(account.left, looks=bool(design.looks))
        documents.append(
            {
                "comparison": compared.key,
                "sign": compared.sign,
                "metric": name,
                "of": compared.on(name).measured,
                "trained": compared.trained,
                "measured": measured_alone(design, rules, name),
                "data": asking.data(compared, name),
                "state": account.state,
                "number": account.number,
                "before": account.left,
                "left": account.left - spends,
                "family": held.tests or 1,
            }
        )
    return documents


@dataclass(frozen=True)
class _Asking:
    design: JudgedDesign
    finals: Finals
    rules: Judge
    family: Family

    @cached_property
    def places(self) -> tuple[tuple[str, str, Compared], ...]:
        return tuple(
            (name, id, self.design.compared[contrast])
            for id, contrast in self.family.comparisons.items()
            for name in self.family.metrics
            if is_tested_on(contrast, name)
        )

    @cached_property
    def ended(self) -> frozenset[tuple[str, Seed]]:
        return self.design.with_result(self.finals)

    @cached_property
    def ends(self) -> Mapping[str, Sequence[tuple[Seed, Final | None]]]:
        ends: dict[str, list[tuple[Seed, Final | None]]] = {}
        seeds = frozenset(self.design.seeds)
        for run in self.design.runs:
            if run.seed in seeds:
                ends.setdefault(run.variant, []).append((run.seed, self.finals.get(run.id)))
        return {variant: sorted(of, key=lambda end: end[0]) for variant, of in ends.items()}

    def data(self, compared: Compared, name: str) -> str:
        """A hash of the numbers that a comparison is judged by; "" with looks, whose seeds are added."""
        if self.design.looks:
            return ""
        metric = compared.on(name).measured
        return digest(
            [
                [variant, seed, end["status"], repr(end["metrics"].get(metric, end["metrics"].get(name)))]
                for variant in sorted(compared.trained)
                for seed, end in self.ends.get(variant, ())
                if end is not None and end["status"] in RESULTS
            ]
        )

    @cached_property
    def measured(self) -> str:
        return how_measured(self.design, self.rules, self.family.metrics)

    @cached_property
    def units(self) -> frozenset[Unit]:
        return frozenset(compared.on(name) for name, _, compared in self.places)

    @cached_property
    def trainings(self) -> frozenset[tuple[str, str]]:
        return frozenset(each for _, _, compared in self.places for each in compared.trained.items())

    def is_same(self, question: Question) -> bool:
        now = kept.basis(self.design.seeds, self.design.looks, self.measured)
        if question["question"] != self.family.id or kept.basis_of(question) != now or not self._at_alpha(question):
            return False
        then = {(each["comparison"], each["metric"]): each["data"] for each in question.get("accounts", ())}
        if any(then.get((own.key, name), "") not in ("", self.data(own, name)) for name, _, own in self.places):
            return False
        return bool(self.design.looks) or self.ended.isdisjoint(map(tuple, question["without"]))

    def _at_alpha(self, question: Question) -> bool:
        return math.isclose(question["alpha"], 1 - self.rules.confidence, rel_tol=1e-9)

    def as_then(self, every: AskedBefore, question: Question) -> NextJudgement:
        before = every.until(question)
        documents = [past.account for past in every.of_one(question)]
        then = {(each["comparison"], each["metric"]): each for each in documents}
        accounts = {}
        for name, id, compared in self.places:
            document = then.get((compared.key, name)) or then.get((id, name))  # by its id where its plan is lost
            if document is not None:
                past, state = before.of_comparison(compared, id, name), document["state"]
                accounts[name, id] = ComparisonAccount(
                    state=state,
                    number=document["number"],
                    left=document["before"],
                    earlier=self._earlier(state, compared, past, name),
                )
        return self._held(before, accounts, max((each["family"] for each in then.values()), default=1))

    def anew(self, every: AskedBefore) -> NextJudgement:
        accounts = {}
        known = {(name, id): every.of_comparison(compared, id, name) for name, id, compared in self.places}
        of_folder = self._of_folder(every) if self.rules.budget == "folder" else (1, 1.0)
        for name, id, compared in self.places:
            past = known[name, id]
            account = self._account_now(compared, past, name)
            if account.state in ("new", "again"):
                number, left = of_folder
                account = replace(account, number=max(number, account.number), left=min(left, account.left))
            accounts[name, id] = replace(account, earlier=self._earlier(account.state, compared, past, name))
        beside = self._question(every) - self.units
        largest = max((each.account["family"] for past in known.values() for each in past), default=1)
        return self._held(every, accounts, max(len(accounts) + len(beside), largest))

    def _held(
        self, before: AskedBefore, accounts: Mapping[tuple[str, str], ComparisonAccount], family: int
    ) -> NextJudgement:
        alpha, looks = 1 - self.rules.confidence, bool(self.design.looks)
        basis = kept.basis(self.design.seeds, self.design.looks, "")
        now = [
            ((compared.on(name), account.number, basis), alpha * spent(account.left, looks=looks) / family)
            for name, id, compared in self.places
            if (account := accounts.get((name, id))) is not None and account.state != "settled"
        ]
        question = self._question(before)
        others = [each for each in before.families if each.isdisjoint(question) and self._shares(before, each)]
        so_far = sum(_most([*_spent_in(before, question), *now]))
        return NextJudgement(
            question=self.family.id,
            number=max((account.number for account in accounts.values()), default=1),
            tests=family,
            accounts=accounts,
            so_far=so_far,
            questions=1 + len(others),
            among=any_false([so_far, *(sum(_most(_spent_in(before, each))) for each in others)]),
        )

    def _question(self, before: AskedBefore) -> frozenset[Unit]:
        return joined(before.families, self.units)[-1]

    def _shares(self, before: AskedBefore, others: Iterable[Unit]) -> bool:
        measured = {unit.measured for unit in self.units}
        return any(
            unit.measured in measured and not self.trainings.isdisjoint(before.trainings[unit]) for unit in others
        )

    def _of_folder(self, every: AskedBefore) -> tuple[int, float]:
        """The number of a judgement among all that share a training, directly or through others, and the α left."""
        measured, known = {unit.measured for unit in self.units}, set(self.trainings)
        beside = {unit for unit in every.of if unit.measured in measured}
        while more := {unit for unit in beside if not known.isdisjoint(every.trainings[unit])}:
            known |= {training for unit in more for training in every.trainings[unit]}
            beside -= more
        own = [
            past
            for unit, pasts in every.of.items()
            if unit.measured in measured and not known.isdisjoint(every.trainings[unit])
            for past in pasts
            if past.tested
        ]
        together: dict[kept.JudgementKey, set[Judged]] = {}
        for past in own:
            together.setdefault(kept.key_of(past.question), set()).add((past.unit, past.account["number"], _seen(past)))
        judged = len({frozenset(of_one) for of_one in together.values()})
        return 1 + judged, min([SHARE_LEFT**judged, *(past.account["left"] for past in own)])

    def _account_now(self, compared: Compared, past: Sequence[EarlierJudgement], name: str) -> ComparisonAccount:
        if not past:
            return ComparisonAccount()
        same = [each.account for each in past if each.tested and self._same_data(each, compared, name)]
        if same and self.design.looks:
            return ComparisonAccount(state="continued", number=same[-1]["number"], left=same[-1]["before"])
        if same:
            return ComparisonAccount(state="settled", number=same[-1]["number"], left=same[-1]["left"])
        return ComparisonAccount(
            state="again",
            number=1 + max(each.account["number"] for each in past),
            left=min(each.account["left"] for each in past),
        )

    def _same_data(self, past: EarlierJudgement, compared: Compared, name: str) -> bool:
        question, design, rules = past.question, self.design, self.rules
        if list(design.looks) != list(question["looks"]) or not self._at_alpha(question):
            return False
        if past.account["measured"]:
            measured = past.account["measured"] == measured_alone(design, rules, name)
        else:
            known = set(question["metrics"]) <= set(rules.metrics)
            measured = known and question["measured"] == how_measured(design, rules, question["metrics"])
        if not measured or design.looks:
            return measured
        if set(design.seeds) != set(question["seeds"]):
            return False
        if past.account["data"]:
            return past.account["data"] == self.data(compared, name)
        without = {(variant, seed) for variant, seed in question["without"] if variant in compared.trained}
        return self.ended.isdisjoint(without)

    def _earlier(
        self, state: State, compared: Compared, past: Sequence[EarlierJudgement], name: str
    ) -> EarlierVerdict | None:
        if state != "settled":
            return self._standing_finding(past, compared, name)
        same = [each for each in past if each.tested and self._same_data(each, compared, name)]
        return self._as_now(same[-1], compared, name, same[-1].effect["note"]) if same else None

    def _standing_finding(
        self, past: Sequence[EarlierJudgement], compared: Compared, name: str
    ) -> EarlierVerdict | None:
        """The earlier finding of a comparison that stands, with the note of the judgement that made it first.

        A difference stands until a later judgement contradicts it, an equivalence only for the margin declared then:
        judgements under another margin neither confirm nor contradict it. Findings at a lower confidence than that of
        now do not stand.
        """
        alpha = (1 - self.rules.confidence) * (1 + 1e-9)
        tested = [each for each in past if each.tested and each.question["alpha"] <= alpha]
        different: EarlierVerdict | None = None
        equivalent: EarlierVerdict | None = None
        for each in tested:
            metric = each.account["metric"]
            margin = each.question["judged"][metric]["margin"]
            alike = (margin, metric) == (self.rules.metrics[name].margin, name)
            number = each.effect.get("judgement") or each.account["number"]
            first = next((one for one in tested if one.account["number"] == number), each)
            given = self._as_now(each, compared, name, first.effect["note"], first.question)
            if given.effect.verdict == "equivalent":
                equivalent = given if alike else equivalent
            elif given.effect.verdict in FOUND:
                different = given
            else:
                different, equivalent = None, None if alike else equivalent
        if equivalent is None:
            return different
        differs = equivalent.effect.differs or different is not None
        return replace(equivalent, effect=replace(equivalent.effect, differs=differs))

    def _as_now(
        self, past: EarlierJudgement, compared: Compared, name: str, note: str, of: Question | None = None
    ) -> EarlierVerdict:
        """The verdict of a judgement in the direction that its contrast and its metric have now."""
        effect, first, metric = replace(effect_of(past.effect), note=note), of or past.question, past.account["metric"]
        then, now = past.question["judged"][metric], self.rules.metrics[name]
        elsewhere = []
        if past.account["sign"] != compared.sign:
            effect = turned(effect)
        if metric != name:
            elsewhere.append(f"on {spoken(metric)}")
        effect = renamed(effect, then["better"], now.better)
        if effect.kind != "trend" and then["scale"] != now.scale:
            elsewhere.append(f"on the {then['scale']} scale")
        seeds = effect.ranked or effect.n if first["looks"] else len(first["seeds"])
        return EarlierVerdict(effect=effect, seeds=seeds, elsewhere=", ".join(elsewhere))


Judged: TypeAlias = tuple[Unit, int, kept.Basis]
"""A judgement of a comparison: which one, and at which seeds or looks, whichever of metrics that are functions of one
another it was on; two may have one number where a bundle was loaded."""


def _seen(past: EarlierJudgement) -> kept.Basis:
    return kept.basis(past.question["seeds"], past.question["looks"], "")


def _spent_in(before: AskedBefore, question: Collection[Unit]) -> Iterator[tuple[Judged, float]]:
    for unit in question:
        for past in before.of.get(unit, ()):
            if past.tested:
                account = past.account
                share = (account["before"] - account["left"]) / account["family"]
                yield (unit, account["number"], _seen(past)), past.question["alpha"] * share


def _most(tests: Iterable[tuple[Judged, float]]) -> Iterable[float]:
    """The largest level of each judgement, where looks went on over a larger family."""
    levels: dict[Judged, float] = {}
    for judged, level in tests:
        levels[judged] = max(level, levels.get(judged, 0.0))
    return levels.values()
