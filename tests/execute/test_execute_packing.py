"""The ledger of GPU memory: never overbooked, never a share of nothing, and everything comes back."""

import pytest
from example_counts import examples_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ablate.errors import InputError
from ablate.execute.gpu import Gpu, Ledger, Slot

pytestmark = pytest.mark.fast

GIB = 2**30


class Booking(RuleBasedStateMachine):
    """Trials come and go, with an account of our own of what each was promised."""

    @initialize(memories=st.lists(st.integers(8, 10**12), min_size=1, max_size=4), most=st.integers(1, 8))
    def open(self, memories, most):
        self.gpus = dict(enumerate(memories))
        self.most = most
        self.ledger = Ledger([Gpu(number, memory) for number, memory in self.gpus.items()], most=most)
        self.slots: dict[str, tuple[Slot, int | None]] = {}
        self.count = 0

    @rule(needed=st.none() | st.integers(0, 2 * 10**12))
    def reserve(self, needed):
        self.count += 1
        slot = self.ledger.reserve(str(self.count), needed)
        if slot is not None:
            self.slots[str(self.count)] = slot, needed
            bytes_promised = slot.share * self.gpus[slot.gpu]
            assert bytes_promised >= min(needed or 0, max(self.gpus.values())) * (1 - 1e-9)
        else:
            assert self.slots, "an empty machine takes any trial"

    @precondition(lambda self: self.slots)
    @rule(data=st.data())
    def release(self, data):
        trial_id = data.draw(st.sampled_from(sorted(self.slots)))
        self.ledger.release(trial_id)
        del self.slots[trial_id]
        with pytest.raises(KeyError):
            self.ledger.release(trial_id)

    @precondition(lambda self: self.slots)
    @rule(data=st.data())
    def reserve_twice(self, data):
        with pytest.raises(ValueError):
            self.ledger.reserve(data.draw(st.sampled_from(sorted(self.slots))), 1)

    @invariant()
    def never_overbooked(self):
        for number, memory in self.gpus.items():
            here = [slot for slot, _ in self.slots.values() if slot.gpu == number]
            assert len(here) <= self.most
            assert all(0 < slot.share <= 1 for slot in here)
            assert sum(round(slot.share * memory) for slot in here) <= memory

    @invariant()
    def alone_is_alone(self):
        for slot, needed in self.slots.values():
            if needed is None:
                assert slot.share == 1.0
                assert sum(other.gpu == slot.gpu for other, _ in self.slots.values()) == 1

    def teardown(self):
        """Everything comes back: the whole machine can be given away anew."""
        for trial_id in self.slots:
            self.ledger.release(trial_id)
        places = [self.ledger.reserve(f"again {n}", 0) for n in range(self.most * len(self.gpus))]
        assert None not in places
        assert self.ledger.reserve("one too many", 0) is None or self.uneven()

    def uneven(self):
        """Memory that does not divide by `most` leaves less than a part."""
        return any(memory % self.most >= memory // self.most for memory in self.gpus.values())


Booking.TestCase.settings = settings(max_examples=examples_of(60), stateful_step_count=20, deadline=None)
TestBooking = Booking.TestCase


def test_three_thirds_fit():
    ledger = Ledger([Gpu(0, 100), Gpu(1, 100)], most=3)
    slots = [ledger.reserve(str(n), 1) for n in range(6)]
    assert [slot.gpu for slot in slots] == [0, 1, 0, 1, 0, 1] and {slot.share for slot in slots} == {0.33}
    assert ledger.reserve("a seventh", 1) is None
    ledger.release("3")
    assert ledger.reserve("a seventh", 1) == Slot(1, 0.33)


def test_best_fit_among_gpus_with_as_many_trials():
    ledger = Ledger([Gpu(0, 80 * GIB), Gpu(1, 24 * GIB)], most=4)
    assert ledger.reserve("small", 20 * GIB).gpu == 1, "where the least is left over"
    assert ledger.reserve("large", 30 * GIB).gpu == 0, "where it fits at all"
    assert ledger.reserve("more", 10 * GIB).gpu == 0


def test_a_trial_is_given_its_part_at_least_and_what_it_needs_at_most():
    ledger = Ledger([Gpu(0, 100)], most=4)
    assert ledger.reserve("small", 3) == Slot(0, 0.25)
    assert ledger.reserve("large", 60) == Slot(0, 0.6)
    assert ledger.reserve("none left", 3) is None


def test_what_fits_nowhere_has_the_largest_gpu_for_itself():
    """It is only a prediction that says it does not fit."""
    ledger = Ledger([Gpu(0, 10), Gpu(1, 20)], most=2)
    assert ledger.reserve("too large", 50) == Slot(1, 1.0)
    assert ledger.reserve("another", 50) is None
    assert ledger.reserve("small", 1) == Slot(0, 0.5)


def test_a_ledger_without_sense_is_refused():
    with pytest.raises(InputError, match="0 trials on a GPU"):
        Ledger([Gpu(0, 10)], most=0)
    for gpus in ([], [Gpu(0, 0)]):
        with pytest.raises(ValueError, match="needs GPUs"):
            Ledger(gpus, most=1)
