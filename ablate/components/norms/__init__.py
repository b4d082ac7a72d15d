"""Norms: normalisations over the last axis, for tokens and for heads. Slots `part` and `norm`."""
