"""Logs as real trainers write them: TensorBoard's event files by torch, and the states of a Hugging Face trainer."""

import mlflow
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import ablate

pytestmark = pytest.mark.full
RUNS = [(variant, seed) for variant in ("base", "tuned") for seed in range(5)]
LOSSES = {(v, s): 2.5 + 0.1 * s + 0.02 * (s % 3) - (0.05 + 0.01 * s) * (v == "tuned") for v, s in RUNS}


def numbers(judged):
    (effect,) = judged.summary.effects
    return effect.n, pytest.approx(effect.estimate), pytest.approx(effect.low), pytest.approx(effect.high)


def known(losses):
    table = [{"variant": v, "seed": s, "loss": loss} for (v, s), loss in losses.items()]
    return numbers(ablate.judge(table, metrics="loss"))


def test_event_files_of_torch_are_judged_by_their_folders(tmp_path):
    for (v, s), loss in LOSSES.items():
        with SummaryWriter(str(tmp_path / f"{v}-s{s}")) as writer:
            for step in range(4):
                writer.add_scalar("eval/loss", loss + 3 - step, step)
                writer.add_scalars("norms", {"weight": 1.0, "gradient": 0.1}, step)
            writer.add_histogram("weights", torch.arange(100.0), 3)
            writer.add_text("note", "a run", 3)
            writer.add_hparams({"lr": 1e-3, "variant": v}, {"hparam/loss": loss})
    asked = {"metrics": "eval/loss", "name": "{variant}-s{seed:d}", "at": "last"}
    judged = ablate.judge(tmp_path, **asked)
    assert judged.summary.notes[0].startswith(f"10 runs of {tmp_path} (10 logs; 30 event files within these left out)")
    assert numbers(judged) == known({run: float(np.float32(x)) for run, x in LOSSES.items()})


class Line(nn.Module):
    """A linear regression, as a trainer takes a model: its output has a loss."""

    def __init__(self, seed):
        super().__init__()
        self.line = nn.Linear(4, 1)
        with torch.no_grad():
            self.line.weight.copy_(torch.randn(1, 4, generator=torch.Generator().manual_seed(seed)))

    def forward(self, x, labels=None):
        made = self.line(x).squeeze(-1)
        return {"loss": (made - labels).square().mean(), "logits": made}


def test_states_that_a_hugging_face_trainer_saves_are_judged(tmp_path):
    from transformers import Trainer, TrainingArguments

    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    data = [{"x": row, "labels": row.sum()} for row in x]
    losses = {}
    for v, s in RUNS:
        arguments = TrainingArguments(
            output_dir=str(tmp_path / f"{v}-s{s}"),
            seed=s,
            learning_rate=0.05 if v == "base" else 0.2,
            max_steps=6,
            per_device_train_batch_size=16,
            eval_strategy="steps",
            eval_steps=2,
            logging_steps=2,
            save_steps=6,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(model=Line(s), args=arguments, train_dataset=data, eval_dataset=data)
        trainer.train()
        losses[v, s] = next(e["eval_loss"] for e in reversed(trainer.state.log_history) if "eval_loss" in e)
    judged = ablate.judge(tmp_path, metrics="eval_loss", name="{variant}-s{seed:d}/checkpoint-6", at="last")
    assert numbers(judged) == known(losses)
    assert judged.summary.effects[0].verdict == "better"


def test_a_data_frame_of_mlflow_is_judged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.set_experiment("mine")
    for (v, s), loss in LOSSES.items():
        with mlflow.start_run():
            mlflow.log_params({"variant": v, "seed": s})
            mlflow.log_metrics({"loss": loss, "accuracy": 0.5 + 0.01 * s}, step=3)
    with pytest.raises(ValueError, match="stopped"), mlflow.start_run():
        mlflow.log_params({"variant": "tuned", "seed": 9})
        mlflow.log_metric("loss", 9.0)
        raise ValueError("stopped")
    frame = mlflow.search_runs(experiment_names=["mine"], order_by=["params.variant", "params.seed"])
    asked = {"metrics": "metrics.loss", "by": "params.variant", "pair": "params.seed"}
    judged = ablate.judge(frame, **asked, space="mine", results=tmp_path / "results")
    assert numbers(judged) == known(LOSSES)
    assert any("tuned at seed 9 (status is FAILED)" in note for note in judged.summary.notes)
    assert not ablate.verify(tmp_path / "results").wrong
