"""Gates of what attention gives: factors that the input decides. Slot `gate`. The folder is the list."""
