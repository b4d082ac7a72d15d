"""What `pin_threads` pins; in a process of its own, since it changes the process."""

import subprocess
import sys

SCRIPT = """
import torch
from ablate.train.data_parallel import pin_threads
pin_threads(1)
assert torch.get_num_threads() == 1
assert torch.are_deterministic_algorithms_enabled()
pin_threads(2)
print(torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory)
"""


def test_threads_and_deterministic_algorithms_are_pinned():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "False"]
