"""Inits: how a weight is filled. Slot `init`; no modules, no parameters, no random numbers but the generator's."""
