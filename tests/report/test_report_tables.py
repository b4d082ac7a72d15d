"""The screens, word for word, in every degenerate case: `golden/*.txt`.

After a change that means to move them, `pytest --update-goldens` writes them anew; read the diff.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from report_fixtures import LOSS, PEAK, TOKENS, finals, losses, path, rules
from rich.console import Console
from rich.text import Text

from ablate.report import wording
from ablate.report.document import ReportDocument
from ablate.report.json_form import plan_to_json, to_json
from ablate.report.screens.plan import plan_screen
from ablate.report.screens.result import result_screen
from ablate.report.terminal_renderer import STYLES, Screen
from ablate.verdict.judge import judge
from ablate.verdict.summary import Summary, Verdict

pytestmark = pytest.mark.fast

GOLDEN = Path(__file__).parent / "golden"
QUESTION = "Does the Outlier Protected block keep Pre-LN's loss with lower kurtosis, and which of its edits matters?"
EDITS = ("qk_norm", "gain=1/sqrt(2*depth)", "no layer_norm")
DEFINITIONS = {
    "eval_loss": "mean cross-entropy in nats over the held-out windows",
    "peak_kurtosis": "largest kurtosis of neuron RMS over layers and steps",
}
# Seeds share their noise, as they do when batches and initialisation are paired.
SHARED = (0.011, -0.018, 0.004, 0.021, -0.009)
WOBBLE = ((0, 0, 0, 0, 0), (3, -4, 1, 2, -2), (-2, 1, 4, -3, 2), (1, 3, -4, -1, 0))


def ends_of_path(loss=(2.31, 2.282, 2.285, 2.309), peak=(3.0, 2.9, 1.8, 1.4), tokens=(0.40, 0.41, 0.35, 0.36)):
    """Finals of the path over `EDITS`: five seeds with a little noise of their own."""
    return {
        f"v{i}": [
            {
                "eval_loss": loss[i] + shared + 0.001 * wobble,
                "peak_kurtosis": peak[i] * math.exp(0.02 * wobble + shared),
                "token_correlation": tokens[i] + 0.003 * wobble + 0.2 * shared,
            }
            for shared, wobble in zip(SHARED, WOBBLE[i], strict=True)
        ]
        for i in range(4)
    }


def full() -> Summary:
    plan = path(*EDITS, question=QUESTION, notes=("edits are ordered with stabilisers first",))
    judged = rules(eval_loss=LOSS, peak_kurtosis=PEAK, token_correlation=TOKENS)
    return judge(plan, judged, finals(ends_of_path()))


def single(before, after, seeds: int | None = None) -> Summary:
    plan = path("qk_norm", seeds=seeds or max(len(before), len(after)), question="Does QK-norm help?")
    return judge(plan, rules(eval_loss=LOSS, peak_kurtosis=PEAK), finals({"v0": before, "v1": after}))


def with_peak(*losses_and_peaks: tuple[float, float]) -> list[dict[str, float]]:
    return [{"eval_loss": loss, "peak_kurtosis": peak} for loss, peak in losses_and_peaks]


BEFORE = with_peak((2.31, 3.0), (2.29, 3.3), (2.33, 2.7), (2.30, 3.1), (2.32, 2.9))
AFTER = with_peak((2.28, 1.5), (2.27, 1.4), (2.301, 1.6), (2.262, 1.45), (2.30, 1.5))


def some_diverged() -> Summary:
    ends = ends_of_path()
    for variant, seeds in {"v2": (2,), "v3": (2, 4)}.items():
        ends[variant] = ["diverged" if seed in seeds else end for seed, end in enumerate(ends[variant], start=1)]
    judged = rules(eval_loss=LOSS, peak_kurtosis=PEAK, token_correlation=TOKENS)
    return judge(path(*EDITS, question=QUESTION), judged, finals(ends))


def long_names(step: float = 0.02) -> Summary:
    """The longest name of a metric that ships, and an n in brackets: of thirteen seeds one has no baseline."""
    longest = "peak_kurtosis_behind_norms"
    values = [{longest: 3.0 + 0.011 * seed, "peak_token_cosine": 0.4 - 0.003 * seed} for seed in range(13)]
    after = [
        {longest: x[longest] * (0.9, 1.15)[i % 2], "peak_token_cosine": x["peak_token_cosine"] - step * (1 + i % 3)}
        for i, x in enumerate(values)
    ]
    plan = path("qk_norm", seeds=13, question="Does QK-norm help?")
    judged = rules(**{longest: PEAK, "peak_token_cosine": TOKENS})
    return judge(plan, judged, finals({"v0": [*values[:12], "bug"], "v1": after}))


def plan_with_folds() -> tuple[object, ...]:
    plan = path(*EDITS, question=QUESTION, notes=("2 half-way models are the same and folded",))
    variants = list(plan.variants)
    fields = {name: getattr(variants[-1], name) for name in variants[-1].__slots__}
    variants[-1] = type(variants[-1])(**{**fields, "names": ("op", "pre_ln + everything")})
    plan = type(plan)(**{**{f: getattr(plan, f) for f in plan.__slots__}, "variants": tuple(variants)})
    known = {trial.id for trial in plan.trials if trial.variant != "v3" or trial.seed < 3}
    everything = {trial.id for trial in plan.trials}
    return plan_screen(plan, ()), plan_screen(plan, known, seconds=102.0), plan_screen(plan, everything)


SCREENS = {
    "full_80": (80, full),
    "full_100": (100, full),
    "full_120": (120, full),
    "long_names_80": (80, long_names),
    "long_names_100": (100, long_names),
    "some_diverged_100": (100, some_diverged),
    "nothing_run_100": (100, lambda: single([None] * 5, [None] * 5)),
    "one_seed_100": (100, lambda: single(BEFORE[:1], AFTER[:1])),
    "two_seeds_100": (100, lambda: single(BEFORE[:2], AFTER[:2])),
    "all_diverged_after_100": (100, lambda: single(BEFORE, ["diverged"] * 5)),
    "all_diverged_before_100": (100, lambda: single(["diverged"] * 5, AFTER)),
    "all_diverged_80": (80, lambda: single(["diverged"] * 5, ["diverged"] * 5)),
    "unequal_seeds_100": (100, lambda: single([*BEFORE[:3], "bug", None], [*AFTER[:4], "out_of_memory"])),
    "zero_variance_100": (100, lambda: single(with_peak(*[(2.3, 3.0)] * 6), with_peak(*[(2.2, 1.5)] * 6))),
    "ties_100": (100, lambda: single(BEFORE, BEFORE)),
    "nothing_compared_80": (
        80, lambda: judge(path(seeds=2), rules(eval_loss=LOSS), finals({"v0": losses(2.3, 2.4)}))
    ),
}  # fmt: skip


def render(document: ReportDocument, width: int, *, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, color_system="truecolor" if colour else None
    )
    console.print(Screen(document))
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def shown(name: str) -> str:
    width, world = SCREENS[name]
    return render(result_screen(world(), DEFINITIONS), width)


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name, golden):
    golden(GOLDEN / f"{name}.txt", shown(name))


@pytest.mark.parametrize("width", [80, 100])
def test_plan_tables(width, golden):
    golden(GOLDEN / f"plan_{width}.txt", "\n".join(render(table, width) for table in plan_with_folds()))


@pytest.mark.parametrize("width", [80, 90, 100, 120])
@pytest.mark.parametrize("world", [full, some_diverged, long_names, lambda: long_names(1e-4)])
def test_no_word_of_a_verdict_is_broken_and_no_line_is_cut_off(world, width):
    """Counted in the tables alone; the last world has intervals of five digits."""
    summary = world()
    told = render(result_screen(summary, DEFINITIONS), width)
    tables = Counter(told[told.index("\nEdits,") : told.index("\n· ")].split())
    words = Counter(word for effect in summary.effects for word in wording.verdict(effect).split())
    words["baseline"] = len(summary.metrics)
    assert {word: tables[word] for word in words if tables[word] < words[word]} == {}
    assert "…" not in told and all(len(line) <= width for line in told.splitlines())


def test_no_golden_is_left_over():
    plans = {f"{plan}_{width}" for plan in ("plan", "plan_forecast") for width in (80, 100)}
    assert {file.stem for file in GOLDEN.glob("*.txt")} == {*SCREENS, *plans}


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("world", [full, some_diverged])
def test_nothing_is_cut_off(world, width):
    """At every width, each verdict, each difference and each metric of the summary can be read on the screen."""
    text = render(result_screen(world(), DEFINITIONS), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for effect in world().effects:
        assert effect.metric in text
        assert effect.verdict in text


@pytest.mark.parametrize("name", SCREENS)
def test_colour_adds_nothing_but_colour(name):
    width, world = SCREENS[name]
    coloured = render(result_screen(world(), DEFINITIONS), width, colour=True)
    assert "\x1b[" in coloured
    stripped = "".join(line.rstrip() + "\n" for line in Text.from_ansi(coloured).plain.splitlines())
    assert stripped.rstrip() == shown(name).rstrip()


def test_every_verdict_has_its_own_style():
    assert len({STYLES[verdict] for verdict in get_args(Verdict)}) == len(get_args(Verdict)) == 11


def test_the_answer_comes_before_the_numbers():
    text = render(result_screen(full()), 100)
    places = [
        text.index(part) for part in ("Does the Outlier", "• qk_norm: ", "→ op against pre_ln", "Edits,", "Variants,")
    ]
    assert places == sorted(places)


def test_json_has_the_same_content():
    summary = full()
    document = json.loads(to_json(summary, DEFINITIONS))
    assert [arm["name"] for arm in document["arms"]] == [arm.name for arm in summary.arms]
    assert len(document["effects"]) == len(summary.effects) == 18
    for effect, told in zip(summary.effects, document["effects"], strict=True):
        assert (told["verdict"], told["estimate"], told["p_adjusted"]) == (
            effect.verdict,
            effect.estimate,
            effect.p_adjusted,
        )
    assert any("cross-entropy" in line for line in document["definitions"])


@pytest.mark.parametrize("name", SCREENS)
def test_json_is_json_in_every_case(name):
    def refuse(constant: str):
        raise AssertionError(f"{constant} is not JSON")

    json.loads(to_json(SCREENS[name][1]()), parse_constant=refuse)


def test_an_interval_without_bounds_is_null():
    summary = single(BEFORE[:2], [{**end, "eval_loss": end["eval_loss"] + 1} for end in BEFORE[:2]])
    assert math.isinf(summary.effects[0].low)
    assert json.loads(to_json(summary))["effects"][0]["low"] is None


def test_the_plan_as_json_says_what_is_known():
    plan = path("qk_norm", seeds=2)
    trials = json.loads(plan_to_json(plan, {"v0-1"}, seconds=3.0))["trials"]
    assert [trial["id"] for trial in trials if trial["known"]] == ["v0-1"]
    assert len(trials) == 4
