"""Every sampler that ships holds the contract, and so does one of a plugin, by which a search comes to an answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest
from documents import code
from grammar_fixtures import grammar
from search_fixtures import World, best, carried_out, searched, surface

from ablate.components.registry import declarations
from ablate.errors import InputError
from ablate.execute.search.proposer import sampler_on
from ablate.extension.declaration import SAMPLER
from ablate.extension.loader import shipped
from ablate.space.design import Budget, SamplerSpec
from ablate.space.documents import Choice
from ablate.space.load import load_space
from ablate.testing import SamplerContract

SHIPPED = tuple(sorted(spec.name for spec in shipped(SAMPLER)))


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.full if name == "gp" else ()) for name in SHIPPED])
def sampler(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestShipped(SamplerContract):
    @pytest.fixture(autouse=True)
    def named(self, sampler: str) -> None:
        self.sampler = sampler


def written() -> str:
    """The example of the manual."""
    return code("sampler", "python")[0]


NEIGHBOUR = "neighbour: {startup: 10}"
BROKEN = {
    "a_function_of_seed_number_and_history": ("generator(self.seed, k)", "__import__('random')"),
    "keeps_nothing_between_proposals": (
        "generator(self.seed, k)",
        "generator(self.seed, self.__dict__.setdefault('kept', []).append(k) or len(self.kept))",
    ),
    "proposes_what_is_admitted": (
        "return uniform(self.ground, rng)",
        "index = rng.randrange(self.ground.count); n = len(choices(self.ground.derivations, index)); "
        "return Proposal(index, self.ground.derive(index), n, n, {})",
    ),
    "counts_its_choices": ("len(made), anew", "len(made) + 1, anew"),
    "counts_what_was_refused": ("anew, varied.refused", "anew, {}"),
    "proposes_values_beside_blocks": (
        "varied.block,",
        "getattr(varied.block, 'block', varied.block),",
    ),
}


def plugin(folder: Path, text: str) -> Path:
    path = folder / "neighbour.py"
    path.write_text(text, encoding="utf-8")
    return path


def of_plugin(folder: Path, text: str) -> SamplerContract:
    of = SamplerContract()
    of.plugins, of.sampler = (plugin(folder, text),), NEIGHBOUR
    return of


def test_the_example_holds_it(tmp_path: Path) -> None:
    of_plugin(tmp_path, written()).check_all()


@pytest.mark.parametrize("broken", BROKEN)
def test_each_part_of_it_can_fail(tmp_path: Path, broken: str) -> None:
    before, after = BROKEN[broken]
    assert before in written()
    with pytest.raises(AssertionError):
        getattr(of_plugin(tmp_path, written().replace(before, after)), f"test_{broken}")()


def test_there_is_a_twin_for_each_part() -> None:
    assert {f"test_{name}" for name in BROKEN} == {name for name in dir(SamplerContract) if name.startswith("test_")}


RULES = """norm: [none, layer_norm, rms_norm]
gain: [1, 0.5, {init: 0, trainable: true}]
f: [attention, mlp, {mlp: {activation: relu}}]
block: [[residual: {gain: $gain, branch: [$norm, $f]}, residual: {gain: $gain, branch: [$norm, $f]}]]"""


@pytest.mark.full
def test_a_search_by_a_plugin_comes_to_a_better_answer_than_chance(tmp_path: Path) -> None:
    """40 trials on each of 8 surfaces over 729 derivations; and its best is the best there is on one of them at least,
    which 40 draws seldom find."""
    catalogue = declarations((plugin(tmp_path, written()),))
    small = grammar(RULES, catalogue=catalogue)
    assert small.count == 729

    def answers(chosen: Choice) -> list[float]:
        proposals = []
        for seed in range(8):
            proposer = sampler_on(World(small), chosen, seed, ("min",), catalogue)
            search = searched(small, proposer, budget=Budget(trials=40))
            list(carried_out(search, surface(small, seed)))
            assert search.why_over == "budget" and search.trained == 39
            proposals.append(best(search, len(search.proposed)))
        return proposals

    neighbours, draws = answers(Choice("neighbour", {"startup": 10})), answers(Choice("random"))
    assert fmean(neighbours) < fmean(draws)
    least = [min(surface(small, seed)(index).values[0] for index in range(small.count)) for seed in range(8)]
    assert any(reached == bound for reached, bound in zip(neighbours, least, strict=True))


SMALL = Path(__file__).parent.parent / "errors" / "grammars" / "small.yaml"
SPACE = f"""\
space: small
question: Which block loses least?
grammar: {SMALL}
model:   {{layers: 4, width: 32, heads: 4, context: 16, init: {{normal: 0.02}}}}
recipe:  {{steps: 20, batch: 4, optimizer: {{adamw: {{lr: 1e-2}}}}}}
design:  {{search: {{from: pre_ln, objective: {{eval_loss: min}}, budget: {{trials: 60}}, sampler: SAMPLER}}}}
seeds:   2
measure: {{every: 5, probes: [kurtosis], evaluation: {{every: 10, windows: 8}}}}
judge:   {{against: pre_ln, metrics: {{eval_loss: {{margin: 1%}}}}}}
"""


def test_a_space_chooses_one_of_a_plugin_with_its_settings(tmp_path: Path) -> None:
    catalogue = declarations((plugin(tmp_path, written()),))

    def read(sampler: str) -> object:
        (tmp_path / "space.yaml").write_text(SPACE.replace("SAMPLER", sampler), encoding="utf-8")
        search = load_space(tmp_path / "space.yaml", catalogue).design.search
        assert search is not None
        return search.model_dump(mode="json")["sampler"], str(search.sampler)

    assert read("{neighbour: {startup: 4}}") == ({"neighbour": {"startup": 4}}, "neighbour (startup: 4)")
    assert read("tpe") == ("tpe", "tpe")
    with pytest.raises(InputError, match=r"missing key 'startup' in design\.search\.sampler\.neighbour"):
        read("neighbour")
    with pytest.raises(InputError, match=r"startup must be at least 1, got 0"):
        read("{neighbour: {startup: 0}}")
    with pytest.raises(InputError, match=r"unknown sampler 'neighbor'\n(.*\n)*.*did you mean 'neighbour'"):
        read("{neighbor: {startup: 4}}")
    two = SPACE.replace("{eval_loss: min}, budget", "{eval_loss: min, peak_kurtosis: min}, budget")
    (tmp_path / "space.yaml").write_text(two.replace("SAMPLER", "{neighbour: {startup: 4}}"), encoding="utf-8")
    with pytest.raises(InputError, match="neighbour supports one objective, and this search has 2"):
        load_space(tmp_path / "space.yaml", catalogue)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('objectives="one"', 'objectives="two"', "a sampler has one objective or several, not 'two'"),
        ("    startup: Count", "    startup: Count = 10", "field 'startup' has a default"),
        ("@implements(Neighbour)", "", "sampler 'neighbour' has no proposer"),
        ('sampler("neighbour"', 'sampler("tpe"', "sampler 'tpe' is declared twice"),
    ],
)
def test_a_wrong_declaration_is_told_at_its_place(tmp_path: Path, before: str, after: str, told: str) -> None:
    assert before in written()
    path = plugin(tmp_path, written().replace(before, after, 1))
    with pytest.raises(InputError, match=told) as refused:
        declarations((path,))
    assert f"--> {path}:" in str(refused.value)


def test_what_is_declared_is_read_without_what_proposes() -> None:
    heavy = ("torch", "optuna", "cmaes", "numpy", "ablate.execute.search.proposer")
    script = f"""
import sys
from ablate.components.registry import declarations
from ablate.space.design import SamplerSpec
known = declarations().of_kind(SamplerSpec)
print(sorted(known), [name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{list(SHIPPED)} []"


def test_what_ships_says_where_it_is_from() -> None:
    objectives = {spec.name: spec.objectives for spec in shipped(SAMPLER) if isinstance(spec, SamplerSpec)}
    several = dict.fromkeys(("random", "tpe", "gp", "nsga2", "evolution"), "several")
    assert objectives == objectives | several | {"cmaes": "one"}
