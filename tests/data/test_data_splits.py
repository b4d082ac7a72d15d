import doctest

import pytest
from example_counts import examples_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.data import corpus as module
from ablate.data.corpus import assign_splits

names = st.text("abcdefgh_", min_size=1, max_size=6)
many_small = st.dictionaries(names, st.integers(1, 100), min_size=60, max_size=90)
shares = st.sampled_from([0.0, 0.05, 0.1, 0.2])


def held(sizes, splits, split):
    return sum(size for name, size in sizes.items() if splits[name] == split)


@pytest.mark.fast
@given(sizes=many_small, tuning=shares, verdict=shares)
@settings(max_examples=examples_of(60), deadline=None)
def test_shares_are_near_what_was_asked_and_never_above(sizes, tuning, verdict):
    splits = assign_splits(sizes, tuning=tuning, verdict=verdict)
    assert splits.keys() == sizes.keys()
    for split, share in (("tuning", tuning), ("verdict", verdict)):
        target, got = share * sum(sizes.values()), held(sizes, splits, split)
        assert got <= target or [splits[name] for name in sizes].count(split) == 1  # one folder may be all there is
        # What is missing is less than the smallest folder that went to train: else it would have fitted.
        left = [size for name, size in sizes.items() if splits[name] == "train"]
        assert target - got < min(left)


@given(sizes=many_small, verdict=st.sampled_from([0.05, 0.1]))
@settings(max_examples=examples_of(30), deadline=None)
def test_the_verdict_does_not_depend_on_the_tuning_share(sizes, verdict):
    of_verdict = [
        {name for name, split in assign_splits(sizes, tuning=tuning, verdict=verdict).items() if split == "verdict"}
        for tuning in (0.0, 0.1, 0.3)
    ]
    assert of_verdict[0] == of_verdict[1] == of_verdict[2]


@pytest.mark.fast
@pytest.mark.parametrize("large", [f"large_{number}" for number in range(20)])
def test_one_large_folder_does_not_make_the_verdict(large):
    """Wherever the hash of its name puts it; it would fit into the share."""
    sizes = {large: 400, **{f"small_{number}": 45 for number in range(100)}}
    splits = assign_splits(sizes, tuning=0.3, verdict=0.3)
    assert splits[large] == "train"
    assert sum(split == "verdict" for split in splits.values()) == int(0.3 * sum(sizes.values())) // 45


@pytest.mark.fast
def test_order_of_the_folders_does_not_matter_and_their_names_do():
    sizes = {f"folder_{number}": 10 for number in range(50)}
    backwards = dict(reversed(sizes.items()))
    assert assign_splits(sizes, tuning=0.1, verdict=0.1) == assign_splits(backwards, tuning=0.1, verdict=0.1)
    renamed = {name.replace("folder", "place"): size for name, size in sizes.items()}
    before = sorted(assign_splits(sizes, tuning=0.1, verdict=0.1).items())
    after = sorted(assign_splits(renamed, tuning=0.1, verdict=0.1).items())
    assert [split for _, split in before] != [split for _, split in after]


@pytest.mark.fast
def test_where_nothing_fits_the_smallest_folder_is_held_out():
    splits = assign_splits({"a": 30, "b": 20, "c": 90, "empty": 0}, tuning=0.01, verdict=0.01)
    assert splits == {"a": "tuning", "b": "verdict", "c": "train", "empty": "train"}


@pytest.mark.fast
def test_the_example_in_the_docstring_runs():
    result = doctest.testmod(module)
    assert result.attempted == 1
    assert result.failed == 0


few = st.dictionaries(names, st.integers(1, 100), min_size=3, max_size=6)
large_shares = st.floats(0.05, 0.6)


@pytest.mark.fast
@given(sizes=few, tuning=large_shares, verdict=large_shares)
@settings(max_examples=examples_of(200), deadline=None)
def test_as_many_folders_as_splits_are_enough(sizes, tuning, verdict):
    splits = assign_splits(sizes, tuning=tuning, verdict=min(verdict, 0.95 - tuning))
    assert set(splits.values()) == {"train", "tuning", "verdict"}


@pytest.mark.fast
def test_two_small_folders_that_fit_the_verdict_do_not_take_the_last_one_of_training():
    assert set(assign_splits({"a": 30, "b": 30, "c": 40}, tuning=0.3, verdict=0.6).values()) == {
        "train",
        "tuning",
        "verdict",
    }
