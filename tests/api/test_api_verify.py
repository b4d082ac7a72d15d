"""Results that travel: a bundle is read where nothing else is, and a lie in it is found."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from rich.console import Console
from tiny_spaces import write_world
from typer.testing import CliRunner

import ablate
from ablate.cli.app import app
from ablate.errors import InputError, RefusedError
from ablate.session.bundling import load_bundle, write_bundle
from ablate.session.judging import judged
from ablate.session.reporting import report_run
from ablate.session.verifying import Verified, verify
from ablate.store import files, sealed
from ablate.store.bundle import SUMS
from ablate.store.documents import digest, plan_id
from ablate.store.files import put_listed
from ablate.store.results import Results
from ablate.store.snapshot import Snapshot


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the tiny space, in `results`, and its texts."""
    folder = tmp_path_factory.mktemp("evidence")
    space = ablate.load_space(write_world(folder))
    ablate.run(space, results=folder / "results", executor="inline", console=Console(quiet=True), mirror=False)
    report_run("tiny", results=folder / "results")
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A copy of its results folder, which a test may harm."""
    shutil.copytree(made / "results", tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture(scope="module")
def bundled(made: Path) -> Path:
    write_bundle("tiny", made / "tiny.zip", results=made / "results")
    return made / "tiny.zip"


def answers(done: Verified) -> set[str]:
    return {check.answer for check in done.checks}


def test_a_bundle_is_the_same_bytes_whenever_it_is_made_and_says_nothing_of_where(made, bundled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = write_bundle("tiny", tmp_path / "again.zip", results=made / "results")
    assert (tmp_path / "again.zip").read_bytes() == bundled.read_bytes()
    assert (done.ended, done.trials, done.others) == (8, 8, 0)
    with zipfile.ZipFile(bundled) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert {
        "README.md",
        "page.html",
        "page.md",
        "verdicts.json",
        "packages.txt",
        "versions.json",
        SUMS,
    } < members.keys()
    assert not [name for name, content in members.items() if str(made).encode() in content]
    assert done.head.encode() in members["README.md"] and done.head.encode() in members["page.html"]
    assert (
        b"torch==" in members["packages.txt"] and members["files/space/tiny.yaml"] == (made / "tiny.yaml").read_bytes()
    )
    assert done.head in report_run("tiny", results=made / "results").markdown.read_text(encoding="utf-8")


@pytest.mark.full
def test_it_is_verified_loaded_and_reported_where_nothing_else_is(bundled, tmp_path, monkeypatch):
    shutil.copy(bundled, tmp_path / "other.zip")
    asked = "import sys; from ablate.cli.app import main; sys.argv[0] = 'ablate'; main()"

    def said(*words: str) -> str:
        run = subprocess.run([sys.executable, "-c", asked, *words], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    document = json.loads(said("verify", "other.zip", "--json"))
    assert {check["check"] for check in document["checks"]} == {"seals", "plan", "verdicts", "page"}
    assert {check["answer"] for check in document["checks"]} == {"right"}
    assert "are new in results, 0 were there" in said("load", "other.zip")
    assert "0 files are new" in said("load", "other.zip")
    monkeypatch.chdir(tmp_path)
    report_run("tiny", results="results")
    write_bundle("tiny", tmp_path / "mine.zip", results="results")
    assert (tmp_path / "mine.zip").read_bytes() == bundled.read_bytes()  # it loses nothing on the way
    assert "nothing is wrong" in said("verify", "results")
    assert "no text" not in said("status")


def test_its_trials_are_trained_again_to_the_same_bits(made, copy):
    done = verify(copy, retrain=2)
    assert answers(done) == {"right"}
    assert sum(check.check == "retrained" for check in done.checks) == 2


def test_without_its_text_a_trial_is_told_and_not_passed(made, bundled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = verify(bundled, retrain=1)
    (told,) = (check for check in done.checks if check.check == "retrained")
    assert told.answer == "told" and "its text is not here" in told.what and not done.wrong


def test_other_kernels_are_told_with_the_first_step_and_the_noise(copy, monkeypatch):
    for trial, ending in Snapshot(copy).endings.items():
        other = replace(ending, versions=ending.versions | {"kernels": "0" * 16})
        reseal(copy, trial, other, add=1e-6)
    done = verify(copy, retrain=1)
    (told,) = (check for check in done.checks if check.check == "retrained")
    assert told.answer == "told" and "differs from step 0 on" in told.what
    assert "at the end by 1e-06, where seeds have a sd of" in told.what
    assert "this machine computes otherwise (kernels)" in told.what


# Lies whose seal was not made anew


def any_of(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


def replaced(pattern: str, before: bytes, after: bytes) -> Callable[[Path], None]:
    def lie(folder: Path) -> None:
        path = next(path for path in sorted(folder.glob(pattern)) if before in path.read_bytes())
        path.write_bytes(path.read_bytes().replace(before, after, 1))

    return lie


def another_number(metric: str, *, seal: bool = False) -> Callable[[Path], None]:
    def lie(folder: Path) -> None:
        path = any_of(folder, "trials/*.parquet")
        table = pyarrow.parquet.read_table(path)
        values = table["value"].to_pylist()
        place = max(n for n, name in enumerate(table["metric"].to_pylist()) if name == metric)
        values[place] *= 0.9
        changed = table.set_column(
            table.schema.get_field_index("value"), "value", pyarrow.array(values, pyarrow.float64())
        )
        pyarrow.parquet.write_table(changed.replace_schema_metadata(table.schema.metadata), path, compression="zstd")

    return lie


def another_end(key: str, value: object) -> Callable[[Path], None]:
    """Change the record of how a trial ended, which is in the metadata of its file."""

    def lie(folder: Path) -> None:
        path = any_of(folder, "trials/*.parquet")
        table = pyarrow.parquet.read_table(path)
        ending = json.loads(table.schema.metadata[b"ablate"]) | {key: value}
        metadata = table.schema.metadata | {b"ablate": json.dumps(ending).encode()}
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")

    return lie


def swapped(folder: Path) -> None:
    one, other = sorted(folder.glob("trials/*.parquet"))[:2]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def doubled(folder: Path) -> None:
    one, other = sorted(folder.glob("trials/*.parquet"))[:2]
    other.write_bytes(one.read_bytes())


def gone(pattern: str) -> Callable[[Path], None]:
    return lambda folder: any_of(folder, pattern).unlink()


def added(folder: Path) -> None:
    path = any_of(folder, "trials/*.parquet")
    path.with_name("0123456789abcdef.parquet").write_bytes(path.read_bytes())


def cut(pattern: str) -> Callable[[Path], None]:
    def lie(folder: Path) -> None:
        path = any_of(folder, pattern)
        path.write_bytes(path.read_bytes()[:-40])

    return lie


LIES: dict[str, Callable[[Path], None]] = {
    "a loss": another_number("eval_loss"),
    "a training loss": another_number("train_loss"),
    "a probe": another_number("kurtosis"),
    "how a trial ended": another_end("kind", "diverged"),
    "the step it ended at": another_end("step", 3),
    "what it ran with": another_end("versions", {"torch": "1.0"}),
    "two trials swapped": swapped,
    "one trial for two": doubled,
    "a trial gone": gone("trials/*.parquet"),
    "a trial added": added,
    "a trial cut": cut("trials/*.parquet"),
    "a verdict": replaced("verdicts/*.json", b'"undecided"', b'"better"'),
    "an estimate": replaced("verdicts/*.json", b'"estimate":', b'"estimate":1'),
    "a margin": replaced("plans/*.json", b'"margin":', b'"margin":1'),
    "a seed": replaced("plans/*.json", b'"seeds":[0,1]', b'"seeds":[0,2]'),
    "a rate in the plan": replaced("plans/*.json", b'"lr":', b'"lr":1'),
    "the file of the space": replaced("sources/*", b"steps: 12", b"steps: 13"),
    "a grammar": replaced("sources/*", b"qk_norm", b"qk_form"),
    "a file of it gone": gone("sources/*"),
    "the plan gone": gone("plans/*.json"),
    "the verdicts gone": gone("verdicts/*.json"),
    "the witness": replaced("witness.jsonl", b'"size":', b'"size":1'),
    "a source cut": cut("sources/*"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_in_a_folder_is_found(copy, name):
    LIES[name](copy)
    assert verify(copy).wrong, name


def test_a_lie_is_the_exit_code(copy):
    swapped(copy)
    done = CliRunner().invoke(app, ["verify", str(copy)])
    assert done.exit_code == 1 and "WRONG" in done.output and "things wrong" in done.output


@pytest.mark.full
@pytest.mark.parametrize("name", LIES)
def test_a_lie_in_a_bundle_is_found_even_if_its_sums_are_made_anew(bundled, tmp_path, name):
    place = tmp_path / "unpacked"
    with zipfile.ZipFile(bundled) as archive:
        archive.extractall(place)
    LIES[name](place / "results")
    paths = sorted(path for path in place.rglob("*") if path.is_file() and path.name != SUMS)
    for made_anew in (False, True):
        if made_anew:
            import hashlib

            lines = (
                f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(place).as_posix()}\n" for p in paths
            )
            (place / SUMS).write_text("".join(lines))
        with zipfile.ZipFile(tmp_path / "lie.zip", "w") as archive:
            for path in (*paths, place / SUMS):
                archive.write(path, path.relative_to(place))
        assert verify(tmp_path / "lie.zip").wrong, (name, made_anew)


def test_a_number_that_was_changed_in_the_cache_is_found(copy):
    with ablate.store.query.asking(copy):  # it is brought up to date first
        pass
    CliRunner().invoke(app, ["sql", "--write", "UPDATE summaries SET value = 0", "--results", str(copy)])
    assert [check.check for check in verify(copy).wrong] == ["cache"]


# Lies that were sealed anew


def reseal(folder: Path, trial: str, ending: files.Ending, *, add: float = 0.0, metric: str | None = None) -> None:
    """Seal a trial with other numbers, as whoever has the program can."""
    path = files.path_of(folder, trial)
    table = pyarrow.parquet.read_table(path)
    rows = zip(table["kind"].to_pylist(), table["metric"].to_pylist(), table["value"].to_pylist(), strict=True)
    values = [value + add * (kind == "row" and metric in (None, name)) for kind, name, value in rows]
    column = pyarrow.array(values, pyarrow.float64())
    changed = table.set_column(table.schema.get_field_index("value"), "value", column)
    examined = sealed.examine(folder, trial, None)
    put = replace(ending, digest=sealed.digest(changed))
    put_listed(folder, files.name_of(trial), sealed.encoded(put, changed, examined.specification), ending=put)


def judged_anew(folder: Path) -> None:
    """Judge the numbers as if for the first time, and leave no other judgement: what a liar does next."""
    record = report_run("tiny", results=folder).record
    assert record is not None
    for document in Snapshot(folder).judgements:
        files.withdraw(folder, document.name)
    with Results(folder, say=lambda said: None) as store:
        judged(record.plan, record.rules, store)


LIED_ABOUT = ("eval_loss", "kurtosis", "train_loss", "gradient_norm", None)
"""The metric that a trial's lie is about, None for all."""


@pytest.mark.full
def test_numbers_sealed_anew_are_found_by_training_again(copy):
    endings = Snapshot(copy).endings
    lies = dict(zip(endings, LIED_ABOUT, strict=False))
    for trial, metric in lies.items():
        reseal(copy, trial, endings[trial], add=-1e-3, metric=metric)
    assert verify(copy).wrong  # the verdicts are of other numbers
    judged_anew(copy)
    wrong = verify(copy, retrain=len(endings)).wrong  # all else is consistent: these lies are in the numbers alone
    assert [found.check for found in wrong] == ["retrained"] * len(LIED_ABOUT) and len(endings) > len(LIED_ABOUT)
    assert all("on a machine that computes the same" in found.what for found in wrong)
    assert all(any(trial in found.what for found in wrong) for trial in lies)


def test_verdicts_sealed_anew_are_found_by_computing_them(copy):
    (document,) = Snapshot(copy).verdicts.values()
    bare = {name: value for name, value in document.content.items() if name not in ("format", "number")}
    text = json.dumps(bare["verdicts"]).replace('"undecided"', '"better"')
    files.withdraw(copy, document.name)
    files.keep(copy, "verdicts", bare | {"verdicts": json.loads(text)}, document.number)
    found = [check.check for check in verify(copy).wrong]
    assert found == ["verdicts"]


def test_a_plan_sealed_anew_with_another_margin_is_found_by_its_files(copy):
    path = any_of(copy, "plans/*.json")
    content = json.loads(path.read_bytes())
    content["document"]["resolved"]["judge"]["metrics"]["eval_loss"]["margin"] = "9%"
    bare = {name: value for name, value in content.items() if name not in ("format", "number")}
    bare["plan"] = plan_id("tiny", asked=digest(content["document"]["resolved"]))
    files.withdraw(copy, f"plans/{path.name}")
    files.keep(copy, "plans", bare, content["number"], stem=bare["plan"])
    wrong = verify(copy).wrong
    assert [check.check for check in wrong] == ["plan"] and "judge" in wrong[0].what


# What is refused


def test_what_is_no_bundle_is_refused_with_a_way_out(bundled, made, tmp_path):
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as archive:
        for name in (SUMS, "results/witness.jsonl", "../outside"):
            archive.writestr(name, "")
    for name in ("gone.zip", "text.zip", "empty.zip", "out.zip"):
        for act in (verify, lambda path: load_bundle(path, results=tmp_path / "results")):
            with pytest.raises(InputError, match="ablate bundle SPACE -o FILE writes one"):
                act(tmp_path / name)
    assert not (tmp_path / "outside").exists() and not (tmp_path.parent / "outside").exists()
    changed = bytearray(bundled.read_bytes())
    place = changed.find(b"Does the smallest model")
    changed[place] ^= 1
    (tmp_path / "changed.zip").write_bytes(changed)
    with pytest.raises((InputError, RefusedError)):
        load_bundle(tmp_path / "changed.zip", results=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_other_numbers_of_a_trial_are_not_loaded_over_those_there(copy, bundled):
    trial, ending = random.Random(0).choice(sorted(Snapshot(copy).endings.items()))
    reseal(copy, trial, ending, add=1.0)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(RefusedError, match=rf"(?s)other numbers of 1 trial of it .{trial}.*--results FOLDER"):
        load_bundle(bundled, results=copy)
    assert before.items() <= {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}.items()


def test_what_is_lost_is_not_bundled(copy, tmp_path):
    any_of(copy, "trials/*.parquet").unlink()
    with pytest.raises(RefusedError, match=r"lost, and so not to be bundled: trials/.* is gone"):
        write_bundle("tiny", tmp_path / "x.zip", results=copy)
    assert not (tmp_path / "x.zip").exists()
    with pytest.raises(InputError, match="no run of the space 'tin'"):
        write_bundle("tin", tmp_path / "x.zip", results=copy)
