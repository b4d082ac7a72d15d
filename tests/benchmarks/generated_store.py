"""Writes a results folder as large as one likes: real specifications, plans, endings and sealed files, made-up numbers.

Nothing is trained. The files are those a run leaves behind, but for the DuckDB file, which the first refresh fills.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pyarrow

import ablate
from ablate.source.located import to_python
from ablate.store import files, sealed
from ablate.store.documents import Documents, digest, plan_document, plan_id, trial_document
from ablate.store.files import Ending, Written
from ablate.store.records import packed
from ablate.train.definitions import definitions

ROOT = Path(__file__).parents[2]
SPACE = ROOT / "spaces" / "op_vs_preln.yaml"
VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "ablate": "0.1.0", "platform": "linux-x86_64", "cpu": "some CPU"}
LAYERS = 6
STREAM = ("activation_rms", "kurtosis", "max_median_ratio", "token_correlation_mean", "token_correlation_rms")
PARTS = ("attention.query", "attention.key", "attention.value", "attention.projection", "mlp.up", "mlp.down")


@dataclass(frozen=True, slots=True)
class Size:
    """How large: trials in all, in spaces of `variants` × `seeds`, each measured `steps` times."""

    trials: int
    steps: int
    variants: int = 100
    seeds: int = 5


def series() -> list[tuple[str, str]]:
    """What one measured step of the shipped space yields: (metric, address), as the sealed file sorts them."""
    blocks = [f"layers.{layer}" for layer in range(1, LAYERS + 1)]
    return sorted(
        [(metric, "") for metric in ("train_loss", "gradient_norm", "learning_rate")]
        + [(metric, address) for metric in STREAM for address in (*blocks, "head")]
        + [("attention_entropy", f"{block}.attention") for block in blocks]
        + [("gradient_norm", f"{block}.{part}") for block in blocks for part in PARTS]
        + [("gradient_norm", f"{block}.layer_norm.{place}") for block in blocks for place in (1, 2)]
        + [("gradient_norm", "head"), ("gradient_norm", "embedding")]
    )


def write(folder: Path, size: Size) -> None:
    """Fill an empty folder."""
    for name in ("journal", "checkpoints", "trials"):
        (folder / name).mkdir(parents=True)
    template = Template(size.steps)
    specification, plan = real_documents()
    per_space = size.variants * size.seeds
    for number in range(size.trials // per_space):
        document, trials = space_of(number, size, specification, plan)
        files.bear_witness(folder, [template.seal(folder, trial) for trial in trials])
        keep_plan(folder, document, trials, number)


def keep_plan(folder: Path, document: Mapping[str, Any], trials: list[dict[str, Any]], number: int) -> None:
    """Write the file of a plan, as a run does."""
    id = plan_id(document["space"], asked=digest(document["resolved"]))
    content = {"plan": id, "first_seen": 1.8e9, "document": document, "specifications": packed(trials)}
    files.keep(folder, "plans", content, number + 1, stem=id)


class Template:
    """The rows of one trial as arrays; another trial has another id and other values."""

    def __init__(self, steps: int):
        names = series()
        self.count = steps * len(names) + 1
        every = 25
        step = [every * at for at in range(steps) for _ in names] + [every * steps]
        pairs = [*(names * steps), ("eval_loss", "")]
        timings = [(every * at, "step_seconds") for at in range(steps)]
        timings += [(every * at, "tokens_per_second") for at in range(steps)]
        self.end = every * steps
        self.columns = {
            "kind": pyarrow.array(["row"] * self.count + ["timing"] * len(timings)),
            "step": pyarrow.array(step + [at for at, _ in timings]),
            "metric": pyarrow.array([metric for metric, _ in pairs] + [name for _, name in timings]),
            "address": pyarrow.array([address for _, address in pairs] + [""] * len(timings)),
        }
        self.total = self.count + len(timings)
        self.decay = 2.0 + 3.0 * numpy.exp(-numpy.arange(self.total) / self.total)

    def seal(self, folder: Path, trial: Mapping[str, Any]) -> Written:
        """Write a trial's file, and return it as the witness lists it. One in fifty diverged."""
        trial_id = trial["trial"]
        random = numpy.random.default_rng(int(trial_id, 16))
        content = pyarrow.table(
            {
                "trial_id": pyarrow.array([trial_id]).take(pyarrow.array(numpy.zeros(self.total, dtype="i4"))),
                **self.columns,
                "value": self.decay + random.normal(0, 0.1, self.total),
            },
            schema=sealed.SCHEMA,
        )
        kind = "diverged" if int(trial_id[-2:], 16) < 5 else "finished"
        detail = {"cause": "train_loss is nan", "seen": "output", "address": "layers.2.mlp", "layer": 2}
        ending = Ending(
            trial=trial_id,
            attempt=1,
            kind=kind,
            step=self.end,
            detail=detail if kind == "diverged" else {},
            rows=self.count,
            digest=sealed.digest(content),
            began=1.8e9,
            ended=1.8e9 + 60 + int(trial_id[:2], 16),
            versions=VERSIONS,
        )
        written = sealed.encoded(ending, content, trial)
        sealed.path_of(folder, trial_id).write_bytes(written)  # not synced: there is nothing here to be lost
        return Written(sealed.name_of(trial_id), len(written), files.digest_of(written), ending)


def real_documents() -> tuple[dict[str, Any], dict[str, Any]]:
    """A trial's specification and a plan, as the shipped space gives them."""
    space = ablate.load_space(SPACE)
    plan = ablate.check(space)
    documents = Documents(
        source=SPACE.read_text(encoding="utf-8"),
        resolved=to_python(space.located),
        definitions=definitions(),
        corpus={"files": 1790, "tokens": 31_000_000, "fingerprint": "f" * 64},
    )
    specification = trial_document(plan.trials[-1]) | {"corpus": "f" * 64}
    specification["architecture"]["block"] *= 2  # 2.5 kB, as a block with two kinds of sublayers has
    return specification, plan_document(plan, documents)


def space_of(
    number: int, size: Size, specification: dict[str, Any], plan: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The plan and the trials of one generated space: a compare design against its first variant."""
    known = plan["variants"][-1]
    variants = [
        known | {"id": _id(f"variant {number} {v}", 12), "name": f"variant_{v:03d}", "names": [f"variant_{v:03d}"]}
        for v in range(size.variants)
    ]
    trials = list(_trials(number, size, variants, specification))
    comparisons = [
        {"kind": "edit", "change": f"edit_{place:03d}", "detail": "1 → 0.5", "before": one["id"], "after": other["id"]}
        for place, (one, other) in enumerate(pairwise(variants))
    ]
    document = copy.deepcopy(plan) | {
        "space": f"space_{number:04d}",
        "baseline": variants[0]["id"],
        "variants": variants,
        "comparisons": comparisons,
        "trials": [[trial["trial"], trial["variant"], trial["seed"]] for trial in trials],
    }
    return document, trials


def _trials(
    number: int, size: Size, variants: list[dict[str, Any]], specification: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    for variant in variants:
        for seed in range(size.seeds):
            trial_id = _id(f"trial {number} {variant['id']} {seed}", 16)
            yield specification | {"trial": trial_id, "variant": variant["id"], "seed": seed}


def _id(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
