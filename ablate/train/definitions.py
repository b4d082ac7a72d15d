"""Definitions of every number in a trial's rows."""

from __future__ import annotations

from ablate.block.catalogue import Catalogue
from ablate.probes.registry import definitions as probe_definitions
from ablate.space.metrics import (
    ACCURACY,
    OF_AVERAGED,
    OF_SMOOTHED,
    SMOOTHED,
    SOURCE_OF_AVERAGED,
    SOURCE_OF_SMOOTHED,
    Definition,
    of_averaged_weights,
)

ADDED_LOSS, AFTER_STEP = "added_loss", "after_step"
"""The metrics of what parts contribute (`loss.py`), named here, where no torch is loaded."""
LOSS_SCALE, SKIPPED = "loss_scale", "skipped_steps"  # the metrics of training in float16 (`loss.py`)
TRAINING = (
    Definition(
        "train_loss",
        "mean of what the objective minimises over the targets of the step's batch, before its update; of tokens and "
        "classes it is the cross-entropy in nats",
        "Shannon 1948; see ablate/train/loss.py",
    ),
    Definition(SMOOTHED, OF_SMOOTHED, SOURCE_OF_SMOOTHED),
    *(
        Definition(of_averaged_weights(metric), f"{metric} {OF_AVERAGED}", SOURCE_OF_AVERAGED)
        for metric in ("eval_loss", "eval_bits_per_byte", ACCURACY)
    ),
    Definition(
        "eval_loss",
        "mean of what the objective minimises over the targets of the evaluation, after `step` updates; of tokens and "
        "classes it is the cross-entropy in nats",
        "Shannon 1948; see ablate/train/loss.py",
    ),
    Definition(
        "eval_bits_per_byte",
        "the same loss by bytes of text: sum of nats over the evaluation windows / (ln 2 x UTF-8 bytes of the tokens "
        "predicted, a separator being one), after `step` updates; comparable across tokenizers",
        "arXiv:2101.00027, Section 3.1",
    ),
    Definition(
        ACCURACY,
        "share of the targets of the evaluation that have the largest of the logits, the first of several equal ones, "
        "after `step` updates",
        "see ablate/train/objectives/cross_entropy.py",
    ),
    Definition(
        "learning_rate",
        "rate of the step's update, before single parts' multiples; at `embedding` the embeddings' own, if any, and at "
        "`adamw` that of what Muon leaves to AdamW, where it has one",
        "see ablate/space/schedule.py",
    ),
    Definition(
        LOSS_SCALE,
        "in float16, what the loss of the step was multiplied by for the backward pass, and its gradients divided by",
        "Micikevicius et al. 2018, arXiv:1710.03740; see ablate/train/loss.py",
    ),
    Definition(
        SKIPPED,
        "in float16, how many steps up to this one made no update because a scaled gradient was not finite; such a "
        "step has no gradient_norm",
        "Micikevicius et al. 2018, arXiv:1710.03740; see ablate/train/loss.py",
    ),
    Definition(
        ADDED_LOSS,
        "a loss that a part, or the recipe at `head`, adds to the cross-entropy, already weighted, of the step's batch "
        "before its update, at the address of the part and the name of the loss; what is minimised is the sum of "
        "train_loss and all of these",
        "see ablate/train/loss.py and the part's own file",
    ),
    Definition(
        AFTER_STEP,
        "a number that a part gives once the step's update is made, of that step, at the address of the part and the "
        "name of the number",
        "see ablate/train/loss.py and the part's own file",
    ),
)


def definitions(catalogue: Catalogue | None = None) -> tuple[Definition, ...]:
    """Every metric that a trial can yield, in order of name: the loop's own and those of all probes."""
    return tuple(sorted((*TRAINING, *probe_definitions(catalogue)), key=lambda definition: definition.metric))
