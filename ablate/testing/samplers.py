"""The contract of a sampler, to inherit: six checks on a small grammar with ordered numbers and constraints.

`ablate docs sampler` shows its use. The sampler is written as in `design.search.sampler`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ablate import api
from ablate.block.catalogue import Catalogue
from ablate.execute.search.proposer import Proposal, Proposer, sampler_on
from ablate.execute.search.ranking import Result
from ablate.execute.search.search_space import parts_of_number, with_values
from ablate.grammar.choices import choices
from ablate.grammar.grammar import Grammar, read_grammar
from ablate.plan.proposals import Treated, block_of, treated
from ablate.source.located import Mapping
from ablate.source.problems import Problems
from ablate.source.yaml import parse_yaml
from ablate.space.design import Goal, SamplerSpec
from ablate.space.documents import Choice
from ablate.space.vary import VariedAddress, read_vary
from ablate.testing.contract import Contract, chosen_of, written_choice

GRAMMAR = """
grammar: samplers
start: block
defaults:
  residual: {skip: 1, gain: 1, branch: []}
  layer_norm: {eps: 1e-5, scale: true, bias: true}
  rms_norm: {eps: 1e-8, outside: false, scale: true}
  attention: {query: dense, key: dense, value: dense, projection: dense, pre_qk: none, pre_v: none, entropy: none,
              position: none, bias: none, matrix: softmax, scale: 1/sqrt(head_width), dropout: 0}
  mlp: {activation: gelu, hidden: 4x, input_scale: 1, up: dense, gate: none, down: dense}
  dense: {bias: false, init: none, rate: 1}
blocks: {}
rules:
  norm: [none, layer_norm, rms_norm]
  gain: {between: [0.1, 1], points: 9, scale: linear}
  skip: {between: [0.5, 1], points: 5, scale: linear}
  activation: [relu, gelu, silu]
  block:
    - - residual: {gain: $gain, skip: $skip, branch: [$norm, attention]}
      - residual: {gain: $gain, branch: [$norm, mlp: {activation: $activation}]}
    - - residual: {gain: $gain, skip: $skip, branch: [$norm, mlp: {activation: $activation}]}
constraints:
  - {when: {attention_norm: any}, forbid: {mlp_norm: any}, because: a norm before one of them}
  - {when: {mlp.activation: silu}, forbid: {mlp_norm: any}, because: no norm before silu}
"""
VARY = "{recipe.optimizer.adamw.lr: {from: 1e-4, to: 1e-1, scale: log}, model.layers: {from: 2, to: 6, step: 1}}"
"""The values that a search varies beside its grammar."""
LENGTHS = (0, 1, 2, 3, 5, 24)
"""The number of results when a proposal is made."""
SEEDS = (1, 2)


class SamplerContract(Contract):
    """Six tests of one sampler: `sampler` is YAML, `plugins` are the files to read.

    A sampler for several objectives is tested with one and with two, one minimised and one maximised.
    """

    sampler: str = ""

    def test_a_function_of_seed_number_and_history(self) -> None:
        """New proposers make the same proposals, whatever the state of Python's and NumPy's global generators."""
        for goals in self._goals():
            for seed in SEEDS:
                for history in self._histories(goals):
                    proposals = [self._proposed(goals, seed, history, stirred) for stirred in (1, 2)]
                    message = f"from seed {seed} after {len(history)} results: {_difference(proposals)}"
                    assert proposals[0] == proposals[1], message

    def test_keeps_nothing_between_proposals(self) -> None:
        """A proposer that has already made early and late proposals proposes the same as a new one."""
        for goals in self._goals():
            *_, last = histories = list(self._histories(goals))
            used, _ = self._proposer(goals, 7)
            for before in (last, *histories):
                used.propose(len(before) + 1, before)
            for history in histories:
                fresh, _ = self._proposer(goals, 7)
                proposals = [fresh.propose(len(history), history), used.propose(len(history), history)]
                message = f"used before, after {len(history)} results: {_difference(proposals)}"
                assert proposals[0] == proposals[1], message

    def test_proposes_what_is_admitted(self) -> None:
        """Each proposal is a derivation of the grammar with its block, and no constraint refuses it."""
        for proposal, seen in self._proposals():
            assert 0 <= proposal.index < seen.count, f"there is no derivation {proposal.index}"
            assert seen.grammar.derive(proposal.index) == proposal.block, (
                f"derivation {proposal.index} has another block"
            )
            reasons = seen.grammar.refusals(proposal.block)
            assert not reasons, f"derivation {proposal.index} is refused: {', '.join(reasons)}"

    def test_counts_its_choices(self) -> None:
        """A proposal counts the choices of its derivation, and how many of them were random."""
        for proposal, seen in self._proposals():
            made = len(choices(seen.derivations, proposal.index))
            assert proposal.choices == made, f"{proposal.choices} choices are counted, but {made} were made"
            assert 0 <= proposal.random <= made, f"{proposal.random} of {made} choices are counted as random"
            assert proposal.passed_over == 0, "passed_over must be 0: only an order passes over proposals"

    def test_counts_what_was_refused(self) -> None:
        """`refused` counts each reason as often as the grammar gave it on the way to a proposal.

        All of `met` were refused on that way; a sampler may leave it empty.
        """
        for proposal, seen in self._proposals():
            assert dict(proposal.refused) == dict(seen.refused), (
                f"refusals are counted as {dict(proposal.refused)}, but were {dict(seen.refused)}"
            )
            for index in proposal.met:
                assert index in seen.met, f"derivation {index} is in `met`, but was not refused"

    def test_proposes_values_beside_blocks(self) -> None:
        """Where a search varies values too, these are choices like any other, and a proposal is what was derived."""
        for goals in self._goals():
            for history in self._histories(goals, varying=True):
                proposer, seen = self._proposer(goals, SEEDS[0], varying=True)
                proposal = proposer.propose(len(history), history)
                assert 0 <= proposal.index < seen.count, f"there is no derivation {proposal.index}"
                assert seen.derive(proposal.index) == proposal.block, f"derivation {proposal.index} has other values"
                made = len(choices(seen.derivations, proposal.index))
                assert proposal.choices == made, f"{proposal.choices} choices are counted, but {made} were made"

    def _proposals(self) -> Iterator[tuple[Proposal, _Counted]]:
        """Proposals after each history, each with the grammar that counted for it alone."""
        for goals in self._goals():
            for seed in SEEDS:
                for history in self._histories(goals):
                    proposer, seen = self._proposer(goals, seed)
                    yield proposer.propose(len(history), history), seen

    def _proposed(self, goals: tuple[Goal, ...], seed: int, history: Sequence[Result], stirred: int) -> Proposal:
        proposer, _ = self._proposer(goals, seed)
        with _global_generators(stirred):
            return proposer.propose(len(history), history)

    def _proposer(self, goals: tuple[Goal, ...], seed: int, *, varying: bool = False) -> tuple[Proposer, _Counted]:
        chosen, catalogue = self._chosen()
        seen = _Varying(_grammar(catalogue)) if varying else _Counted(_grammar(catalogue))
        return sampler_on(seen, chosen, seed, goals, catalogue), seen

    def _goals(self) -> Iterator[tuple[Goal, ...]]:
        yield ("min",)
        chosen, catalogue = self._chosen()
        if catalogue.of_kind(SamplerSpec)[chosen.name].objectives == "several":
            yield ("min", "max")

    def _histories(self, goals: tuple[Goal, ...], *, varying: bool = False) -> Iterator[tuple[Result, ...]]:
        """Results of different derivations: one diverged, one failed by a bug, one was refused, others have values."""
        _, catalogue = self._chosen()
        rng = random.Random(3)
        grammar = _grammar(catalogue)
        drawn = rng.sample(range(_Varying(grammar).count if varying else grammar.count), max(LENGTHS))
        results = [Result(index, "finished", tuple(rng.gauss(0, 1) for _ in goals)) for index in drawn]
        results[1], results[3] = Result(drawn[1], "diverged"), Result(drawn[3], "bug")
        results[4] = Result(drawn[4], "refused")
        for length in LENGTHS:
            yield tuple(results[:length])

    def _chosen(self) -> tuple[Choice, Catalogue]:
        """InputError for a mistake in the YAML."""
        catalogue = api.catalogue(self.plugins)
        _, chosen = chosen_of(SamplerSpec, written_choice(SamplerSpec, self.sampler), catalogue)
        return chosen, catalogue


class _Counted:
    """A grammar that counts what it refuses."""

    def __init__(self, grammar: Grammar):
        self.grammar, self.refused = grammar, Counter[str]()
        self.met: set[int] = set()
        self.last = -1
        self.name, self.count, self.derivations = grammar.name, grammar.count, grammar.derivations

    def derive(self, k: int) -> Treated:
        self.last = k
        return self.grammar.derive(k)

    def refusals(self, block: Treated) -> tuple[str, ...]:
        reasons = self.grammar.refusals(block_of(block))
        self.refused.update(reasons)
        if reasons:
            self.met.add(self.last)
        return reasons

    def way_out(self, reason: str) -> str:
        return self.grammar.way_out(reason)


class _Varying(_Counted):
    """A grammar beside which a search varies values."""

    def __init__(self, grammar: Grammar):
        super().__init__(grammar)
        self.varied = _varied()
        self.derivations = with_values(grammar.derivations, self.varied)
        self.count = self.derivations.count

    def derive(self, k: int) -> Treated:
        self.last = k
        index, levels = parts_of_number(k, self.varied)
        values = zip(self.varied, levels, strict=True)
        return treated(self.grammar.derive(index), tuple((factor.address, level.value) for factor, level in values))


def _varied() -> tuple[VariedAddress, ...]:
    problems, written = Problems(), parse_yaml(f"vary: {VARY}", "the contract of a sampler")
    assert isinstance(written, Mapping)
    vary = read_vary(written.key("vary"), written["vary"], problems, ranges=True)
    problems.raise_if_any()
    assert vary is not None
    return vary.factors


def _grammar(catalogue: Catalogue) -> Grammar:
    problems = Problems()
    grammar = read_grammar(parse_yaml(GRAMMAR, "samplers.yaml"), Path("samplers.yaml"), catalogue, problems)
    problems.raise_if_any()
    assert grammar is not None
    return grammar


@contextmanager
def _global_generators(seed: int) -> Iterator[None]:
    """Seed Python's and NumPy's global generators within the context, and restore them afterwards."""
    import numpy as np

    before, of_numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(of_numpy)


def _difference(proposals: Sequence[Proposal]) -> str:
    indices = [proposal.index for proposal in proposals]
    same = "the same derivation with different counts" if len(set(indices)) == 1 else f"derivations {indices}"
    return f"the proposals differ: {same}"
