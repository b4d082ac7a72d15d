"""A plug-in that ends the process when it is read or imported is told by its name; nothing ends without a word."""

from __future__ import annotations

import pytest

from ablate.components.registry import declarations, implementation
from ablate.errors import InputError

DECLARED = """
from ablate.components.declare import Cost, component, implements

@component("leaver", slots=("part", "norm"), role="norm", modifier=True, source="this test")
class Config:
    \"\"\"Says nothing.\"\"\"

    def cost(self, sizes, width=None):
        return Cost()
"""
WHOLE = """
from torch import nn

@implements(Config)
class Leaver(nn.Module):
    def __init__(self, config, sizes, width=None):
        super().__init__()
"""
ENDS = {
    "import sys\nsys.exit(3)": "SystemExit: 3",
    "raise SystemExit('not today')": "SystemExit: not today",
    "quit()": "SystemExit: None",
    "class Over(BaseException): ...\nraise Over('and out')": "Over: and out",
}


@pytest.mark.parametrize(("ends", "said"), ENDS.items())
def test_a_plugin_that_ends_the_process_as_it_is_read_is_told(tmp_path, ends, said):
    path = tmp_path / "leaver.py"
    path.write_text(f"{ends}\n{DECLARED}{WHOLE}")
    with pytest.raises(InputError) as refused:
        declarations((path,))
    assert str(path) in str(refused.value) and said.partition(":")[0] in str(refused.value)


@pytest.mark.parametrize(("ends", "said"), ENDS.items())
def test_a_plugin_that_ends_the_process_behind_its_torch_import_is_told(tmp_path, ends, said):
    path = tmp_path / "leaver.py"
    path.write_text(f"{DECLARED}{WHOLE}{ends}\n")
    leaver = declarations((path,))["leaver"]
    with pytest.raises(InputError, match=f"the plugin {path} ends the process when it is imported: {said}\n  = remove"):
        implementation(leaver)


def test_ctrl_c_while_a_plugin_is_read_is_ctrl_c(tmp_path):
    path = tmp_path / "leaver.py"
    path.write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        declarations((path,))
