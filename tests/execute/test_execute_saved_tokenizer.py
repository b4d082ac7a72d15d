"""A space whose text is cut by the tokenizer of a file trains, and has bits per byte where that loses nothing."""

from __future__ import annotations

import pytest
from tiny_spaces import write_world
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

import ablate
from ablate.execute import worker
from ablate.execute.executor import Task
from ablate.train.events import Outcome, Row


@pytest.mark.parametrize("lossless", [True, False])
def test_a_space_with_a_saved_tokenizer_trains(tmp_path, lossless):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(sorted(alphabet))}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    if not lossless:
        tokenizer.normalizer = normalizers.Lowercase()
    world = write_world(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = ["data.tokenizer={file: tokenizer.json}", "seeds=2"]
    planned = ablate.plan_space(ablate.load_space(world, settings=settings), results=tmp_path / "r")
    trial = planned.plan.trials[0]
    assert trial.work.architecture.sizes.vocab_size == 257 and trial.work.architecture.sizes.separator == 256
    events = [
        e for message in worker.messages(Task(trial=trial, folder=tmp_path), lambda: False) for e in message.events
    ]
    metrics = {event.metric for event in events if isinstance(event, Row)}
    assert "eval_loss" in metrics and ("eval_bits_per_byte" in metrics) is lossless
    assert [event.kind for event in events if isinstance(event, Outcome)] == ["finished"]
