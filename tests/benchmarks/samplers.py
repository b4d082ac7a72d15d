"""What samplers reach on surfaces of the shipped grammar, paired by surface and seed.

    PYTHONPATH=tests/support python tests/benchmarks/samplers.py --surfaces 100 --samplers tpe optuna neps

Each sampler makes 60 proposals that no constraint refuses, repeats counted, on each surface of `search_fixtures`; what
counts is the least value. The surface's number is the sampler's seed too. `optuna` is its TPE as it comes, which is
told what was refused as pruned; `optuna_independent` and `optuna_grouped` are the same with `multivariate=False` and
with `group=True`. `neps` is the regularised evolution of neural-pipeline-search on the grammar as a space of its own,
to which a refusal is an error. Its 0.17.0 keeps nothing of a parent, since it looks up a parent's choices under other
names than they are kept by; `neps_mended` looks them up by the right ones. It is no dependency, and needs an
environment that has it. The others are samplers that ship, as a search uses them.

With `--kept` what is done is kept in a file, and another call continues. A line is printed for each sampler, and one
for each that the first is compared with: mean of the paired differences with its 95 % interval (Student's t); below 0
is better.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from reading import transformer
from scipy.stats import t as student
from search_fixtures import Surface, carried_out, search, surface

from ablate.grammar.choices import OpenChoice, decide
from ablate.grammar.derivation import Alternatives, Let, Named, Product, Template
from ablate.store.machines import installed

PROPOSALS = 60
OPTUNA: dict[str, dict[str, bool]] = {
    "optuna": {},
    "optuna_independent": {"multivariate": False},
    "optuna_grouped": {"multivariate": True, "group": True, "constant_liar": False},
}


def ours(sampler: str, seed: int, came_to: Surface) -> Iterator[float]:
    """The values of a search by a sampler that ships."""
    found = search(transformer(), sampler, seed=seed)
    list(carried_out(found, came_to, until=PROPOSALS))
    for one in found.proposed:
        yield came_to(one.proposal.index).values[0]


def by_optuna(settings: dict[str, bool], seed: int, came_to: Surface) -> Iterator[float]:
    """The values of Optuna's TPE, one parameter for each choice, suggested where it arises."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, **settings))
    while True:
        trial = study.ask()

        def chosen(choice: OpenChoice, trial: Any = trial) -> int:
            n = len(choice.words)
            if choice.ordered:
                return int(trial.suggest_int(choice.name, 0, n - 1))
            return int(trial.suggest_categorical(choice.name, range(n)))

        index = decide(transformer().derivations, chosen).index
        if transformer().refusals(transformer().derive(index)):
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        study.tell(trial, value := came_to(index).values[0])
        yield value


def by_neps(seed: int, came_to: Surface, *, mended: bool) -> Iterator[float]:
    """The values of NePS, for which every choice is a categorical whose alternatives contain further ones."""
    import neps
    from neps.space.neps_spaces import neps_space, sampling

    space = neps_space_of(transformer().derivations)
    random.seed(seed)
    evolution = neps.algorithms.neps_regularized_evolution(space)
    if mended:
        plain, crossed = evolution._mutate_best, evolution._crossover_top_2
        evolution._mutate_best = lambda config: plain(stripped(config))
        evolution._crossover_top_2 = lambda trials: crossed(
            [replace(trial, config=stripped(trial.config)) for trial in trials]
        )
    asked = neps.AskAndTell(evolution)
    while True:
        trial = asked.ask()
        read = neps_space.NepsCompatConverter.from_neps_config(trial.config)
        resolved, _ = neps_space.resolve(
            space, sampling.OnlyPredefinedValuesSampler(read.predefined_samplings), read.environment_values
        )
        index = number_of(transformer().derivations, resolved.block)
        if transformer().refusals(transformer().derive(index)):
            asked.tell(trial, ValueError("refused"))
            continue
        asked.tell(trial, value := came_to(index).values[0])
        yield value


def stripped(config: Mapping[str, Any]) -> dict[str, Any]:
    """The choices of a NePS configuration by the names that its samplers look them up by."""
    return {name.removeprefix("SAMPLING__"): value for name, value in config.items()}


def neps_space_of(template: Template) -> Any:
    """The derivations of a template as a space of NePS."""
    import neps

    def space(part: Template) -> Any:
        match part:
            case Named(body=body):
                return space(body)
            case Alternatives(alternatives=alternatives, scale=scale):
                live = [option for option in alternatives if option.count]
                if len(live) == 1:
                    return space(live[0])
                if scale is not None:
                    return neps.Operation("number", kwargs={"at": neps.Integer(0, len(live) - 1)})
                return neps.Categorical(
                    tuple(neps.Operation(str(place), kwargs={"of": space(one)}) for place, one in enumerate(live))
                )
            case Product(holes=holes):
                return neps.Operation("all", kwargs={f"h{n}": space(hole) for n, hole in enumerate(holes)})
            case Let(drawn=drawn, body=body):
                return neps.Operation("let", kwargs={"drawn": space(drawn), "body": space(body)})
        return neps.Operation("fixed")

    class Blocks(neps.PipelineSpace):
        block = space(template)

    return Blocks()


def number_of(template: Template, resolved: Any) -> int:
    """The number of the derivation that NePS has resolved."""
    match template:
        case Named(body=body):
            return number_of(body, resolved)
        case Alternatives(alternatives=alternatives, scale=scale):
            live = [place for place, option in enumerate(alternatives) if option.count]
            if len(live) == 1:
                return number_of(alternatives[live[0]], resolved)
            at = live[int(resolved.kwargs["at"] if scale is not None else resolved.operator)]
            before = sum(option.count for option in alternatives[:at])
            return before + (0 if scale is not None else number_of(alternatives[at], resolved.kwargs["of"]))
        case Product(holes=holes):
            k = 0
            for n, hole in enumerate(holes):
                k = k * hole.count + number_of(hole, resolved.kwargs[f"h{n}"])
            return k
        case Let(drawn=drawn, body=body):
            return number_of(drawn, resolved.kwargs["drawn"]) * body.count + number_of(body, resolved.kwargs["body"])
    return 0


def of(sampler: str) -> Callable[[int, Surface], Iterator[float]]:
    """What makes the values of a sampler."""
    if sampler in OPTUNA:
        return lambda seed, came_to: by_optuna(OPTUNA[sampler], seed, came_to)
    if sampler in ("neps", "neps_mended"):
        return lambda seed, came_to: by_neps(seed, came_to, mended=sampler == "neps_mended")
    return lambda seed, came_to: ours(sampler, seed, came_to)


def carried(samplers: list[str], seeds: range, kept: Path | None) -> dict[str, dict[int, tuple[float, float]]]:
    """By sampler and surface, the least value and the processor's seconds."""
    done: dict[str, dict[int, tuple[float, float]]] = {sampler: {} for sampler in samplers}
    for line in kept.read_text(encoding="utf-8").splitlines() if kept and kept.exists() else ():
        one = json.loads(line)
        done.setdefault(one["sampler"], {})[one["surface"]] = (one["least"], one["seconds"])
    for seed in seeds:
        came_to = surface(transformer(), seed)
        for sampler in samplers:
            if seed in done[sampler]:
                continue
            start = time.process_time()
            values = of(sampler)(seed, came_to)
            least = min(next(values) for _ in range(PROPOSALS))
            done[sampler][seed] = (least, time.process_time() - start)
            if kept:
                line = {"sampler": sampler, "surface": seed, "least": least, "seconds": done[sampler][seed][1]}
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    return done


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samplers", nargs="+", default=["tpe", "optuna"])
    parser.add_argument("--surfaces", type=int, default=100)
    parser.add_argument("--first", type=int, default=1000, help="the number of the first surface")
    parser.add_argument("--kept", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(asked.first, asked.first + asked.surfaces)
    done = carried(asked.samplers, seeds, asked.kept)
    versions = installed() | {"cores": str(os.cpu_count())}
    for package in ("optuna", "neural-pipeline-search"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    about = {"benchmark": "samplers", "date": datetime.now(UTC).date().isoformat(), "proposals": PROPOSALS}
    about |= {"surfaces": [seeds[0], seeds[-1]]}
    first, *others = asked.samplers
    for sampler in asked.samplers:
        least, seconds = zip(*(done[sampler][seed] for seed in seeds), strict=True)
        numbers = {"mean_least": round(fmean(least), 4), "seconds_a_search": round(fmean(seconds), 2)}
        print(json.dumps(about | {"sampler": sampler} | numbers | {"least": [round(one, 4) for one in least]}))
    for other in others:
        differences = [done[first][seed][0] - done[other][seed][0] for seed in seeds]
        mean, n = fmean(differences), len(differences)
        half = float(student.ppf(0.975, n - 1)) * stdev(differences) / n**0.5
        found = {"difference": round(mean, 4), "interval": [round(mean - half, 4), round(mean + half, 4)]}
        better = sum(one < 0 for one in differences)
        print(json.dumps(about | {"of": first, "to": other} | found | {"better_on": better, "versions": versions}))


if __name__ == "__main__":
    main()
