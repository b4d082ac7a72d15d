"""Blocks that read from elsewhere and differ from layer to layer, on each real executor: the same numbers as inline."""

from __future__ import annotations

import pytest
from rich.console import Console
from tiny_spaces import rows_of, write_world

import ablate

QUIET = {"console": Console(quiet=True), "mirror": False}
BLOCKS = """
blocks:
  plain: [residual: [rms_norm, attention], residual: [rms_norm, mlp]]
  opened:
    - recall: {of: layers.first.in, gain: {init: 0.1, trainable: true}}
    - residual:
        - rms_norm
        - attention:
            kv_heads: 1
            gate: sigmoid_gate
            sink: learned_sink
            mask: {cycle: [{window: 4}, none]}
            value: {where: {layers: first, use: dense, otherwise: {from: layers.first.attention.value}}}
    - residual: [rms_norm, moe: {experts: 4, active: 2, bias_rate: 0.001}]
"""


def opened(folder):
    path = write_world(folder, steps=6, seeds=1)
    text = path.read_text(encoding="utf-8").replace("{from: pre_ln, to: op}", "{from: plain, to: opened}")
    text = text.replace("path:", "leave_one_out:").replace("against: pre_ln", "against: plain")
    path.write_text(text + BLOCKS, encoding="utf-8")
    return ablate.load_space(path)


def numbers(folder, executor: str):
    results = folder / f"results_{executor}"
    done = ablate.run(opened(folder), results=results, executor=executor, **QUIET)
    assert set(done.ended.kinds) == {"finished"}
    return rows_of(results)


@pytest.mark.parametrize(
    "executor", [pytest.param("local", marks=pytest.mark.full), pytest.param("ray", marks=pytest.mark.full)]
)
def test_each_executor_gives_the_numbers_of_inline(tmp_path, executor):
    inline = numbers(tmp_path, "inline")
    assert len(inline) > 100
    assert numbers(tmp_path, executor) == inline


def test_it_trains_inline_with_its_losses_and_actions_in_the_rows(tmp_path):
    rows = numbers(tmp_path, "inline")
    places = {(metric, address) for _, _, metric, address, _ in rows}
    assert ("added_loss", "layers.2.mlp.balance") in places
    assert any(metric == "after_step" and address.startswith("layers.1.mlp.") for metric, address in places)


@pytest.mark.full
def test_stopped_again_and_again_it_ends_with_the_same_bits(tmp_path, monkeypatch):
    from ablate.execute import controller, worker

    inline = numbers(tmp_path, "inline")
    monkeypatch.setattr(worker, "SPEAK_EVERY", 0.0)

    def stop_soon(self):
        self.calls = getattr(self, "calls", 0) + 1
        self.requested = self.calls > 5
        return self.requested

    monkeypatch.setattr(controller.Interrupt, "__call__", stop_soon)
    space, interruptions = opened(tmp_path), 0
    for _ in range(60):
        done = ablate.run(space, results=tmp_path / "stopped", executor="inline", **QUIET)
        interruptions += done.ended.kinds["interrupted"]
        if not done.ended.kinds["interrupted"] and not done.ended.waiting:
            break
    assert interruptions >= 3
    assert rows_of(tmp_path / "stopped") == inline
