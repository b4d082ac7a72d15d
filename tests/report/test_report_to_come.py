"""What the plan's screen says is to follow, beside what the plan becomes where everything is known."""

import pytest
from space_fixtures import space

from ablate.plan.build import build_plan
from ablate.plan.plan import NOTHING_KNOWN, Known
from ablate.plan.tuning import tuning_settings
from ablate.report.screens.plan import to_come

pytestmark = pytest.mark.fast

TUNE = "{tune: {lr: [1e-3, 1e-2], weight_decay: [0, 0.1], seeds: 1}}"


def planned(found, known=NOTHING_KNOWN):
    return build_plan(found, vocab_size=256, corpus="corpus", known=known)


def last_of(found):
    """The plan at the last look, with every variant tuned."""
    before = planned(found)
    settings = tuning_settings(found.fair.tune.fields) if found.fair.tune != "none" else [()]
    tuned = {variant.id: settings[0] for variant in before.variants}
    return planned(found, Known(seeds=tuple(range(before.looks[-1])) if before.looks else None, tuned=tuned))


@pytest.mark.parametrize("noise", [None, "{seeds: 3}"])
def test_looks_are_listed_with_the_most_that_they_come_to(tmp_path, noise):
    found = space(tmp_path, seeds="{auto: {looks: [4, 6, 9]}}", noise=noise)
    most = len(last_of(found).trials)
    assert to_come(planned(found)) == f"analyses at 4, 6, 9 seeds; at most {most} trials"


def test_tuning_comes_before_the_verdict(tmp_path):
    found = space(tmp_path, seeds="2", fair=TUNE)
    before, after = planned(found), last_of(found)
    tuning = len(before.trials)
    assert to_come(before) == f"{tuning} for tuning, then {len(after.trials) - tuning} for the verdict"


def test_both(tmp_path):
    found = space(tmp_path, seeds="{auto: {looks: [2, 3]}}", fair=TUNE)
    before, after = planned(found), last_of(found)
    tuning, models = len(before.trials), len(before.variants)
    assert to_come(before) == (
        f"{tuning} for tuning, then at first {2 * models} for the verdict; "
        f"analyses at 2, 3 seeds; at most {len(after.trials)} trials"
    )


def test_a_plan_that_is_all_there_has_nothing_to_come(tmp_path):
    assert to_come(planned(space(tmp_path))) == ""
