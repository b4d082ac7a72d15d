"""The division of folders into train, tuning and verdict.

A folder goes to one split as a whole: its files quote, import and test each other, so if its neighbours were trained
on, a held-out file would be partly known. The rule needs no random number and is the same on every machine:

  1. Folders are ordered by a hash of their names, so that neither the alphabet nor sizes choose.
  2. The verdict split takes folders in that order while they fit into its share of the bytes: first those of at most
     a quarter of the share, so that no single folder decides the verdict, then any that still fits.
  3. The tuning split does the same with what is left, so that its share does not change the verdict split.
  4. A split into which nothing fits takes the smallest folder left. The rest is trained on, including empty folders.
  5. A split leaves one folder for each later split, so that as many folders as splits are enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from ablate.data.text import Split

LARGEST_PART = 0.25
"""The share of a held-out split that one folder may fill at first."""


def assign_splits(sizes: Mapping[str, int], *, tuning: float, verdict: float) -> dict[str, Split]:
    """Return the split of each folder, from the bytes of each folder and the shares of bytes to hold out.

    >>> assign_splits({"a": 90, "b": 5, "c": 5}, tuning=0.05, verdict=0.05)
    {'a': 'train', 'b': 'tuning', 'c': 'verdict'}
    """
    splits: dict[str, Split] = dict.fromkeys(sizes, "train")
    left = {name: sizes[name] for name in sorted(sizes, key=_order) if sizes[name] > 0}
    total = sum(left.values())
    held_out: tuple[tuple[Split, float], ...] = (("verdict", verdict), ("tuning", tuning))
    for n, (split, share) in enumerate(held_out, 1):
        later = 1 + sum(share > 0 for _, share in held_out[n:])
        for name in _fill(left, share * total, len(left) - later):
            splits[name] = split
            del left[name]
    return splits


def _order(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8")).digest()


def _fill(left: Mapping[str, int], target: float, most: int) -> tuple[str, ...]:
    """Return at most `most` folders that together come close to `target` bytes, from below if anything fits."""
    if target <= 0:
        return ()
    chosen = tuple(_fitting(left, target))[: max(1, most)]
    return chosen or tuple(sorted(left, key=lambda name: left[name])[:1])


def _fitting(left: Mapping[str, int], room: float) -> Iterator[str]:
    quarter = LARGEST_PART * room
    small = {name: size for name, size in left.items() if size <= quarter}
    large = {name: size for name, size in left.items() if size > quarter}
    for name, size in [*small.items(), *large.items()]:
        if size <= room:
            room -= size
            yield name
