"""Writes a space to start from: the commented template, or a copy of a shipped space."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from ablate.errors import InputError, RefusedError
from ablate.grammar.named_files import own_files, shipped_files
from ablate.source.located import Scalar
from ablate.source.problems import quote, unknown
from ablate.source.yaml import parse_yaml

TEMPLATE: Final = Path(__file__).with_name("template.yaml")
NAME: Final = "mine"
"""The name of the template's space."""
WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")


def write_space(name: str | None = None, *, example: str | None = None) -> Path:
    """Write `spaces/NAME.yaml` below the working directory; with `example`, a copy of the shipped space of that name.

    The name defaults to that of the example, or to `mine`. Raises InputError for an invalid name or an unknown example,
    and RefusedError if the user already has a space of that name, since none is overwritten, or if the file cannot be
    written.
    """
    name = name or example or NAME
    if WORD.fullmatch(name) is None:
        raise InputError(
            f"{quote(name)} cannot be the name of a space\n"
            "  = a name is a word of at most 60 letters, digits, - and _; its file is spaces/NAME.yaml"
        )
    text = TEMPLATE.read_text(encoding="utf-8") if example is None else _example(example)
    there = own_files("space").get(name)
    if there is not None:
        raise RefusedError(f"there is already a space {name}: {there}\n  = give another name: ablate init NAME")
    path = Path("spaces") / f"{name}.yaml"
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_named(text, name, of=example or NAME))
    except OSError as error:
        raise RefusedError(f"cannot write {path}: {error.strerror}") from None
    return path


def _example(name: str) -> str:
    shipped = shipped_files("space")
    if name not in shipped:
        command = "ablate list spaces"
        raise unknown(f"no space {quote(name)} ships with ablate", name, shipped, "there are", command=command)
    return shipped[name].read_text(encoding="utf-8")


def _named(text: str, name: str, *, of: str) -> str:
    """Rename a space in its text, including the commands in its comments."""
    if name == of:
        return text
    read = parse_yaml(name)
    word = name if isinstance(read, Scalar) and read.value == name else json.dumps(name)  # `1e3` is a number in YAML
    renamed = re.sub(r"^space: .*$", f"space: {word}", text, count=1, flags=re.MULTILINE)
    return re.sub(rf"(ablate \w+) {of}\b", rf"\g<1> {name}", renamed)
