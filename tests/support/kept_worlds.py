"""A project as an author has it: a space with a grammar, a plugin and a tokenizer of its own, each in its folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tiny_spaces import ROOT, write_world
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from typer.testing import CliRunner, Result

from ablate.cli.app import app

BLOCKS = "blocks:\n  half_norm: [residual: [layer_norm, pool], residual: [layer_norm, mlp]]\n"
RUN = ("run", "spaces/tiny.yaml", "--plugin", "pool.py", "--set", "seeds=2", "--executor", "inline")


def write_project(folder: Path, *, steps: int = 6) -> Path:
    """Write the project; return the file of its space. Everything that it names is named relative to it."""
    space = write_world(folder / "spaces", steps=steps)
    text = space.read_text(encoding="utf-8").replace("{path: {from: pre_ln, to: op}}", "{compare: [pre_ln, half_norm]}")
    text = re.sub("grammar: .*", "grammar: own", text).replace("tokenizer: bytes", "tokenizer: {file: letters.json}")
    text = text.replace("kurtosis, token_correlation, gradient_norm", "kurtosis")  # its page is drawn again and again
    space.write_text(text + BLOCKS, encoding="utf-8")
    grammars = ROOT / "grammars"
    shutil.copytree(grammars / "transformer", folder / "grammars" / "transformer")
    own = (grammars / "transformer.yaml").read_text(encoding="utf-8").replace("grammar: transformer", "grammar: own")
    (folder / "grammars" / "own.yaml").write_text(own, encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (plugin,) = re.findall(r'```python\n("""Pool:.*?)```', readme, re.DOTALL)
    (folder / "pool.py").write_text(plugin, encoding="utf-8")
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    letters = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(sorted(alphabet))}, merges=[]))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    letters.add_special_tokens(["<|endoftext|>"])
    letters.save(str(space.parent / "letters.json"))
    return space


def ablate(*words: str) -> Result:
    """Give a command in this process, in the working directory."""
    return CliRunner().invoke(app, list(words))
