"""What was declared to be equal, and what was not equal all the same, in lines for the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.report.unequal import Row, Unequal


def unequal_lines(found: Sequence[Unequal]) -> Iterator[str]:
    """Under each set of terms what they declare, then for each variant in what it is not as the baseline."""
    for one in found:
        name = f"{one.terms}: " if one.terms else ""
        same = f"; {one.equal}" if one.equal else ""
        yield f"{name}declared {one.declared}{same}"
        for variant in dict.fromkeys(row.variant for row in one.rows):
            rows = [row for row in one.rows if row.variant == variant]
            yield f"{name}{rows[0].name} is not equal in {'; '.join(map(_against, rows))}"


def _against(row: Row) -> str:
    share = "" if row.share is None else f" ({100 * row.share:+.2g} %)"
    near = ", as near as it comes" if row.declared else ""
    return f"{row.quantity}: {row.here} against {row.baseline}{share}{near}"
