"""Which trials are known is one short read, however many there are."""

from __future__ import annotations

import time
import zlib

from store_worlds import VERSIONS, opened

from ablate.store.ending import Ending
from ablate.store.ledger import known_outcomes
from ablate.store.lines import encode
from ablate.train.events import Outcome


def test_five_thousand_trials_are_known_at_once(tmp_path):
    ids = [f"{number:012x}" for number in range(5000)]
    (tmp_path / "trials").mkdir()
    content = b"the rows of a trial"
    for id in ids:
        (tmp_path / "trials" / f"{id}.parquet").write_bytes(content)
    end, file = Outcome("finished", 300), (len(content), zlib.crc32(content))
    endings = [Ending(id, 1, end, 1300, "0" * 64, 1.8e9, 1.8e9, VERSIONS, file) for id in ids]
    (tmp_path / "outcomes.jsonl").write_bytes(b"".join(encode(["ended", ending.document()]) for ending in endings))
    started = time.perf_counter()
    with opened(tmp_path) as results:
        known = results.outcomes()
    assert time.perf_counter() - started < 1.5
    assert known == known_outcomes(tmp_path) == dict.fromkeys(ids, Outcome("finished", 300))
