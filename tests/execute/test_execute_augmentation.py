"""A recipe with MixUp: training sees mixtures, evaluations do not, an interrupted trial resumes to the same bits."""

from __future__ import annotations

import io

import pytest
import torch
from interrupted import assert_goes_on_to_the_same_bits
from rich.console import Console
from test_execute_digits import space_of

import ablate
from ablate.components.registry import declarations
from ablate.data.streams import prepare
from ablate.errors import InputError
from ablate.execute.executor import cache_of
from ablate.execute.work import drawing_of, drawn_examples
from ablate.space import fits
from ablate.train.objective import chosen_objective


def mixed(folder, kind="mlp", objective="classification", steps=12, alpha="0.4", more=()):
    space_of(folder, kind, objective, steps)  # writes it
    settings = [f"recipe.augment={{mixup: {alpha}}}", *more]
    return ablate.load_space(folder / "digits.yaml", settings=settings)


def drawn(space, folder):
    """A batch and the examples of an evaluation of the first trial of a space."""
    trial = ablate.plan_space(space, results=folder / "results").plan.trials[0]
    streams = prepare(trial.work.data, folder, cache_of(folder / "results"))
    spec, settings = chosen_objective(trial.work.recipe, declarations())
    drawing = drawing_of(streams, spec, settings, trial.work.architecture.sizes, trial.work.recipe, trial.seed)
    return trial, drawing.at(3), drawn_examples(streams, spec, settings, trial)


def test_training_sees_mixtures_and_an_evaluation_the_images_themselves(tmp_path):
    trial, batch, examples = drawn(mixed(tmp_path), tmp_path)
    other, plain, same = drawn(space_of(tmp_path, "mlp", "classification", 12), tmp_path)
    classes, others, share = batch.targets
    assert torch.equal(classes, plain.targets) and torch.equal(others, plain.targets.roll(1))
    expected = share[0] * plain.inputs.double() + (1 - share[0]) * plain.inputs.double().roll(1, 0)
    assert torch.allclose(batch.inputs.double(), expected, atol=1e-5) and 0 < share[0] < 1
    assert torch.equal(examples.inputs, same.inputs) and torch.equal(examples.targets, same.targets)
    assert trial.id != other.id


def test_without_augmentation_a_trial_is_the_one_it_was(tmp_path):
    plain = ablate.plan_space(space_of(tmp_path, "mlp", "classification", 12), results=tmp_path / "results")
    settings = ["recipe.augment={mixup: 0, randaugment: none}"]
    space = ablate.load_space(tmp_path / "digits.yaml", settings=settings)
    named = ablate.plan_space(space, results=tmp_path / "results")
    assert [trial.id for trial in named.plan.trials] == [trial.id for trial in plain.plan.trials]


@pytest.mark.parametrize(("kind", "objective"), [("mlp", "classification"), ("vit", "regression")])
def test_an_interrupted_trial_goes_on_to_the_same_bits(tmp_path, kind, objective):
    space = mixed(tmp_path, kind, objective)
    assert_goes_on_to_the_same_bits(space, tmp_path / "results", steps=12, stop_at=7)


@pytest.mark.full
def test_digits_are_learnt_from_mixtures(tmp_path):
    space = mixed(tmp_path, steps=300)
    done = ablate.run(
        space, results=tmp_path / "results", executor="inline", console=Console(file=io.StringIO()), mirror=False
    )
    statement = "SELECT value FROM metrics WHERE metric = 'eval_accuracy' AND step = (SELECT max(step) FROM metrics)"
    assert (ablate.query(statement, results=done.results).value > 0.9).all()


def test_without_torchvision_a_space_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(fits, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"torchvision, which is not installed\n(.*\n)*.*randaugment") as refused:
        mixed(tmp_path, more=["recipe.augment.randaugment={operations: 3}"])
    assert "= pip install 'ablate[images]'" in str(refused.value)


TWO_CHANNELS = '''
"""Two channels: images that are neither grey nor in colour."""
from ablate.data.corpora.declare import Layout, Settings, Text, corpus, implements, record_of

LAYOUT = Layout(shape=(2, 4, 4), dtype="uint8", targets=0, classes=2)

@corpus("two_channels", source="this test")
class TwoChannels(Settings):
    """No settings."""

    @property
    def layout(self):
        return LAYOUT

@implements(TwoChannels)
class Images:
    title, place, notes = "two channels", "two channels", ()
'''


def test_images_that_are_neither_grey_nor_in_colour_are_refused(tmp_path):
    plugin = tmp_path / "two_channels.py"
    plugin.write_text(TWO_CHANNELS, encoding="utf-8")
    space_of(tmp_path, "mlp", "classification", 12)
    settings = ["recipe.augment={randaugment: {}}", "data.corpus=two_channels"]
    with pytest.raises(InputError, match=r"of 1 or 3 channels \(uint8\), but two_channels has images of 2 x 4 x 4"):
        ablate.load_space(tmp_path / "digits.yaml", plugins=[plugin], settings=settings)


NO_MIXTURES = '''
"""Own classes: an objective that takes one class of each example."""
from ablate.train.objectives.declare import Settings, implements, objective

@objective("own_classes", models=("mlp",), reads="records", measures=("eval_accuracy",), source="this test")
class OwnClasses(Settings):
    """No settings."""

from ablate.train.objectives.cross_entropy import CrossEntropy

@implements(OwnClasses)
class Objective(CrossEntropy):
    def batch(self, drawn, uniform):
        return drawn
'''


def test_mixtures_are_refused_of_an_objective_that_takes_one_class(tmp_path):
    plugin = tmp_path / "own_classes.py"
    plugin.write_text(NO_MIXTURES, encoding="utf-8")
    space_of(tmp_path, "mlp", "classification", 12)
    settings = ["recipe.augment={mixup: 0.2}", "recipe.objective=own_classes"]
    with pytest.raises(
        InputError, match="mixes the classes of two examples, which own_classes cannot learn"
    ) as refused:
        ablate.load_space(tmp_path / "digits.yaml", plugins=[plugin], settings=settings)
    assert "= recipe.objective: classification\n" in str(refused.value)
