"""Mutations of texts, drawn from one stream: of characters, lines, words and trees."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

HOSTILE = (
    *("null", "~", "true", "-1", "0", "1e308", "1e999", "-0.0", ".nan", ".inf", "-.inf", "9" * 310, "0x" + "f" * 300),
    *("1e400", "007", "0o17", "1_000", "12:30:45", "2024-01-01", "2147483648", "9223372036854775808", "1" + "0" * 5000),
    *("[]", "{}", "''", '""', "[[]]", "{a: }", "[1, [2, [3]]]", "{1: 2}", "{null: 1}", "{[a]: 1}", "{true: x}", "? a"),
    *(
        "1/0",
        "(((",
        "9**9**9",
        "depth^1e9",
        "sqrt(-1)",
        "log(0)",
        "exp(1e9)",
        "1/(layer-1)",
        "2**-2**99",
        "+".join("1" * 150),
    ),
    *(
        "(" * 190,
        "-" * 190 + "1",
        "sqrt(" * 30 + "2" + ")" * 30,
        "width**width**width",
        "min()",
        "max(1)",
        "__import__('os')",
    ),
    *("layer.real", "lambda: 1", "depth if 1 else 2", "1e309", "0x10", "1j", "pi(2)", "f'{1}'", "1;2", "1e-400*width"),
    *("&a [*a]", "*a", "&a x", "<<: {a: 1}", "{<<: {a: 1}}", "!!python/object/apply:os.system [id]", "!x y", "!!int x"),
    *(
        "!!binary aGk=",
        "!!set {a}",
        "!!str 1",
        "!!float 1",
        "%YAML 1.1",
        "---",
        "...",
        "--- a\n--- b",
        "| \n x",
        ">-\n  y",
    ),
    *(
        "\x00",
        "\x1b[31mred",
        "\x07",
        "\u202eabc",
        "\u2066x\u2069",
        "\ufeff",
        "\u2028",
        "\x85",
        "\x7f",
        "\udc80",
        "\udcff\udcfe",
    ),
    *(
        '"\\ud800"',
        '"\\x1b[2J"',
        '"\\u202e"',
        '"\\0"',
        '"\\UFFFFFFFF"',
        '"\\N"',
        "'\\x1b'",
        "\U0001f600",
        "e\u0301" * 20,
    ),
    *(
        "$norm",
        "$nowhere",
        "$block",
        "$f($f)",
        "$around(mlp)",
        "$",
        "$$",
        "none",
        "any",
        "preset",
        "110%",
        "-5%",
        "1e9%",
        "%",
    ),
    *(
        "rms_norm",
        "layer_norm",
        "attention",
        "mlp",
        "residual",
        "qk_norm",
        "softcap",
        "{softcap: 1e400}",
        "pre_ln",
        "op",
    ),
    *(
        "{one_of: []}",
        "{one_of: [1, 2]}",
        "{let: {n: $norm}, in: [$n]}",
        "{max_depth: 9, one_of: [mlp, $block]}",
        "x" * 5000,
    ),
    *(
        "[" * 70 + "]" * 70,
        "{a: " * 70 + "}" * 70,
        "[" * 5000,
        "- " * 300,
        "a" * 200 + ": 1",
        "../../etc/passwd",
        "/etc/passwd",
    ),
    *("[/b]", "'[/b]'", '"[red]x"', "'[link=x]y'"),
    *(
        "{files: ['../**']}",
        "{files: ['/etc/*']}",
        "{hub: a/b, split: s, field: t}",
        "*.yaml",
        "a.b.c",
        ".",
        "..",
        "a..b",
        "'a.b'",
    ),
)
"""Texts that are not what anyone expects, each for a reason: numbers, arithmetic, YAML's corners, characters, names."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 1e308, 1e-320, 0.5, float("nan"), float("inf"), -0.0, 10**30, -(10**299)),
    *(
        "",
        " ",
        "none",
        "any",
        "text",
        "1",
        "1e3",
        "5%",
        "1/0",
        "1/sqrt(depth)",
        "width",
        "$norm",
        "a.b",
        "\x1b[1m",
        "\u202e",
    ),
    *(
        [],
        {},
        [None],
        [[]],
        {"": None},
        {"a": 1},
        {1: 2},
        {None: None},
        {True: False},
        {1.5: []},
        ["a"] * 40,
        {"x": {"x": {}}},
    ),
    *(list(range(300)), {f"k{n}": n for n in range(60)}, "long" * 2000, ["rms_norm", "mlp"], [1.5, -2], {"rate": "x"}),
    *(
        {"rms_norm": {"eps": 0}},
        {"residual": ["attention"]},
        {"one_of": ["mlp", "attention"]},
        {"let": {"n": 1}, "in": []},
    ),
    *(
        2**31,
        2**63,
        10_000_000,
        65_537,
        [0] * 5,
        ["pre_ln", "op"],
        {"adamw": {}},
        {"normal": {"std": 1e300}},
        "deep_scale",
    ),
)
"""Values for a place in a tree, of every type."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
NOT_READ = (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError)

WORD = re.compile(r"[^\s:,\[\]{}#()=.*/+-]+|[:,\[\]{}#()=.*/+-]")


def mutated(random: Random, text: str) -> str:
    """A text that differs: mostly in one place, at times in many."""
    for _ in range(min(int(random.expovariate(1.0)) + 1, 8)):
        text = random.choice(MUTATIONS)(random, text)
        if len(text) > 200_000:
            break
    return text


def characters(random: Random, text: str) -> str:
    """Delete, double, swap, flip or insert characters."""
    at = random.randrange(len(text) + 1)
    end = min(len(text), at + random.choice((1, 1, 1, 2, 5, 40)))
    piece = text[at:end]
    how = random.randrange(6)
    if how == 0:
        return text[:at] + text[end:]
    if how == 1:
        return text[:at] + piece * random.choice((2, 2, 3, 50)) + text[end:]
    if how == 2:
        return text[:at] + piece[::-1] + text[end:]
    if how == 3:
        return text[:at] + chr(random.choice((random.randrange(128), random.randrange(0x3000), 0x10FFFF))) + text[end:]
    if how == 4:
        return text[:at] + random.choice("\t\r\n\x00\x1b:#&*!|>%@`'\"\\{}[],- \udc9b\u2029\ufeff") + text[at:]
    return text[:at]  # cut off


def lines(random: Random, text: str) -> str:
    """Delete, double, swap, indent or end lines otherwise."""
    rows = text.splitlines(keepends=True)
    if not rows:
        return text
    at, other = random.randrange(len(rows)), random.randrange(len(rows))
    how = random.randrange(7)
    if how == 0:
        del rows[at : at + random.choice((1, 1, 3))]
    elif how == 1:
        rows.insert(other, rows[at])
    elif how == 2:
        rows[at], rows[other] = rows[other], rows[at]
    elif how == 3:
        rows[at] = random.choice((" ", "  ", "\t", "- ", "? ", "# ", "    " * 30)) + rows[at]
    elif how == 4:
        rows[at] = rows[at].lstrip()
    elif how == 5:
        return text.replace("\n", random.choice(("\r\n", "\r", "\n\n", "\x85", "\u2028")))
    else:
        rows[at] = rows[at].rstrip("\n") * random.choice((2, 30)) + "\n"
    return "".join(rows)


def words(random: Random, text: str) -> str:
    """Delete, double, swap or replace words: by another of the text, or by something hostile."""
    found = [match.span() for match in WORD.finditer(text)]
    if not found:
        return text + random.choice(HOSTILE)
    (start, end), (a, b) = random.choice(found), random.choice(found)
    new = random.choice(
        (random.choice(HOSTILE),) * 5 + ("", text[start:end] * 2, text[a:b], text[a:b], text[start:end][:-1])
    )
    return text[:start] + new + text[end:]


def tree(random: Random, text: str) -> str:
    """Delete, double, swap, retype or nest values of the tree that the text spells; other texts keep as they are."""
    if "&" in text:  # an alias may stand for what holds it
        return words(random, text)
    try:
        root = yaml.load(text, LOADER)
    except NOT_READ:
        return words(random, text)
    if not isinstance(root, dict | list):
        return words(random, text)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _change(random, root)
    try:
        return yaml.dump(
            root,
            Dumper=DUMPER,
            sort_keys=random.random() < 0.1,
            allow_unicode=random.random() < 0.5,
            default_flow_style=random.choice((None, False, True)),
            width=random.choice((80, 120, 1000)),
        )
    except NOT_READ:
        return words(random, text)


def places(found: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree with each of its keys."""
    all_of: list[tuple[Any, Any]] = []
    left = [found]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        all_of += [(one, key) for key in keys]
        left += [one[key] for key in keys]
    return all_of


def _change(random: Random, root: Any) -> None:
    known = places(root)
    if not known:
        return
    (inside, key), (other, its) = random.choice(known), random.choice(known)
    how = random.randrange(8)
    if how == 0:
        del inside[key]
    elif how == 1:
        inside[key] = copy.deepcopy(other[its])
    elif how == 2:
        inside[key], other[its] = copy.deepcopy(other[its]), copy.deepcopy(inside[key])
    elif how == 3 and isinstance(inside, dict):
        new = random.choice(("", 1, None, True, 2.5, "x" * 3000, "<<", "a.b", str(key) + "s", "\x1b", "none", "one_of"))
        inside[new] = inside.pop(key)
    elif how == 4 and isinstance(inside, list):
        inside.extend([copy.deepcopy(inside[key])] * random.choice((1, 2, 60)))
    elif how == 5:
        inside[key] = [inside[key]] if random.random() < 0.5 else {random.choice(("residual", "a", key)): inside[key]}
        for _ in range(random.choice((0, 0, 3, 30, 70))):
            inside[key] = [inside[key]]
    else:
        inside[key] = copy.deepcopy(random.choice(VALUES))


MUTATIONS: tuple[Callable[[Random, str], str], ...] = (characters, lines, words, words, tree, tree, tree)
