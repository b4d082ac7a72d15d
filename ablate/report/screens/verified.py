"""The output of `ablate verify`: a line for each check, the wrong ones last, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType

from ablate.output.terminal import Text
from ablate.output.words import plural

STYLES = {"right": "green", "told": "yellow", "wrong": "bold red"}
LABELS = {"right": "right", "told": "note", "wrong": "WRONG"}


def screen(checks: Sequence[Mapping[str, str]], heads: Mapping[str, str]) -> RenderableType:
    """Return all `checks` (`space`, `check`, `answer`, `what`), and the heads of the records by space."""
    ranked = sorted(checks, key=lambda check: [*STYLES].index(check["answer"]))
    lines = [
        Text.assemble(
            (f"{LABELS[check['answer']]:5}", STYLES[check["answer"]]),
            f"  {check['space'] + ' ' if check['space'] else ''}{check['check']}: {check['what']}",
        )
        for check in ranked
    ]
    lines += [Text(f"records of {space}: {head}", style="dim") for space, head in heads.items()]
    return Group(*lines, _verdict(checks))


def _verdict(checks: Sequence[Mapping[str, str]]) -> Text:
    counted = {answer: sum(check["answer"] == answer for check in checks) for answer in STYLES}
    if counted["wrong"]:
        return Text(f"{plural(counted['wrong'], 'thing')} wrong", style=STYLES["wrong"])
    left = f"; {plural(counted['told'], 'thing')} could not be decided" if counted["told"] else ""
    return Text(f"nothing is wrong{left}", style=STYLES["told" if left else "right"])
