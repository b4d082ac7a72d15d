"""Regularisers: they disturb a signal in training only. The folder is the list: each file is one."""
