"""The judgements of each comparison that a folder keeps, whatever question, space, seeds or names it came with.

A judgement keeps the account of each of its comparisons. Those of versions that kept only one for the whole question
are read through the plan that they are of, which has the contrasts and how variants were trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ablate.plan.plan import Factors
from ablate.store.documents import AccountDocument, EffectDocument, Question, Specification
from ablate.store.judgements import in_order
from ablate.store.kept_design import KeptDesign
from ablate.store.serialise import trained_as
from ablate.store.snapshot import Snapshot
from ablate.verdict.comparison_key import Unit, comparison_id, key_of
from ablate.verdict.contrasts import Contrast, ContrastSource, contrasts
from ablate.verdict.interim import variants_of
from ablate.verdict.judged_design import Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A judgement of a comparison: the judgement that it was part of, how it stood, and its effect."""

    question: Question
    account: AccountDocument
    effect: EffectDocument

    @property
    def unit(self) -> Unit:
        return Unit(self.account["comparison"], self.account["of"])

    @property
    def tested(self) -> bool:
        """Return whether it was tested then, not settled."""
        return self.account["state"] != "settled"


@dataclass(frozen=True)
class AskedBefore:
    """The judgements that a folder keeps, in the order in which they were first made."""

    questions: tuple[Question, ...]
    snapshot: Snapshot

    @cached_property
    def past(self) -> tuple[Past, ...]:
        """Every judgement of every comparison."""
        return tuple(past for question in self.questions for past in self.of_one(question))

    @cached_property
    def of(self) -> Mapping[Unit, tuple[Past, ...]]:
        """The judgements of each comparison."""
        judged: dict[Unit, tuple[Past, ...]] = {}
        for past in self.past:
            judged[past.unit] = (*judged.get(past.unit, ()), past)
        return judged

    @cached_property
    def families(self) -> tuple[frozenset[Unit], ...]:
        """The comparisons of each question so far: all that were ever judged in one family, or through others."""
        families: list[frozenset[Unit]] = []
        for question in self.questions:
            own = frozenset(past.unit for past in self.of_one(question))
            families = joined(families, own)
        return tuple(families)

    def until(self, question: Question) -> AskedBefore:
        """Return the judgements that were made before this one was for the first time."""
        return AskedBefore(self.questions[: self.questions.index(question)], self.snapshot)

    @cached_property
    def trainings(self) -> Mapping[Unit, frozenset[tuple[str, str]]]:
        """The variants of each comparison, and how they are trained."""
        return {unit: frozenset(past[0].account["trained"].items()) for unit, past in self.of.items()}

    def of_comparison(self, compared: Compared, id: str, metric: str) -> tuple[Past, ...]:
        """Return the judgements of a comparison; those whose plan is lost are known by its `id` in the plan."""
        unit = compared.on(metric)
        return (*self.of.get(Unit(id, unit.measured), ()), *self.of.get(unit, ()))

    def of_one(self, question: Question) -> tuple[Past, ...]:
        """Return the judgements of each comparison of a question."""
        if "accounts" in question:
            effects = {(effect["comparison"], effect["metric"]): effect for effect in question["effects"]}
            return tuple(
                Past(question=question, account=account, effect=effects[account["comparison"], account["metric"]])
                for account in question["accounts"]
                if (account["comparison"], account["metric"]) in effects
            )
        return tuple(_of_earlier_version(question, self._contrasts(question)))

    def _contrasts(self, question: Question) -> Mapping[str, Compared]:
        """Return the contrasts of the plan of a judgement of an earlier version, by the ids that it has for them."""
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
    """Return the judgements that a folder keeps."""
    return AskedBefore(in_order(snapshot.judgements), snapshot)


def joined(families: Iterable[frozenset[Unit]], own: frozenset[Unit]) -> list[frozenset[Unit]]:
    """Return the families, of which those that share a comparison with `own` are one, with it."""
    apart = [family for family in families if family.isdisjoint(own)]
    return [*apart, own.union(*(family for family in families if not family.isdisjoint(own)))]


def compared_in(design: ContrastSource, trials: Iterable[Specification]) -> dict[Contrast, Compared]:
    """Return the key of each contrast of a design whose variants have these trials, and how they are trained."""
    judged = [trial for trial in trials if trial["split"] == "verdict" and trial["salt"] == 0]
    first = {str(trial["variant"]): trial for trial in reversed(judged)}
    trained = {variant: trained_as(trial) for variant, trial in first.items()}
    return compared_as(design, trained, {variant: str(trial["corpus"]) for variant, trial in first.items()})


def compared_as(
    design: ContrastSource, trained: Mapping[str, str], texts: Mapping[str, str]
) -> dict[Contrast, Compared]:
    """Return the key of each contrast of a design whose variants are trained as these hashes say, on these texts."""
    factors: dict[object, Factors] = {each.runs: each for _, each in design.factors}
    compared: dict[Contrast, Compared] = {}
    for question in contrasts(design):
        if question is None:
            continue
        own = {variant: trained.get(variant, "") for variant in variants_of(question)}
        corpora = frozenset(texts[variant] for variant in own if variant in texts)
        key, sign = key_of(question, own, factors)
        compared[question] = Compared(key=key, sign=sign, trained=own, corpora=corpora)
    return compared


def _of_earlier_version(question: Question, known: Mapping[str, Compared]) -> Iterator[Past]:
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
        yield Past(question=question, account=account, effect=effect)
