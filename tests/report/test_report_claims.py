"""The sentence about a claim: whether it was made before its results, what has changed since, and what became of it.

Each case is a results folder: runs at given days, of which the last is shown. `pytest -n 0 --update-goldens` writes the
screens anew.
"""

import io
from pathlib import Path

import pytest
from claim_worlds import Ran, carry_out, claim, correlation, equivalent, order
from rich.console import Console

from ablate.report.answers import sentences
from ablate.report.document import plain

FOLDER = Path(__file__).parent / "claims"
HOT, SAME = claim(), claim("equivalent")
CASES = {
    "before": [Ran(day=1, claims=[HOT])],
    "after": [Ran(day=1), Ran(day=2, claims=[HOT])],
    "one_seed_more": [Ran(day=1, claims=[HOT]), Ran(day=2, claims=[HOT], seeds=4)],
    "after_a_smoke": [Ran(day=1, profile="smoke", seeds=2, salt="-small"), Ran(day=2, claims=[HOT])],
    "with_a_smoke": [Ran(day=1, claims=[HOT], profile="smoke", seeds=2, salt="-small"), Ran(day=2, claims=[HOT])],
    "changed_after": [Ran(day=1, claims=[claim("worse")]), Ran(day=2, claims=[HOT])],
    "changed_before": [
        Ran(day=1, claims=[claim("worse")], ends=dict.fromkeys(["hot", "cold"], "")),
        Ran(day=2, claims=[HOT]),
    ],
    "size_added": [Ran(day=1, claims=[HOT]), Ran(day=2, claims=[{**HOT, "by": "5%"}])],
    "moved": [Ran(day=1, claims=[HOT]), Ran(day=2, claims=[HOT], space="weather", names=("base", "hot"))],
    "known_elsewhere": [Ran(day=1), Ran(day=2, claims=[HOT], space="weather")],
    "shared_baseline": [Ran(day=1, space="weather", names=("base", "cold")), Ran(day=2, claims=[HOT])],
    "margin_changed": [Ran(day=1, claims=[SAME]), Ran(day=2, claims=[SAME], margin="30%")],
    "diverged": [Ran(day=1, ends={"hot": "diverged"}), Ran(day=2, claims=[HOT], seeds=4)],
    "failed": [Ran(day=1, ends={"hot": "bug"}), Ran(day=2, claims=[HOT], seeds=4)],
    "order": [Ran(day=1, claims=[order()], seeds=5)],
    "order_not_so": [Ran(day=1, claims=[order("cold < base < hot")], seeds=5)],
    "order_late": [Ran(day=1, ends={"cold": ""}), Ran(day=2, claims=[order()], seeds=5)],
    "order_turned": [Ran(day=1, claims=[order("cold < base < hot")]), Ran(day=2, claims=[order()])],
    "equivalent": [Ran(day=1, claims=[equivalent("base", "hot", "cold")], seeds=5, margin="20%")],
    "trend": [Ran(day=1, claims=[claim("better", of="heat: trend")], trend=True)],
    "correlation": [Ran(day=1, claims=[correlation()], seeds=8)],
    "correlation_late": [Ran(day=1), Ran(day=2, claims=[correlation("negative")], seeds=8)],
    "correlation_early": [Ran(day=1, ends={"cold": ""}), Ran(day=2, claims=[correlation()], seeds=3)],
    "lost": [Ran(day=1, lose=["hot"]), Ran(day=2, claims=[HOT])],
}


def shown(summary) -> str:
    console = Console(width=100, file=io.StringIO())
    for statement in sentences(summary):
        if plain(statement.words).startswith("claim: "):
            console.print(plain(statement.words), highlight=False, markup=False)
    return console.file.getvalue()


@pytest.mark.parametrize("case", CASES)
def test_the_screen(case, tmp_path, monkeypatch, golden):
    golden(FOLDER / f"{case}.txt", shown(carry_out(tmp_path, CASES[case], monkeypatch)))
