"""The answer to a space's question in sentences: one for each edit, each interaction, and the whole way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType

from ablate.output import words
from ablate.output.terminal import Text
from ablate.report import wording
from ablate.report.once import once, terms_of
from ablate.report.parts import STYLES, new_list
from ablate.verdict.summary import Effect, Summary


def answers(summary: Summary) -> Iterable[RenderableType]:
    """One sentence for each edit and for what edits do together, then one for the whole way from the baseline; last
    what noise does.
    """
    grid = new_list()
    for mark, sentence in sentences(summary):
        grid.add_row(mark, sentence)
    yield grid if grid.row_count else Text("The design compares nothing.")
    yield Text()


def sentences(summary: Summary) -> Iterator[tuple[str, Text]]:
    """Each sentence behind its mark."""
    edits = once([*summary.comparisons("edit"), *summary.comparisons("main")])
    for effects in edits:
        yield "•", _answer(_under(effects[0].change, effects[0], summary), effects, summary)
    yield from _interactions(summary)
    yield from _diverged_runs(summary)
    said = {(effects[0].before, effects[0].after) for effects in edits}
    whole = once(e for e in summary.comparisons("baseline") if (e[0].before, e[0].after) not in said)
    if edits and whole and not summary.factors:
        most = max(len(summary.arm(effects[0].after).edits) for effects in whole)
        whole = [effects for effects in whole if len(summary.arm(effects[0].after).edits) == most]
    for effects in whole:
        before, after = effects[0].before, effects[0].after
        subject = f"{summary.arm(after).name} against {summary.arm(before).name}"
        terms = terms_of(effects[0], summary)
        if terms and not (len(terms) == 1 and summary.arm(after).name.endswith(f", {terms[0]}")):
            subject = f"{subject} under {words.listed(terms)}"
        yield "→" if edits else "•", _answer(subject, effects, summary)
    for effects in summary.comparisons("noise"):
        parts = [(wording.noise(effect, summary.metric(effect.metric)), "") for effect in effects]
        yield "~", _sentence(f"A/A: {effects[0].change} changed", parts)


def against_baseline(summary: Summary) -> dict[str, str]:
    """What each variant does against the baseline, by its id: a sentence without its subject."""
    whole = once(summary.comparisons("baseline"))
    return {effects[0].after: _answer("", effects, summary).plain.removeprefix(": ") for effects in whole}


def _interactions(summary: Summary) -> Iterator[tuple[str, Text]]:
    """Those about which something was found, and the others in one sentence."""
    nothing: dict[str, list[str]] = {}
    for effects in summary.comparisons("interaction"):
        subject = _under(effects[0].change, effects[0], summary)
        if all(effect.verdict == "undecided" for effect in effects):
            nothing.setdefault(effects[0].terms, []).append(subject)
        else:
            yield "•", _answer(subject, effects, summary)
    for subjects in nothing.values():
        verdict = "whether they do together what they do not apart is undecided"
        yield "•", _sentence("; ".join(subjects), [(verdict, STYLES["undecided"])])


def _diverged_runs(summary: Summary) -> Iterator[tuple[str, Text]]:
    """Of a factorial, how many runs diverged, once for all effects; a sum over variants has its counts in a note."""
    runs = dict.fromkeys(variant for _, factors in summary.factors for variant, _ in factors.runs)
    arms = [summary.arm(variant) for variant in runs]
    if diverged := sum(arm.diverged for arm in arms):
        said = f"{diverged} of {sum(arm.ended for arm in arms)} diverged; differences are of survivors"
        yield "•", _sentence("runs of the factorial", [(said, "")])


def _under(subject: str, effect: Effect, summary: Summary) -> str:
    """A subject with its terms, where several are answered."""
    terms = terms_of(effect, summary)
    return f"{subject} under {words.listed(terms)}" if terms else subject


def _answer(subject: str, effects: Sequence[Effect], summary: Summary) -> Text:
    first = effects[0]
    # What was found comes before what was not.
    found = sorted(effects, key=lambda effect: effect.verdict == "undecided")
    parts = [(wording.phrase(e, summary.metric(e.metric)), STYLES[e.verdict]) for e in found]
    if all(effect.verdict == "diverged" for effect in effects):
        parts = [("cannot be judged (diverged)", STYLES["diverged"])]
    if first.before and first.after:
        before, after = summary.arm(first.before), summary.arm(first.after)
        rest = [wording.fate(before, after), wording.cost(before, after)]
        parts += [(one, "") for one in rest if one]
    return _sentence(subject, parts)


def _sentence(subject: str, parts: Sequence[tuple[str, str]]) -> Text:
    sentence = Text.assemble((subject, "bold"), ": ")
    for i, part in enumerate(parts):
        sentence.append("; " if i else "").append(*part)
    return sentence.append(".")
