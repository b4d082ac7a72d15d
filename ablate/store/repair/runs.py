"""How runs were requested: `runs.jsonl` and its copies in `plans.jsonl`; what one has lost is still in the other."""

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


def faults(folder: Path, ledgers: Mapping[Path, Reading], plans_kept: KeptPlans) -> Iterator[Fault]:
    """Find runs that only one of the two files has, and spaces whose runs are in neither."""
    path, plans_path = folder / requests.FILE, folder / ledger.PLANS
    runs, plans = ledgers.get(path, checksummed_lines.NOTHING), ledgers.get(plans_path, checksummed_lines.NOTHING)
    damaged = broken(runs)[0] if path in ledgers else ()
    plans_damaged = broken(plans)[0] if plans_path in ledgers else ()
    gone, uncopied = requests.lacking(runs, plans)
    known = requests.kept(runs, plans)
    if gone:
        what = "is missing" if path not in ledgers else f"lacks {len(gone)} of the requested runs"
        remedy = f"recovered from {ledger.PLANS}"
        finding = Finding("request", "repaired", what, path, remedy, changes=(path,))
        # Damaged lines are reported elsewhere, with this repair as their remedy.
        yield Fault(() if damaged else (finding,), partial(_write_all, path, known))
    if uncopied and plans_damaged:
        yield Fault((), partial(_add, plans_path, uncopied))
    if len(damaged) > len(gone):
        again = sorted(requests.found_again(plans_kept, requests.last_of(known)).items())
        for space, request in again:
            remedy = "run it again with `ablate run`"
            if request is not None:
                remedy = f"assumed to be of {request.path}, which has its text; its other settings are not known"
            what = f"no longer says how {space} was run"
            finding = Finding("request", "lost", what, path, remedy, changes=(path,))
            yield Fault((finding,), partial(_add, path, [request]) if request else None)


def _write_all(path: Path, requests_kept: tuple[Request, ...]) -> str:
    """Rewrite the file with these runs, in order, after whatever else it has."""
    others = (body for body in checksummed_lines.read(path).bodies if not body.startswith(b'["run"'))
    runs = (checksummed_lines.encode(["run", asdict(request)]) for request in requests_kept)
    write_whole(path, b"".join([*map(checksummed_lines.framed, others), *runs]))
    return ""


def _add(path: Path, recovered: list[Request]) -> str:
    requests.append(path, recovered)
    return ""
