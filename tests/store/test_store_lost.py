"""What nobody noticed: lost verdicts, damaged token caches, blocks that no table needed, paths with odd letters."""

from __future__ import annotations

from io import StringIO

import duckdb
import numpy
import pytest
from attacks import file_of, flip, half_way, run, tables
from rich.console import Console
from store_fixtures import fill

from ablate.data import cache
from ablate.errors import InputError
from ablate.report.screens.doctor import doctor_screen
from ablate.store import mirror
from ablate.store.query import query
from ablate.store.repair import repair
from ablate.store.results import Results


@pytest.mark.sampled(1)
@pytest.mark.parametrize("harm", ["gone", "flipped"])
def test_lost_verdicts_are_found(tmp_path, harm):
    half_way(tmp_path)
    (tmp_path / "ablate.duckdb").unlink()
    path = file_of(tmp_path, "verdicts")
    if harm == "gone":
        path.unlink()
    else:
        flip(path, 100)
    (lost,) = (found for found in repair(tmp_path, dry_run=True).findings if found.severity == "lost")
    assert (lost.kind, lost.where) == ("verdicts", path)
    assert "the next `ablate run` of its space, or `ablate judge` of its table, judges it again" in lost.remedy
    repaired = repair(tmp_path, dry_run=False, say=lambda said: None)
    assert repaired.exit_code == 1
    console = Console(width=200, record=True, file=StringIO())
    console.print(doctor_screen(repaired))
    last = console.export_text().splitlines()[-1]
    assert last.endswith("lost, but no result of a trial: see above for the consequences")
    run(tmp_path, pytest.fail)
    judged = query(tmp_path, "SELECT space, count(*) FROM judged GROUP BY ALL ORDER BY ALL").rows
    assert judged == (("elsewhere", 1), ("small", 4))
    assert repair(tmp_path, dry_run=True).to_repair == ()


def corpus(folder):
    streams = {name: numpy.arange(100, dtype="u2") for name in ("train", "tuning", "verdict")}
    cache.store_tokens(folder / "corpus", "f00d", streams, None)
    return folder / "corpus"


@pytest.mark.full
@pytest.mark.parametrize("name", ["f00d.tokens", "f00d.json"])
@pytest.mark.parametrize("harm", ["flipped", "cut", "empty"])
def test_a_damaged_token_cache_is_found_and_put_aside(tmp_path, name, harm):
    half_way(tmp_path)
    path = corpus(tmp_path) / name
    assert repair(tmp_path, dry_run=True).findings == ()
    if harm == "flipped":
        flip(path, path.stat().st_size // 2)
    else:
        path.write_bytes(path.read_bytes()[: 11 if harm == "cut" else 0])
    (found,) = repair(tmp_path, dry_run=True).findings
    assert (found.kind, found.severity, found.where) == ("corpus", "repaired", path)
    assert "rebuilt from the texts" in found.remedy
    findings = repair(tmp_path, dry_run=False, say=lambda said: None)
    assert findings.exit_code == 0 and findings.left == ()
    assert cache.load_tokens(tmp_path / "corpus", "f00d") is None
    assert (tmp_path / "damaged" / name).exists()


def test_a_token_cache_without_its_tokens_is_found(tmp_path):
    half_way(tmp_path)
    (corpus(tmp_path) / "f00d.tokens").unlink()
    (found,) = repair(tmp_path, dry_run=True).findings
    assert (found.kind, found.what) == ("corpus", "is missing")


@pytest.mark.full
def test_a_run_beside_a_damaged_block_says_so_and_fills_the_database_anew(tmp_path):
    """Whatever block it is: a run that knows everything already reads few of them."""
    fill(tmp_path)
    database = tmp_path / "ablate.duckdb"
    before, whole = tables(tmp_path), database.read_bytes()
    noticed = 0
    for place in range(12_288 + 5_000, len(whole), 786_432):
        database.write_bytes(whole)
        flip(database, place)
        said: list[str] = []
        with Results(tmp_path, say=said.append) as results:
            results.refresh()
        assert tables(tmp_path) == before, "every table can be read, and says what it said"
        with duckdb.connect(database, read_only=True) as connection:
            for (name,) in connection.execute("SHOW TABLES").fetchall():
                connection.execute(f"SELECT bit_xor(hash(t)) FROM {name} t").fetchall()
        noticed += any("filled again" in one for one in said)
    assert noticed


ODD = ["a#b", "50%25 of it", "a b'c\"d", "[ab]*", "é;&=", "md:x"]


@pytest.mark.full
@pytest.mark.parametrize("name", ODD)
def test_a_folder_may_have_any_letter_that_an_engine_can_be_told(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = type(tmp_path)(name)
    fill(folder)
    assert query(folder, "SELECT count(*) FROM metrics").rows[0][0] > 0
    assert repair(folder, dry_run=True).findings == ()


@pytest.mark.full
def test_mlflow_too_is_told_of_such_a_folder(tmp_path):
    folder = tmp_path / "half of #it's"
    fill(folder)
    assert mirror.mirror(folder).sent == 6
    assert {path.name for path in tmp_path.iterdir()} == {folder.name}
    assert mirror.examine(folder) == [] and (folder / "mlflow.db").exists()


@pytest.mark.parametrize("letter", ["?", "\\"])
def test_a_folder_with_a_letter_that_duckdb_cannot_be_told_is_refused_before_anything_is_written(tmp_path, letter):
    folder = tmp_path / f"is it so{letter}" / "results"
    for ask in (lambda: fill(folder), lambda: query(folder, "SELECT 1"), lambda: repair(folder, dry_run=True)):
        with pytest.raises(InputError, match=r"the path of a results folder cannot contain .*: .*\n  = DuckDB"):
            ask()
    assert not folder.parent.exists()
