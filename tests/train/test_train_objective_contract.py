"""Every objective that ships holds the contract; each part of it can fail."""

import pytest
import torch

from ablate.block.sizes import Sizes
from ablate.data.batch import Batch
from ablate.extension.declaration import OBJECTIVE
from ablate.extension.loader import shipped
from ablate.testing import ObjectiveContract

pytestmark = pytest.mark.fast

OF_RECORDS = ("classification", "regression", "regression: {weight: 15, value: 30}")
WITH = {"masked_words": ("masked_words", "masked_words: {next_sentence: true, share: 40%}")}
OF_TEXT = [spec.name for spec in shipped(OBJECTIVE) if spec.reads == "text"]


@pytest.fixture(params=[written for name in OF_TEXT for written in WITH.get(name, (name,))])
def objective(request):
    return request.param


class TestOfText(ObjectiveContract):
    @pytest.fixture(autouse=True)
    def named(self, objective):
        self.objective = objective


class TestOfPairs(ObjectiveContract):
    objective = "sequence_to_sequence"
    sizes = Sizes(n_layers=1, d_model=8, n_heads=2, seq_len=5, vocab_size=11, source_len=7)

    def drawn(self):
        of = torch.Generator().manual_seed(1)
        return Batch(*((torch.randint(1, 11, (6, n), generator=of), torch.arange(6) % n + 1) for n in (7, 5)))


class TestOfRecords(ObjectiveContract):
    @pytest.fixture(autouse=True, params=OF_RECORDS)
    def named(self, request):
        self.objective = request.param

    def drawn(self):
        drawn = torch.Generator().manual_seed(1)
        return Batch(torch.randn(6, 3, 4, 4, generator=drawn), torch.randint(11, (6,), generator=drawn))


def test_every_objective_is_held_to_it():
    of_records = {written.partition(":")[0] for written in OF_RECORDS}
    assert {spec.name for spec in shipped(OBJECTIVE)} == {*OF_TEXT, TestOfPairs.objective, *of_records}


PLUGIN = '''
"""Repeated token: each token predicts itself."""
from ablate.train.objectives.declare import Settings, implements, objective

@objective("repeated", models=("encoder",), measures=("eval_accuracy",), source="this test")
class Repeated(Settings):
    """No settings."""

from ablate.data.batch import Batch, first
from ablate.train.objectives.cross_entropy import CrossEntropy
from ablate.train.objectives.declare import Term
CALLS = []

@implements(Repeated)
class Objective(CrossEntropy):
    def batch(self, drawn, uniform):
        tokens = first(drawn.inputs)
        return Batch(tokens, tokens.clone())

    def targets(self, batch):
        return super().targets(batch)

    def terms(self, output, batch, ahead=()):
        for term in super().terms(output, batch, ahead):
            yield term
'''
BROKEN = {
    "a_batch_follows_from_what_is_drawn_and_a_key": (
        "tokens.clone()",
        "(CALLS.append(0), (tokens + len(CALLS)) % 11)[1]",
    ),
    "parts_add_up_to_the_batch": ("super().targets(batch)", "{'': batch.examples ** 2}"),
    "an_evaluation_measures_what_it_declares": ('measures=("eval_accuracy",), ', ""),
    "every_term_has_a_finite_gradient": ("yield term", "yield Term('', 0 * term.mean)"),
}


def of_plugin(folder, text):
    path = folder / "repeated.py"
    path.write_text(text, encoding="utf-8")
    of = ObjectiveContract()
    of.plugins, of.objective = (path,), "repeated"
    return of


def test_one_of_a_plugin_holds_it(tmp_path):
    of_plugin(tmp_path, PLUGIN).check_all()


@pytest.mark.parametrize("broken", BROKEN)
def test_each_part_of_it_can_fail(tmp_path, broken):
    before, after = BROKEN[broken]
    assert before in PLUGIN
    with pytest.raises(AssertionError):
        getattr(of_plugin(tmp_path, PLUGIN.replace(before, after)), f"test_{broken}")()


def test_there_is_a_twin_for_each_part():
    assert {f"test_{name}" for name in BROKEN} == {name for name in dir(ObjectiveContract) if name.startswith("test_")}
