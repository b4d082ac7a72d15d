"""Runs the command line: `python -m ablate`."""

from ablate.cli import main

if __name__ == "__main__":
    main()
