"""Combinators: they join sequences of parts by skips, gains and branches. The folder is the list: each file is one."""
