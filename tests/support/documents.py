"""README and the pages of the manual, for the tests that hold them to what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MANUAL = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "ablate" / "docs").glob("*.md"))}
DOCUMENTS = {"README": README, **MANUAL}


def code(document: str, language: str) -> list[str]:
    """The code blocks of one language in a document, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENTS[document], re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    """The words behind `ablate` of every command line in a block of shell, in any document."""
    blocks = [block for document in DOCUMENTS for block in code(document, "sh")]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("ablate ")]
    return [list(words) for words in dict.fromkeys(tuple(shlex.split(line, comments=True)[1:]) for line in lines)]
