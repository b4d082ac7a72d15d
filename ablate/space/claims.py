"""Mistakes of claims that can be seen without a plan: their form, and whether a verdict can speak for and against."""

from __future__ import annotations

from ablate.source.problems import Problems, quote
from ablate.space.documents import FORMS, Expected, Judge, Judged
from ablate.space.metrics import DIRECTIONS, directions
from ablate.space.origin import Origins

EQUIVALENT = "equivalent"
SIGNS = {"positive", "negative"}
WAYS = {
    "of": "such as verdict: better, or verdict: [better, equivalent]",
    "order": "leave verdict out: an order says what is lower",
    "equivalent": "leave verdict out: equivalents say it themselves",
    "correlation": "such as verdict: positive",
}


def check_claims(judge: Judge, origins: Origins, problems: Problems) -> None:
    """Report claims of no form or several, with a verdict that is not of their form, which any verdict confirms, or
    which none can.

    Undecided confirms nothing, so a claim says something if one verdict that can be given speaks against it. Without a
    margin nothing is ever equivalent.
    """
    for position, claim in enumerate(judge.expect):
        metric = judge.metrics.get(claim.metric)
        if metric is None:  # reported where the claim is read
            continue
        _ClaimCheck(claim, metric, position, origins, problems).report()


class _ClaimCheck:
    def __init__(self, claim: Expected, metric: Judged, position: int, origins: Origins, problems: Problems):
        self.claim, self.metric, self.keys = claim, metric, ("judge", "expect", position)
        self.different = set[str](directions(metric.better))
        self.origins, self.problems = origins, problems

    def report(self) -> None:
        """Report what is wrong, the form first."""
        forms = self.claim.forms
        if len(forms) != 1:
            held = f"has {' and '.join(forms)}" if forms else "says nothing of what it is about"
            message = f"the claim {quote(self.claim.claim)} {held}: it takes exactly one of {', '.join(FORMS)}"
            self._add(message, forms[-1] if forms else "", "such as of: op, or order: a < b < c, or equivalent: [a, b]")
            return
        form = forms[0]
        if self._fits(form):
            self._check_names(form)
            self._check_possible(form)

    def _fits(self, form: str) -> bool:
        """Report a verdict that is not of the form of the claim."""
        given = set(self.claim.verdicts)
        wanted = {"of": {*self.different, EQUIVALENT}, "correlation": SIGNS}.get(form, set())
        if given <= wanted and bool(given) == bool(wanted):
            return True
        other = given.intersection(DIRECTIONS).difference(self.different) if form == "of" else set()
        what = "has no verdict" if not given else f"cannot have the verdict {', '.join(sorted(other or given))}"
        why, way = self._of_other_sides() if other else ("", WAYS[form])
        self._add(f"the claim {quote(self.claim.claim)} {what}{why}", "verdict" if given else form, way)
        return False

    def _of_other_sides(self) -> tuple[str, str]:
        """Return why a metric has no such verdict, and which it has: it has a better side, or none."""
        name, better = self.claim.metric, self.metric.better
        way = f"it is {', '.join(directions(better))} or equivalent"
        if better != "none":
            return f": {better} is better of {name}", way
        return f": neither side of {name} is better", f"{way}, unless judge.metrics.{name}.better names a side"

    def _check_names(self, form: str) -> None:
        """Report an order or equivalents of fewer than two variants, or of one variant twice."""
        names = self.claim.variants
        if form in ("order", EQUIVALENT) and (len(names) < 2 or len(set(names)) < len(names) or not all(names)):
            way = "such as order: a < b < c, the lowest first" if form == "order" else "such as equivalent: [a, b, c]"
            self._add(f"the claim {quote(self.claim.claim)} needs two or more different variants", form, way)
        if form == "correlation" and self.claim.correlation == self.claim.metric:
            message = f"the claim {quote(self.claim.claim)} is about the correlation of {self.claim.metric} with itself"
            self._add(message, form, "name another metric")
        by = self.claim.by
        if form == "correlation" and by is not None and not (isinstance(by, float) and by < 1):
            self._add(f"the claim {quote(self.claim.claim)} is about a correlation of {by}", "by", "such as by: 0.5")

    def _check_possible(self, form: str) -> None:
        """Report a claim that every verdict confirms, or none that can be given."""
        unmargined = self.metric.margin == "none"
        expected = {EQUIVALENT} if form == EQUIVALENT else set(self.claim.verdicts)
        why = f", since {self.claim.metric} has no margin" if unmargined else ""
        if form == "of" and (self.different if unmargined else {*self.different, EQUIVALENT}) <= expected:
            message = f"the claim {quote(self.claim.claim)} allows every verdict{why}: whatever is seen, it comes true"
            self._add(message, "verdict", "leave out the verdict that would speak against it")
        elif unmargined and expected == {EQUIVALENT}:
            message = f"the claim {quote(self.claim.claim)} cannot come true: nothing is equivalent{why}"
            way = f"give {self.claim.metric} a margin: judge: {{metrics: {{{self.claim.metric}: {{margin: 1%}}}}}}"
            self._add(message, form if form == EQUIVALENT else "verdict", way)

    def _add(self, message: str, key: str, way: str) -> None:
        place = self.origins.value(*self.keys, key) if key else self.origins.key(*self.keys)
        self.problems.add(message, place, notes=(way,))
