"""A search that avoids what a forecast finds in danger: it is skipped, counted, kept as rows, and never trained."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from test_execute_search_ground import VOCABULARY, batch, searching
from tiny_spaces import write_world

import ablate
from ablate.api import ask
from ablate.block.expression import walk
from ablate.errors import InputError
from ablate.execute.forecaster import SEQUENCES
from ablate.execute.search.search_space import IN_DANGER, space_ground
from ablate.execute.search.source import SearchSource
from ablate.grammar.mutate import draw
from ablate.plan.plan import DANGERS, Forecast
from ablate.plan.proposals import search_notes
from ablate.signal.sampled_attention import AttentionStart, random_attention
from ablate.store import files as kept_files
from ablate.theory import diagnostics as theory
from ablate.theory import models, sequences
from ablate.theory.initial_state import InitialModel, InitialStream

SKIPPED = {"rank collapse", "attention nearly one-hot", "exploding gradient", "the stream grows"}
AVOID = "design.search.beforehand.forecast=avoid"


def has_norm(block) -> bool:
    return any(getattr(node, "name", "") == "layer_norm" for node in walk(block))


class NormsAreDangerous:
    """Says that blocks with a layer norm collapse, each at a layer of its own, and forecasts no other."""

    def __init__(self):
        self.asked = 0

    def of(self, block, setting):
        self.asked += 1
        kinds = ("rank collapse", "the stream grows")
        dangers = (f"rank collapse: from layer {self.asked} on", "the stream grows by a factor of 1,200 through it")
        return Forecast(dangers=dangers, kinds=kinds) if has_norm(block) else Forecast(refused="no closed form")


def ground(folder, *settings, forecaster):
    space = searching(folder, *settings)
    return space_ground(space, vocab_size=VOCABULARY, repetition=None, tokens=batch, forecaster=forecaster)


def test_what_is_in_danger_is_refused_by_kind_and_what_is_not_forecast_is_not(tmp_path):
    here = ground(tmp_path, AVOID, forecaster=NormsAreDangerous())
    rng = random.Random(0)
    drawn = [draw(here, rng) for _ in range(8)]
    assert not any(has_norm(each.block) for each in drawn)
    refused = {reason: n for each in drawn for reason, n in each.refused.items() if reason.startswith(IN_DANGER)}
    assert set(refused) == {"forecast: rank collapse", "forecast: the stream grows"}
    anything = ground(tmp_path, forecaster=(never := NormsAreDangerous()))
    assert any(has_norm(draw(anything, rng).block) for _ in range(8)) and never.asked == 0


def test_where_all_is_in_danger_the_way_out_is_to_ignore_it(tmp_path, monkeypatch):
    monkeypatch.setattr("ablate.grammar.mutate.DRAWS", 50)
    everything = NormsAreDangerous()
    everything.of = lambda block, setting: Forecast(kinds=("rank collapse",))
    here = ground(tmp_path, AVOID, forecaster=everything)
    with pytest.raises(InputError, match=r"(?s)rank collapse.*design\.search\.beforehand\.forecast: ignore"):
        draw(here, random.Random(0))


def test_a_ground_that_avoids_needs_a_forecaster(tmp_path):
    with pytest.raises(ValueError, match="needs a forecaster"):
        ground(tmp_path, AVOID, forecaster=None)


def test_a_forecaster_gives_the_kinds_of_dangers_and_of_what_is_refused_because_of_one(tmp_path):
    """Attention nearly one-hot is skipped by a search, and what is not forecast for another reason is not."""
    blocks = """{
        sharp: [residual: [layer_norm, attention: {query: &q {dense: {init: {normal: 3}}}, key: *q}]],
        huge: [residual: {gain: 1e100, branch: [mlp]}, residual: {gain: 1e100, branch: [mlp]}],
        flat: [residual: {skip: 0, branch: [layer_norm, attention]}],
        open: [residual: [layer_norm, attention: {query: identity, key: identity}]]}"""
    settings = ["design={compare: [pre_ln, sharp, huge, flat, open]}", f"blocks={blocks}", "model.layers=40"]
    space = ablate.load_space(write_world(tmp_path), settings=settings)
    planned = ablate.plan_space(space, results=tmp_path / "r")
    forecaster = planned.plans.forecaster
    found = {variant.name: forecaster.of(variant.block, variant.setting) for variant in planned.plan.variants}
    assert {name: each.kinds for name, each in found.items()} == {
        "pre_ln": (),
        "sharp": ("attention nearly one-hot",),
        "huge": ("numbers are no longer finite",),
        "flat": ("rank collapse", "vanishing gradient"),
        "open": (),
    }
    assert found["open"].refused.startswith("attention whose queries and keys both start")
    assert "attention nearly one-hot, first in layer 1" in found["sharp"].dangers[0]
    assert "overflow" in found["huge"].refused or found["huge"].dangers
    assert all(isinstance(each, str) for each in found["flat"].dangers)


def streams(**last: float) -> InitialModel:
    first = {"mean_square": 1.0, "correlation": 0.1, "gradient": 1.0, "gradient_correlation": 0.0, "kernel": None}
    return InitialModel(
        (InitialStream(layer=0, **first), InitialStream(layer=1, **{**first, **last})), 1.0, 0.1, frozenset({0, 1})
    )


def test_every_kind_of_danger_is_in_the_list_that_the_search_shows(tmp_path):
    """The list is all that theory names, and the manual has each."""
    infinite = streams(mean_square=float("inf"))
    every = [infinite, streams(correlation=0.999), streams(mean_square=1e8), streams(mean_square=1e-8)]
    first = {"mean_square": 1.0, "correlation": 0.1, "gradient_correlation": 0.0, "kernel": None}
    for gradient in (1e6, 1e-6):
        ends = (InitialStream(layer=0, gradient=gradient, **first), InitialStream(layer=1, gradient=1.0, **first))
        every.append(InitialModel(ends, 1.0, 0.1, frozenset({0, 1})))
    kernels = (np.eye(2), np.eye(2), np.eye(2))
    sharp = AttentionStart((random_attention(np.eye(2), *kernels, 9.0),), 1)
    every.append(replace(streams(), attention=(sharp,)))
    found = [danger.kind for model in every for danger in theory.dangers(model)]
    assert tuple(dict.fromkeys(found)) == DANGERS and set(theory.OF_REFUSALS.values()) <= set(DANGERS)
    manual = (files("ablate.docs") / "search.md").read_text(encoding="utf-8")
    assert all(kind in manual for kind in DANGERS)
    note = next(note for note in search_notes(searching(tmp_path, AVOID)) if note.startswith("skipped before training"))
    assert ", ".join(DANGERS) in note


def test_a_run_skips_what_is_in_danger_and_says_so(tmp_path, monkeypatch):
    """The bound is set between the cosines of what the grammar derives here, so that some is skipped."""
    monkeypatch.setattr(theory, "COLLAPSED", 0.2)
    found = "search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 5}, sampler: random, seed: 3"
    design = f"design={{{found}, beforehand: {{veto: {{}}, order: null, forecast: avoid}}}}}}"
    settings = (design, "recipe.steps=2", "seeds=1", "model.layers=4", "model.init={normal: 0.25}")
    space = ablate.load_space(write_world(tmp_path), settings=settings)
    run = ablate.run(space, results=tmp_path / "r", executor="inline", mirror=False)
    assert any("skipped before training: what a forecast finds in danger" in note for note in run.plan.notes)
    assert len(run.plan.trials) == 5 == len(run.plan.variants)
    forecasts = dict(run.plan.forecasts)
    assert set(forecasts) == {variant.id for variant in run.plan.variants}
    assert not any(forecasts[variant.id].dangers for variant in run.plan.variants[1:])
    kept = ask("SELECT k, danger, n FROM skipped ORDER BY ALL", results=tmp_path / "r")[0].rows
    counted = [(proposal.k, danger, n) for proposal in run.plan.proposals for danger, n in proposal.skipped]
    assert list(kept) == sorted(counted) and {danger for _, danger, _ in kept} == SKIPPED
    skipped = sum(n for *_, n in kept)
    assert skipped > 0
    assert ask("SELECT count(*) FROM trials", results=tmp_path / "r")[0].rows == ((5,),)
    texts = " ".join(" ".join(run.report().values()).split())
    assert f"{skipped:,} by a forecast" in texts or "| forecast | rank collapse |" in texts


def test_workers_do_not_wait_for_forecasts_that_nothing_needs(tmp_path, monkeypatch):
    """Each block is forecast once, when the search has ended; a second run only what was refused."""
    asking, made, following, forecast = [], [], SearchSource.next, models.forecast

    def watched(source):
        asking.append(True)
        try:
            return following(source)
        finally:
            asking.pop()

    def counted(*given):
        assert not asking
        made.append(given)
        return forecast(*given)

    monkeypatch.setattr(SearchSource, "next", watched)
    monkeypatch.setattr(sequences, "forecast", counted)
    found = "search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 4}, sampler: random, seed: 3}"
    settings = (f"design={{{found}}}", "recipe.steps=2", "seeds=1")
    space = ablate.load_space(write_world(tmp_path), settings=settings)
    run = ablate.run(space, results=tmp_path / "r", executor="inline", mirror=False)
    assert len(run.plan.variants) == len(dict(run.plan.forecasts)) > 2
    refused = sum(bool(each.refused) for each in dict(run.plan.forecasts).values())
    once = SEQUENCES * (len(run.plan.variants) - refused) + refused  # a refusal is one for the first sequence
    assert len(made) == once
    (before,), _ = kept_files.documents(tmp_path / "r", "plans")
    again = ablate.run(space, results=tmp_path / "r", executor="inline", mirror=False)
    assert repr(again.plan.forecasts) == repr(run.plan.forecasts)  # a forecast may have NaN, which equals nothing
    assert len(made) == once + refused
    (after,), _ = kept_files.documents(tmp_path / "r", "plans")
    assert after.content["document"] == before.content["document"]  # the same plan
