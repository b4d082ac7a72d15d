"""Sequence to sequence: a target is predicted token by token, from a source and the tokens before.

    L = - mean_n log softmax(logits_n)[target_n]        over the tokens n of all targets, the separator that ends each
                                                        included

Sources and targets longer than `model.source` and `model.context` are cut off there. A source may be frames, such as
those of speech: what fills it up is 0, the mean over the training split, and is read as silence is.

    Sutskever et al. 2014, arXiv:1409.3215; Vaswani et al. 2017, arXiv:1706.03762
"""

from __future__ import annotations

from ablate.space.recipe import Special
from ablate.train.objectives.declare import Settings, implements, objective


@objective(
    "sequence_to_sequence",
    models=("encoder_decoder",),
    reads="pairs",
    measures=("eval_accuracy", "eval_bits_per_byte", "perplexity"),
    source="Sutskever et al. 2014, arXiv:1409.3215",
    version=1,
)
class SequenceToSequence(Settings):
    """No settings: `objective: sequence_to_sequence`."""

    @property
    def special(self) -> tuple[Special, ...]:
        """The start of a target, and the padding of both."""
        return ("start", "padding")


import torch
from torch import Tensor, nn

from ablate.data.batch import NO_TARGET, Batch
from ablate.data.pairs import real_places, teacher_forced
from ablate.data.uniform import Uniform
from ablate.train.objectives.cross_entropy import CrossEntropy


@implements(SequenceToSequence)
class Objective(CrossEntropy):
    """A source [B, S], or frames [B, S, F], and the target [B, T] one token earlier, and the target."""

    def batch(self, drawn: Batch, uniform: Uniform) -> Batch:
        """Fill up what was drawn: a source and a target, each with its length; of frames, a target with NO_TARGET."""
        (source, source_lengths), answers = drawn
        if isinstance(answers, Tensor):
            longest = self.sizes.seq_len
            target = nn.functional.pad(answers, (0, max(0, longest - answers.shape[1])), value=NO_TARGET)[:, :longest]
            return teacher_forced(source, target.clamp_min(0), (target != NO_TARGET).sum(1), self.sizes)
        target, target_lengths = answers
        assert self.sizes.padding is not None
        source = torch.where(real_places(source, source_lengths), source, self.sizes.padding)
        return teacher_forced(source, target, target_lengths, self.sizes)
