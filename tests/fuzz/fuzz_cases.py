"""Case number k of the fuzzer: a function of the seed, k and the texts that are mutated, and of nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from fuzz_mutations import HOSTILE, mutated
from fuzz_seeds import GIVEN, NAMES, PROFILES, SECONDS, SETTINGS, SQL, WORDS, Seed, right_spaces, shipped, small

SEED = 5


@dataclass(frozen=True)
class Case:
    """What is done (a name in `fuzz_targets.TARGETS`), and its words."""

    target: str
    words: tuple[str, ...]

    def line(self) -> str:
        """One line of JSON, whatever its words hold."""
        return json.dumps([self.target, *self.words])


def case_of(line: str) -> Case:
    """The case that a line spells."""
    target, *words = json.loads(line)
    return Case(target, tuple(words))


def case(number: int, seed: int = SEED) -> Case:
    """Case `number` of a seed."""
    random = Random(f"{seed}/{number}")
    draw = random.random()
    for share, make in SHARES:
        if draw < share:
            return make(random)
        draw -= share
    return _small_file(random)


def _small_file(random: Random) -> Case:
    return _file(random, random.choice(small()))


def _shipped_file(random: Random) -> Case:
    return _file(random, random.choice(shipped()))


def _file(random: Random, seed: Seed) -> Case:
    return Case("check", (seed.kind, seed.name, mutated(random, seed.text), random.choice(("", "", "--json"))))


def _setting(random: Random) -> Case:
    space = random.choice(shipped()[-2:] if random.random() < 0.04 else right_spaces())
    texts = [_word(random, SETTINGS) for _ in range(random.choice((1, 1, 1, 2)))]
    if random.random() < 0.3:
        path = random.choice(SETTINGS).partition("=")[0]
        texts[0] = f"{path}={random.choice(HOSTILE)}"
    return Case("set", (space.kind, space.name, space.text, *texts))


def _profile(random: Random) -> Case:
    space = random.choice(right_spaces())
    return Case("profile", (space.kind, space.name, space.text, _word(random, PROFILES)))


def _seconds(random: Random) -> Case:
    return Case("seconds", (_word(random, SECONDS),))


def _show(random: Random) -> Case:
    sizes = [str(random.choice((1, 2, 3, 7, 64, 65, 10**6))) if random.random() < 0.5 else "" for _ in range(5)]
    if random.random() < 0.1:
        sizes[random.randrange(5)] = str(random.choice((10**12, 10**30, 2**63)))
    return Case("show", (_word(random, NAMES), *sizes))


def _diff(random: Random) -> Case:
    return Case("diff", (_word(random, NAMES), _word(random, NAMES)))


def _sql(random: Random) -> Case:
    given = [_word(random, GIVEN) for _ in range(random.choice((0, 0, 1, 2)))]
    return Case("sql", (_word(random, SQL), *given))


def _options(random: Random) -> Case:
    words = [
        _word(random, WORDS) if random.random() < 0.2 else random.choice(WORDS) for _ in range(random.randrange(7))
    ]
    return Case("options", tuple(words))


def _word(random: Random, known: tuple[str, ...]) -> str:
    draw = random.random()
    if draw < 0.1:
        return random.choice(HOSTILE)
    word = random.choice(known)
    return word if draw < 0.25 else mutated(random, word)


SHARES = (
    (0.05, _shipped_file),
    (0.16, _setting),
    (0.02, _profile),
    (0.03, _seconds),
    (0.02, _show),
    (0.03, _diff),
    (0.03, _sql),
    (0.05, _options),
)
"""The share of each kind; the rest are small files."""
