"""What a search found, on the terminal and as Markdown, word for word: `searched/*`.

After a change that means to move them, ABLATE_WRITE_EXPECTED=1 writes them anew; read the diff.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from reading import ROOT, transformer
from rich.console import Console
from rich.text import Text
from searched_fixtures import (
    KURTOSIS,
    WORLDS,
    all_diverged,
    confirm,
    confirmed,
    confirmed_nothing,
    confirming,
    entries,
    entry,
    none_better,
    nothing,
    one_goal,
    partial,
    record,
    regressed,
    sixty,
    three_goals,
    ties,
    with_rungs,
)

from ablate.block.expression import print_block
from ablate.execute.search.search_space import UNBUILT
from ablate.plan.build import build_plan
from ablate.report.searched import answer, confirmation, history, rows, sections, to_markdown
from ablate.report.searched.analysis import analyse
from ablate.report.searched.record import Entry, SearchRecord
from ablate.report.searched.sections import DESCRIBED, MOST, screen_blocks, search_screen, to_json
from ablate.report.terminal_renderer import Screen
from ablate.space.load import load_space

GOLDEN = Path(__file__).parent / "searched"
SCREENS = {f"{name}_80": (name, 80) for name in WORLDS if name != "sixty"} | {
    "confirmed_120": ("confirmed", 120),
    "three_goals_120": ("three_goals", 120),
    "sixty_100": ("sixty", 100),
}
PAGES = ("sixty", "with_rungs", "partial")


def screen(found: SearchRecord, width: int, *, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, color_system="truecolor" if colour else None
    )
    console.print(Screen(search_screen(found)))
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def said(found: SearchRecord) -> str:
    return " ".join(answer.answers(found, analyse(found)))


def beware(found: SearchRecord) -> str:
    return " ".join(answer.warnings(found, analyse(found)))


@pytest.mark.fast
@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str, golden) -> None:
    world, width = SCREENS[name]
    golden(GOLDEN / f"{name}.txt", screen(WORLDS[world](), width))


@pytest.mark.fast
@pytest.mark.parametrize("name", PAGES)
def test_markdown(name: str, golden) -> None:
    golden(GOLDEN / f"{name}.md", to_markdown(WORLDS[name]()))


@pytest.mark.fast
def test_no_golden_is_left_over() -> None:
    expected = {f"{name}.txt" for name in SCREENS} | {f"{name}.md" for name in PAGES}
    assert {file.name for file in GOLDEN.iterdir()} == expected


@pytest.mark.sampled(12)
@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", WORLDS)
def test_nothing_is_cut_off(name: str, width: int) -> None:
    found = WORLDS[name]()
    text = screen(found, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    together = "".join(text.split())
    if not analyse(found).compared:
        return
    for one in screen_blocks(found, analyse(found)):
        assert one.name in text
        assert all(value in text and apart in text for value, apart in rows.cells(one, found))
    for one in rows.described(found, analyse(found))[:DESCRIBED]:
        assert all("".join(edit.split()) in together for edit in one.edits)


@pytest.mark.parametrize("name", WORLDS)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    found = WORLDS[name]()
    plain = "".join(line.rstrip() + "\n" for line in Text.from_ansi(screen(found, 80, colour=True)).plain.splitlines())
    assert plain.rstrip() == screen(found, 80).rstrip()


@pytest.mark.fast
def test_what_the_screen_leaves_out_it_counts() -> None:
    line = [entry(0), *(entry(k, ["+qk_norm"], values=(2.0 + k / 100, 2.0 - k / 100)) for k in range(1, 31))]
    text = screen(record(entries=tuple(line)), 80)
    assert f"\nand {30 - MOST} more on the page" in text and f"\nand {30 - DESCRIBED} more on the page" in text
    assert f"p{MOST} " in text and "p13 " not in text
    few = screen(record(entries=tuple(line[: DESCRIBED + 1])), 80)
    assert "more on the page" not in few


@pytest.mark.fast
def test_of_a_long_front_the_chosen_are_shown_and_those_that_beat_the_reference() -> None:
    """By loss the ten that do not beat it come first, and the last of the front was chosen."""
    line = [entry(k, ["+qk_norm"], values=(2.0 + k / 100, 4.0 - k / 10)) for k in range(1, 31)]
    found = record(entries=(entry(0), *line), chosen=("p30",), confirm_seeds=(7,))
    assert [one.name for one in screen_blocks(found, analyse(found))] == [
        "pre_ln",
        "p11",
        "p12",
        "p13",
        "p14",
        "p15",
        "p30",
    ]
    assert rows.described(found, analyse(found))[0].name == "p30"


@pytest.mark.fast
def test_the_answer_is_one_screen_and_the_page_has_the_rest() -> None:
    text, page = screen(sixty(), 100), to_markdown(sixty())
    assert len(text.splitlines()) <= 90
    for left_out in ("entropy: {qk_norm", "Edits on the front", "hypervolume", "nothing → {qk_norm"):
        assert left_out not in text and left_out in page
    assert "What remained" in page and "What remained" not in text


@pytest.mark.fast
def test_the_answer_comes_first() -> None:
    text = screen(confirmed(), 80)
    parts = (
        "Which block keeps",
        "• 8 of the 40",
        "! selection",
        "Pareto front,",
        "Confirmed,",
        "Progress",
        "Next",
        "· eval_loss",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.fast
def test_the_answer_counts_those_better_in_every_objective() -> None:
    assert "8 of the 40 blocks that finished beat pre_ln on both eval loss and peak kurtosis" in said(record())
    assert "at 1 seed each" in said(record()) and "at 2 seeds each" in said(record(seeds=(1, 2)))
    assert "beat pre_ln on eval loss in the search" in said(one_goal())
    assert "on all of eval loss, peak kurtosis and token correlation" in said(three_goals())
    none = said(none_better())
    assert none.startswith("None of the 40 blocks that finished beats pre_ln on both")
    lower = sum(one.values[1] < 3.0 for one in none_better().trained if one.values)
    assert lower > 0 and f"(0 on eval loss, {lower} on peak kurtosis)" in none
    assert said(ties()).startswith("None of the 5 blocks that finished beats pre_ln")


@pytest.mark.fast
def test_without_a_reference_nothing_is_said_to_beat_it() -> None:
    first, *others = entries()
    found = record(entries=(replace(first, outcome="diverged", values=()), *others))
    assert "has no result to compare with (diverged): which blocks beat it is unknown" in said(found)
    assert "8 diverged" in said(found)
    assert analyse(found).beating == ()
    assert "No block finished, so none can be compared with pre_ln. Of 6 blocks trained: 6 diverged" in said(
        all_diverged()
    )
    assert said(nothing()).startswith("Nothing has been trained yet.")


@pytest.mark.fast
def test_what_is_not_confirmed_is_no_finding() -> None:
    assert "a candidate, not a finding" in said(record())
    assert "at 2 fresh seeds, not done yet: p13, p32." in said(record(chosen=("p13", "p32"), confirm_seeds=(7, 8)))
    assert "candidate" not in said(confirmed())
    assert (
        "p13, p32 are better than pre_ln on both eval loss and peak kurtosis; p38 is equivalent on eval loss"
        in said(confirmed())
    )
    held = said(confirmed_nothing())
    assert "Of the 3 best, confirmed at 5 fresh seeds, none was found better than pre_ln on both" in held
    assert "p13 diverged at 1 of 5 seeds" in held and "diverged" not in said(confirmed())


@pytest.mark.fast
def test_winners_are_said_to_be_selected_and_what_was_left_is_shown() -> None:
    assert "the best of 48 blocks at 1 seed are partly lucky" in beware(record())
    left = (
        "advantages over pre_ln seen in the search, this remained at the fresh seeds: "
        "86 to 90 % over 2 blocks in eval loss"
    )
    assert f"{left}; 53 to 105 % over 3 blocks in peak kurtosis" in beware(confirmed())
    assert "remained" not in beware(record())
    lone = record(entries=entries()[:2])
    assert "partly lucky" not in beware(lone)


@pytest.mark.fast
def test_what_was_left_is_the_confirmed_part_of_the_difference() -> None:
    """By hand: in the search -0.1 of loss and half the kurtosis, at fresh seeds -0.025 and a factor 1/√2.

    The geometric mean of 3 … 7 is 4.790, and 4.790/√2 = 3.387.
    """
    made = (entry(0), entry(1, ["+qk_norm"], values=(2.21, 1.5)))

    def end(one: Entry, seed: int) -> dict[str, float]:
        new = one.number > 0
        return {"eval_loss": 2.30 + seed / 100 - 0.025 * new, "peak_kurtosis": (3 + seed) * 0.5 ** (0.5 * new)}

    grid = rows.remaining_table(confirm(record(entries=made), ["p1"], end))
    assert [row[2:] for row in grid.rows] == [
        ("2.210", "2.295", "-0.100", "-0.0250", "25 %"),
        ("1.500", "3.387", "×0.500", "×0.707", "50 %"),
    ]
    said = beware(confirm(record(entries=made), ["p1"], end))
    assert "25 % over 1 block in eval loss; 50 % over 1 block in peak kurtosis" in said


@pytest.mark.fast
def test_no_share_is_given_of_what_was_no_advantage() -> None:
    made = (entry(0), entry(1, ["+qk_norm"], values=(2.41, 1.5)))
    grid = rows.remaining_table(confirm(record(entries=made), ["p1"], regressed))
    assert grid.rows[0][-1] == "" and grid.rows[1][-1].endswith(" %")
    assert "in eval loss it had none" in beware(confirm(record(entries=made), ["p1"], regressed))
    more = (*made, entry(2, ["-layer_norm"], values=(2.31, 3.5)))
    said = beware(confirm(record(entries=more), ["p1", "p2"], regressed))
    assert "in eval loss no confirmed block had any" in said and "over 1 block in peak kurtosis" in said


@pytest.mark.fast
def test_diverged_pruned_and_strange_are_counted_and_not_compared() -> None:
    first, *others = entries(6)
    best = replace(others[0], outcome="pruned", until=75, values=(0.1, 0.1))
    strange = replace(others[1], outcome="finished", values=(2.0, float("inf")))
    zero = replace(others[2], outcome="finished", values=(2.0, 0.0))
    found = record(entries=(first, best, strange, zero, *others[3:]), pruner="asha from 25% by 2")
    reckoned = analyse(found)
    assert not {1, 2, 3} & set(reckoned.compared) and reckoned.incomparable == (2, 3)
    assert "1 pruned" in beware(found)
    assert "2 finished with a value that is not finite, or has no logarithm" in beware(found)
    assert "pruned (values at step 75)" in {row[2] for row in rows.everything(found, reckoned).rows}


@pytest.mark.fast
def test_the_accounts_say_what_became_of_everything() -> None:
    counted = dict(history.accounts(replace(record(), passed_over=80)).rows)
    assert counted["proposed"] == "55" and counted["duplicates of earlier ones, not trained again"] == "7"
    assert counted["blocks trained besides pre_ln"] == "48"
    assert (counted["  finished"], counted["  diverged"]) == ("40", "8")
    assert counted["passed over for one that the zero-cost measure ranks better"] == "80"
    assert counted["  of them known from trials of other spaces"] == "12"
    assert "  of them known from trials of other spaces" not in dict(history.accounts(record(known=0)).rows)
    reasons = [row[0] for row in history.removed(record()).rows]
    assert reasons == ["constraint", "constraint", "veto"]
    assert "under 1 %" in history.accounts(record(random_share=0.004)).remarks[0]


@pytest.mark.fast
def test_refusals_are_told_apart() -> None:
    assert [row[:2] for row in history.removed(sixty()).rows] == [
        ("constraint", "a gain of 0 on both branches gives a constant"),
        ("sizes", "6 heads do not divide a width of 128"),
        ("override", "there is no mlp"),
        ("start", "the loss is not finite"),
        ("veto", "parameters, at most 110% of pre_ln's"),
    ]
    assert (
        "31 by constraints, 4 by the sizes, 3 by an override, 2 by their start, 9 by a veto"
        in history.counts(sixty(), analyse(sixty()))[1]
    )
    source = (ROOT / "ablate" / "execute" / "search" / "search_space.py").read_text(encoding="utf-8")
    assert all(begins in source for begins in history.KINDS) and UNBUILT in history.KINDS


@pytest.mark.fast
def test_what_failed_is_said_to_stay_so() -> None:
    assert "2 blocks failed: a failed trial is not retried within its search" in history.failures(sixty())[0]
    assert history.accounts(sixty()).caveats == history.failures(sixty()) and "--fresh" in screen(sixty(), 80)
    assert history.failures(record()) == () == history.accounts(record()).caveats


@pytest.mark.fast
def test_other_versions_than_the_references_are_counted_and_marked() -> None:
    found = sixty()
    assert (
        "16 blocks of 60 were trained with other versions or on another device than pre_ln, among them p45"
        in beware(found)
    )
    marks = {row[1]: row[5] for row in rows.everything(found, analyse(found)).rows}
    assert marks["p45"] == "front, other versions (a93b52)" and marks["pre_ln"] == "reference"
    assert marks["p60"] == "other versions (a93b52)" and marks["p13"] == "front"
    first, *others = found.entries
    unknown = record(entries=(replace(first, versions=""), *others))
    assert "other versions" not in beware(unknown) and not unknown.strangers
    some = record(entries=(first, *(replace(one, versions="") for one in others)))
    assert not some.strangers


@pytest.mark.fast
def test_the_splits_are_named() -> None:
    said = " ".join(sections.definitions(confirmed()))
    assert "at the end of training, on the tuning split" in said and "judged on the verdict split" in said
    assert "verdict split" not in " ".join(sections.definitions(record()))
    brief = " ".join(sections.briefly(confirmed()))
    assert "on the tuning split" in brief and "on the verdict split" in brief and "margin 1 %" in brief


@pytest.mark.fast
def test_a_search_interrupted_while_it_is_confirmed_claims_nothing() -> None:
    text = screen(confirming(), 80)
    assert "The search is over, its confirmation is not" in text and "are better than" not in text
    assert "Chosen for confirmation at 3 fresh seeds, not done yet: p13, p32, p38. To resume: ablate resume" in said(
        confirming()
    )
    assert "To resume this search:\n  ablate resume outliers" in text and "Confirmed," not in text


@pytest.mark.fast
def test_rungs_warn_of_the_restricted_range_and_only_with_a_pruner() -> None:
    found = history.rungs(with_rungs())
    assert found is not None and "restricted range" in found.caveats[0]
    assert [row[2:] for row in found.rows] == [("21", "+0.61"), ("21", "+0.72"), ("9", "+0.88"), ("9", "not defined")]
    assert history.rungs(record()) is None
    waiting = history.rungs(replace(with_rungs(), correlations=()))
    assert waiting is not None and waiting.remarks == ("no block has reached two rungs",)


@pytest.mark.fast
def test_edits_of_the_front_stand_beside_those_of_all_trained() -> None:
    made = (
        entry(0),
        entry(1, ["+qk_norm"], values=(2.2, 2.0)),
        entry(2, ["+qk_norm", "-layer_norm"], values=(2.3, 1.0)),
        entry(3, ["-layer_norm"], outcome="diverged", values=()),
        entry(4, ["mlp.activation=relu"], values=(2.5, 3.5)),
    )
    found = record(entries=made)
    grid = rows.edits(found, analyse(found))
    assert grid is not None
    assert grid.rows == (("+qk_norm", "2 of 2", "2 of 4", "0"), ("-layer_norm", "1 of 2", "2 of 4", "1"))
    assert "a description, not a finding" in grid.caveats[0]


@pytest.mark.fast
def test_partial_results_say_so_and_how_to_go_on() -> None:
    text = screen(partial(), 80)
    assert "Not over: 20 trials spent of 49 trials" in text
    assert "To resume this search:\n  ablate resume" in text
    assert "Not over" not in screen(record(), 80) and "To repeat this search" in screen(record(), 80)


@pytest.mark.fast
def test_logarithms_are_said() -> None:
    found = record()
    assert "peak_kurtosis on the log scale" in history.hypervolume_in_words(found, analyse(found))
    linear = record(objectives=(found.objectives[0], replace(KURTOSIS, log=False)))
    assert "log scale" not in history.hypervolume_in_words(linear, analyse(linear))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999_999_999, "999,999,999"), (10**9, "1.00e+9"), (214 * 10**18, "2.14e+20"), (10**400, "1.00e+400")],
)  # fmt: skip
def test_counts_of_any_size(number: int, text: str) -> None:
    assert answer.count(number) == text


@pytest.mark.fast
@pytest.mark.parametrize("name", WORLDS)
def test_json_is_json_in_every_case(name: str) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found = WORLDS[name]()
    document = json.loads(to_json(found), parse_constant=refuse)
    assert [one["name"] for one in document["entries"]] == [one.name for one in found.entries]
    assert document["answers"] == answer.answers(found, analyse(found))
    assert len(document["curve"]["values"]) in (0, len(found.entries))
    numbers = {one["number"] for one in document["entries"]}
    assert set(document["front"]) <= set(document["compared"]) <= numbers
    assert (document["confirmed"] is None) == (found.confirmed is None)
    assert document["next"] is None or document["next"]["block"] in {one["name"] for one in document["entries"]}


@pytest.mark.fast
def test_the_block_to_ask_about_is_that_which_held() -> None:
    def chosen(found: SearchRecord) -> str:
        one = confirmation.block_to_ask_about(found, analyse(found))
        return "" if one is None else one.entry.name

    # Of loss p13 gains most and p32 52 % of that; of the logarithm of kurtosis, p38 gains most, p32 58 %, p13 20 %.
    assert chosen(confirmed()) == "p32"
    assert chosen(confirm(record(), ["p38", "p13"], regressed)) == "p13"  # of which p38 is better in one objective
    assert chosen(all_diverged()) == chosen(nothing()) == ""
    assert chosen(one_goal()) == "p13"


@pytest.mark.fast
def test_why_it_is_asked_about_says_no_more_than_is_so() -> None:
    def why(found: SearchRecord) -> str:
        one = confirmation.block_to_ask_about(found, analyse(found))
        assert one is not None
        return confirmation.why_chosen(found, one)

    assert why(confirmed()) == "one of 2 that did best of those confirmed; the best balanced of them"
    assert why(confirm(record(), ["p38", "p13"], regressed)) == "of those confirmed, it did best"
    assert why(confirmed_nothing()) == "of those confirmed none was found better; the best balanced of them"
    assert why(confirm(record(), ["p13"], regressed)) == "the one that was confirmed"
    alone = confirm(record(), ["p13"], lambda one, seed: regressed(replace(one, edits=()), seed))
    assert why(alone) == "the one chosen; it was not found better"
    assert why(confirm(one_goal(), ["p13", "p32"], regressed)).endswith("the one with the largest gain of them")
    assert why(record()) == "on the Pareto front, the one with the largest minimum gain"
    assert why(ties()) == "on the Pareto front, one of 5 with the largest minimum gain"
    assert why(one_goal()) == "the one best in the search"
    lost = confirm(record(), ["p13"], lambda one, seed: "diverged" if one.number else regressed(one, seed))
    assert "on the Pareto front" in why(lost)


@pytest.mark.fast
def test_a_line_that_would_have_no_effect_is_to_be_left_out() -> None:
    found = confirmed()
    one = confirmation.block_to_ask_about(found, analyse(found))
    assert one is not None
    refused = "A line of its `block:` that changes neither pre_ln nor p32 would be refused as having no effect"
    assert refused in confirmation.how_to_ask(found, one)
    assert json.loads(to_json(found))["next"]["how"] == confirmation.how_to_ask(found, one)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["op", "sas", "e_spa", "deepnorm", "layer_scale"])
def test_what_is_to_be_pasted_asks_which_edit_matters(name: str, tmp_path: Path) -> None:
    """In place of a shipped space's design it reads as the same block, and plans a path to it."""
    grammar = transformer()
    found = record()
    text = print_block(grammar.block(name), grammar.catalogue, grammar.defaults)
    pasted = confirmation.path_snippet(found, entry(3, ["+qk_norm"], block=text))
    assert max(map(len, pasted.splitlines())) <= 80
    shipped = (ROOT / "spaces" / "op_vs_preln.yaml").read_text(encoding="utf-8")
    body = "\n".join(line for line in shipped.splitlines() if not line.startswith(("design:", "block:")))
    (tmp_path / "grammars").symlink_to(ROOT / "grammars")
    (tmp_path / "spaces").mkdir()
    path = tmp_path / "spaces" / "asked.yaml"
    path.write_text(f"{body}\n{pasted}", encoding="utf-8")
    space = load_space(path, grammar.catalogue)
    assert space.blocks["p3"] == grammar.block(name)
    assert space.design.path is not None and (space.design.path.from_, space.design.path.to) == ("pre_ln", "p3")
    in_full = confirmation.path_snippet(found, entry(3, ["+qk_norm"], block=print_block(grammar.block(name))))
    path.write_text(f"{body}\n{in_full}", encoding="utf-8")
    assert load_space(path, grammar.catalogue).blocks["p3"] == grammar.block(name)
    if name != "e_spa":  # which has no solution at this depth
        plan = build_plan(space, vocab_size=256, corpus="c0ffee")
        assert len(plan.variants) > 1 and plan.variants[-1].names[0] == "p3"
