"""A space whose text is cut by WordPiece trains, and has no bits per byte."""

from __future__ import annotations

from tiny_spaces import write_world

import ablate
from ablate.execute import worker
from ablate.execute.executor import Task
from ablate.train.events import Outcome, Row


def test_a_space_with_wordpiece_trains_and_has_no_bits_per_byte(tmp_path):
    settings = ["data.tokenizer={wordpiece: 300}", "seeds=2"]
    planned = ablate.plan_space(ablate.load_space(write_world(tmp_path), settings=settings), results=tmp_path / "r")
    trial = planned.plan.trials[0]
    task = Task(trial=trial, folder=tmp_path)
    events = [event for message in worker.messages(task, lambda: False) for event in message.events]
    metrics = {event.metric for event in events if isinstance(event, Row)}
    assert "eval_loss" in metrics and "eval_bits_per_byte" not in metrics
    assert [event.kind for event in events if isinstance(event, Outcome)] == ["finished"]
