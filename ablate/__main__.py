"""Runs the command line: `python -m ablate`."""

from ablate.cli import main

main()
