"""Stands here so that every test can import `builders` (expressions without a grammar) and `worlds` (tiny spaces)."""

import os

# Trials pin their own threads; what tests compute besides must not fight the other test processes for cores. It is read
# when torch is loaded, which is after this.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser):
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write anew what tests hold results to: tests/identity proves first that no undeclared number moved",
    )
