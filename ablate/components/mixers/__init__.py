"""Mixers: the principal parts of a block, which mix tokens or channels. The folder is the list: each file is one."""
