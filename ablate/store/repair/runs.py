"""How runs were asked for: `runs.jsonl` and its copies in `plans.jsonl`; what one has lost the other still says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ablate.store import checksummed_lines, ledger, requests
from ablate.store.checksummed_lines import Reading
from ablate.store.durable import write_whole
from ablate.store.ledger import KeptPlans
from ablate.store.repair.faults import Fault
from ablate.store.repair.report import Finding
from ablate.store.repair.text_lines import broken
from ablate.store.requests import Request


def faults(folder: Path, ledgers: Mapping[Path, Reading], asked: KeptPlans) -> Iterator[Fault]:
    """Runs that only one of the two files knows of, and spaces whose runs nobody knows of any more."""
    path, plans_path = folder / requests.FILE, folder / ledger.PLANS
    runs, plans = ledgers.get(path, checksummed_lines.NOTHING), ledgers.get(plans_path, checksummed_lines.NOTHING)
    damaged = broken(runs)[0] if path in ledgers else ()
    plans_damaged = broken(plans)[0] if plans_path in ledgers else ()
    gone, uncopied = requests.lacking(runs, plans)
    known = requests.kept(runs, plans)
    if gone:
        what = "is not there" if path not in ledgers else f"lacks {len(gone)} of the runs that were asked for"
        remedy = f"got back from {ledger.PLANS}"
        finding = Finding("request", "repaired", what, path, remedy, changes=(path,))
        # Where lines are damaged they are reported, with this as what becomes of them.
        yield Fault(() if damaged else (finding,), partial(_write_all, path, known))
    if uncopied and plans_damaged:
        yield Fault((), partial(_add, plans_path, uncopied))
    if len(damaged) > len(gone):
        again = sorted(requests.found_again(asked, requests.last_of(known)).items())
        for space, request in again:
            remedy = "run it again with `ablate run`"
            if request is not None:
                remedy = f"taken to be of {request.path}, which has its text; with what else it was run is not known"
            what = f"does not say any more how {space} was run"
            finding = Finding("request", "lost", what, path, remedy, changes=(path,))
            yield Fault((finding,), partial(_add, path, [request]) if request else None)


def _write_all(path: Path, requests_kept: tuple[Request, ...]) -> str:
    """Write the file anew with these runs, in order, behind whatever else stands in it."""
    others = (body for body in checksummed_lines.read(path).bodies if not body.startswith(b'["run"'))
    runs = (checksummed_lines.encode(["run", asdict(request)]) for request in requests_kept)
    write_whole(path, b"".join([*map(checksummed_lines.framed, others), *runs]))
    return ""


def _add(path: Path, found: list[Request]) -> str:
    requests.append(path, found)
    return ""
