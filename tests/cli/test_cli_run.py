"""The command line as a user meets it: real processes, real signals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_spaces import rows_of, write_world

from ablate.store import claim

ABLATE = [sys.executable, "-c", "from ablate.cli import main; main()"]


def ablate(*words: str, cwd: Path, mlflow: bool = False) -> subprocess.CompletedProcess[str]:
    if words[0] == "run" and not mlflow:
        words = (*words, "--no-mlflow")
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run([*ABLATE, *words], cwd=cwd, capture_output=True, text=True, timeout=240, env=environment)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("cli")
    write_world(folder)
    done = ablate("run", "tiny.yaml", cwd=folder, mlflow=True)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_run_prints_the_plan_and_the_verdicts(world):
    _, screen = world
    assert "8 to run, 0 known already" in screen
    for edit in ("+qk_norm", "residual.gain=1/sqrt(2*depth)", "-layer_norm"):
        assert edit in screen.replace("\n", "")
    assert "undecided" in screen or "equivalent" in screen or "better" in screen
    assert "95 %" in screen


def test_again_trains_nothing_and_says_the_same(world):
    folder, screen = world
    before = rows_of(folder / "results")
    again = ablate("run", "tiny.yaml", cwd=folder)
    assert "0 to run" in again.stdout or "nothing to run" in again.stdout
    assert answer_of(again.stdout) == answer_of(screen)
    assert "MLflow: 8 runs sent" in screen and "MLflow" not in again.stdout
    assert rows_of(folder / "results") == before


@pytest.mark.full
def test_more_seeds_are_judged_a_second_time_and_the_same_again_is_no_other(world, tmp_path):
    folder = shutil.copytree(world[0], tmp_path / "here")
    asked = ablate("sql", "SELECT number, level FROM questions GROUP BY ALL", "--format", "csv", cwd=folder)
    assert asked.stdout.splitlines()[1:] == ["1,0.040000000000000036"]
    more = ("tiny.yaml", "--set", "seeds=3")
    said = "judged a second time, at 0.8 %"
    assert said in " ".join(ablate("plan", *more, cwd=folder).stdout.split())
    early = " ".join(ablate("report", *more, cwd=folder).stdout.split())
    assert "No verdicts yet" in early
    for _ in range(2):
        screen = " ".join(ablate("run", *more, cwd=folder).stdout.split())
        assert said in screen and "judged a third time, at 0.16 %" in screen  # the latter is what +k seeds would be
    page = ablate("report", "tiny", cwd=folder)
    (written,) = (folder / "results" / "pages").glob("tiny.????????.md")  # the plan is not the first of its space
    assert page.returncode == 0 and said in written.read_text(encoding="utf-8")
    asked = ablate("sql", "@questions_over_time", "--format", "csv", cwd=folder)
    assert sorted({tuple(line.split(",")[1:3]) for line in asked.stdout.splitlines()[1:]}) == [
        ("1", "tiny"),
        ("2", "tiny"),
    ]
    assert "first judgement" not in ablate("run", "tiny.yaml", cwd=folder).stdout
    done = ablate("sql", "SELECT max(number) FROM questions", "--format", "csv", cwd=folder)
    assert done.stdout.splitlines()[1:] == ["2"]


@pytest.mark.full
def test_again_imports_neither_mlflow_nor_torch(world):
    folder, _ = world
    probe = (
        "import sys; sys.argv = ['ablate', 'run', 'tiny.yaml']\n"
        "from ablate.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "loaded = {'mlflow', 'torch', 'ray', 'optuna'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_more_seeds_train_only_what_is_new(world):
    folder, _ = world
    done = ablate("run", "tiny.yaml", "--set", "seeds=3", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "4 to run, 8 known already" in " ".join(done.stderr.split())
    summary = json.loads(done.stdout)
    assert {arm["finished"] for arm in summary["arms"]} == {3}
    assert {effect["n"] for effect in summary["effects"] if effect["judgement"] == 2} == {3}
    assert all("found at 2 seeds" in effect["note"] for effect in summary["effects"] if effect["judgement"] == 1)


@pytest.mark.full
def test_a_second_space_reuses_the_trials_it_shares(world):
    folder, _ = world
    text = (folder / "tiny.yaml").read_text()
    (folder / "other.yaml").write_text(
        text.replace("space: tiny", "space: other").replace(
            "design: {path: {from: pre_ln, to: op}}", "design: {compare: [pre_ln, op, post_ln]}"
        )
    )
    done = ablate("run", "other.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "2 to run, 4 known already" in " ".join(done.stdout.split())


@pytest.mark.full
def test_report_takes_the_name_of_a_run_and_that_of_a_file(world):
    folder, _ = world
    (folder / "renamed.yaml").write_text((folder / "tiny.yaml").read_text())
    pages = [ablate("report", name, cwd=folder) for name in ("tiny", "renamed")]
    assert [page.returncode for page in pages] == [0, 0], pages[-1].stderr
    last, first = ("".join(page.stdout.split()) for page in pages)
    assert re.search(r"pages/tiny(\.\w{8})?\.html", last)  # of the last run, which may be one of another test
    assert "pages/tiny.html" in first  # of the file, whose plan was the first


def test_plain_duckdb_answers_afterwards(world):
    import duckdb

    folder, _ = world
    with duckdb.connect(str(folder / "results" / "ablate.duckdb"), read_only=True) as connection:
        rows = connection.execute(
            "SELECT variant, finished FROM leaderboard WHERE space = 'tiny' AND current"
        ).fetchall()
    assert len(rows) == 4
    assert {finished for _, finished in rows} <= {2, 3}


@pytest.mark.full
def test_sql_prints_table_csv_and_json(world):
    folder, _ = world
    statement = "SELECT 'a,b' AS text, 1.5 AS number, 'NaN'::DOUBLE AS missing"
    assert "1 row" in ablate("sql", statement, cwd=folder).stdout
    assert ablate("sql", statement, "--format", "csv", cwd=folder).stdout == 'text,number,missing\n"a,b",1.5,nan\n'
    assert json.loads(ablate("sql", statement, "--json", cwd=folder).stdout) == [
        {"text": "a,b", "number": 1.5, "missing": "NaN"}
    ]
    refused = ablate("sql", "DROP TABLE trials", cwd=folder)
    assert refused.returncode == 2
    assert "read-only" in refused.stderr


def answer_of(screen: str) -> str:
    """The tables and footnotes of a screen: what must be the same whenever the same trials are judged."""
    return screen[screen.index("Edits, each against") :].partition("its page:")[0].rstrip()


def wait_for(what, seconds: float = 60.0):
    """The first true value of `what()`, asked ten times a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError("waited in vain")


@pytest.mark.full
def test_ctrl_c_then_the_printed_line_ends_as_an_undisturbed_run(tmp_path):
    write_world(tmp_path, steps=900, seeds=1)
    calm = ablate("run", "tiny.yaml", "--results", "calm", cwd=tmp_path)
    assert calm.returncode == 0, calm.stderr
    running = subprocess.Popen(
        [*ABLATE, "run", "tiny.yaml", "--results", "rough", "--no-mlflow"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    journal = tmp_path / "rough" / "journal"
    wait_for(lambda: any(b'["row"' in path.read_bytes() for path in journal.glob("*.jsonl")))

    # While it writes: SQL answers, a second run is refused clearly.
    asked = ablate("sql", "SELECT count(*) AS n FROM metrics", "--results", "rough", "--json", cwd=tmp_path)
    assert json.loads(asked.stdout)[0]["n"] > 0
    second = ablate("run", "tiny.yaml", "--results", "rough", cwd=tmp_path)
    assert second.returncode == 2
    assert "Traceback" not in second.stderr
    assert str(running.pid) in second.stderr

    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the driver and to its workers
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    line = next(text for text in out.splitlines() if text.strip().startswith("ablate run"))
    assert line.split() == ["ablate", "run", "tiny.yaml", "--results", "rough", "--no-mlflow"]

    done = ablate(*line.split()[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rows_of(tmp_path / "rough") == rows_of(tmp_path / "calm")
    assert answer_of(done.stdout) == answer_of(calm.stdout)


@pytest.mark.full
def test_resume_goes_on_as_it_was_asked_and_status_says_how_it_stands(tmp_path):
    """Killed outright: `status` names what is left, `resume` needs neither the file's name nor its options."""
    write_world(tmp_path, steps=300, seeds=1)
    words = ["tiny.yaml", "--set", "recipe.batch=3", "--workers", "1", "--results", "rough"]
    running = subprocess.Popen(
        [*ABLATE, "run", *words, "--no-mlflow"], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    states = wait_for(lambda: (found := standing(tmp_path)) and "running" in found.values() and found)
    assert sorted(states.values()) == ["running", "waiting", "waiting", "waiting"]
    wait_for(lambda: any((tmp_path / "rough" / "checkpoints").glob("*.pt")))
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    screen = wait_for(lambda: "dead" in (said := ablate("status", "--results", "rough", cwd=tmp_path).stdout) and said)
    assert "tiny: 1 dead, 3 waiting, of 4 trials" in screen
    assert "ablate resume tiny --results rough" in screen.replace("\n", " ")

    (tmp_path / "elsewhere").mkdir()
    resumed = ablate("resume", "--results", "../rough", "--no-mlflow", cwd=tmp_path / "elsewhere")
    assert resumed.returncode == 0, resumed.stderr
    calm = ablate("run", "tiny.yaml", "--set", "recipe.batch=3", "--results", "calm", cwd=tmp_path)
    assert rows_of(tmp_path / "rough") == rows_of(tmp_path / "calm")
    assert answer_of(resumed.stdout) == answer_of(calm.stdout)
    assert set(standing(tmp_path).values()) == {"finished"}
    nothing = ablate("resume", "--results", "rough", cwd=tmp_path)
    assert nothing.returncode == 0 and "nothing to resume in rough" in nothing.stdout


@pytest.mark.full
def test_resume_asks_what_was_asked_whatever_the_file_says_by_now(world, tmp_path):
    folder, _ = world
    space = write_world(tmp_path)
    stopped = subprocess.Popen(
        [*ABLATE, "run", "tiny.yaml", "--no-mlflow"], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: standing(tmp_path, "results"))
    os.killpg(stopped.pid, signal.SIGKILL)
    stopped.wait()
    space.write_text(space.read_text().replace("lr: 1e-3", "lr: 2e-3"))
    other = write_world(tmp_path, name="other.yaml")
    other.write_text(other.read_text().replace("space: tiny", "space: other").replace("lr: 1e-3", "lr: 3e-3"))
    begun = subprocess.Popen(
        [*ABLATE, "run", "other.yaml", "--no-mlflow"], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: len(standing(tmp_path, "results")) > 8 and "running" in standing(tmp_path, "results").values())
    os.killpg(begun.pid, signal.SIGKILL)
    begun.wait()
    both = ablate("resume", "--no-mlflow", cwd=tmp_path)
    assert both.returncode == 0, both.stderr
    said = "note: tiny.yaml (recipe.optimizer.adamw.lr) has changed since tiny was run: it goes on as it was run"
    assert said in both.stderr
    assert "better" in both.stdout or "equivalent" in both.stdout or "undecided" in both.stdout
    for words, reason in [(("resume", "huge"), "no run of the space 'huge'"), (("resume",), "nothing was run in")]:
        where = folder if len(words) == 2 else tmp_path / "texts"
        done = ablate(*words, cwd=where)
        assert done.returncode == 2 and reason in done.stderr


@pytest.mark.full
def test_what_is_refused_gives_nothing_up(world):
    """A run that cannot begin leaves what is known as it was, and `resume` as useful as before."""
    folder, _ = world
    for words in [
        ("--executor", "ray", "--cpus", "0", "--fresh"),
        ("--executor", "ray", "--gpus", "nan", "--fresh"),
        ("--executor", "inline", "--workers", "3"),
        ("--address", "auto"),
        ("--timeout", "soon"),
    ]:
        done = ablate("run", "tiny.yaml", *words, cwd=folder)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
        assert "  = " in done.stderr
    nowhere = ablate("run", "tiny.yaml", "--mlflow", "nonsense", "--fresh", cwd=folder, mlflow=True)
    assert nowhere.returncode == 2 and "is not an MLflow tracking URI" in nowhere.stderr
    assert set(standing(folder, "results").values()) == {"finished"}
    assert ablate("run", "tiny.yaml", "--set", "seeds=1", cwd=folder).returncode == 0
    resumed = ablate("resume", "--no-mlflow", cwd=folder)
    assert resumed.returncode == 0 and "nothing to resume" in resumed.stdout, resumed.stderr


@pytest.mark.full
def test_a_second_ctrl_c_stops_at_once_and_says_how_to_go_on(tmp_path):
    """The worker is held still, so that the first one alone would wait for it."""
    write_world(tmp_path, steps=100_000, seeds=1)
    words = ["run", "tiny.yaml", "--workers", "1", "--no-mlflow"]
    running = subprocess.Popen(
        [*ABLATE, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    (worker,) = wait_for(lambda: [one.pid for one in claim.holders(tmp_path / "results").values() if one.step > 50])
    os.kill(worker, signal.SIGSTOP)
    running.send_signal(signal.SIGINT)
    assert running.stdout is not None
    assert any("again to stop at once" in line for line in running.stdout)
    time.sleep(1.0)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert said.startswith("stopped at once; what was written is kept. To resume:\n  ablate run tiny.yaml")
    assert is_gone(worker)


def is_gone(pid: int, seconds: float = 2.0) -> bool:
    """Whether a process is gone, or nothing but a zombie, within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def standing(folder: Path, results: str = "rough") -> dict[str, str]:
    """How each trial stands, by `ablate status --json`; nothing before there is a plan."""
    asked = ablate("status", "--results", results, "--json", cwd=folder)
    return {one["trial_id"]: one["state"] for one in json.loads(asked.stdout)} if asked.returncode == 0 else {}


@pytest.mark.full
def test_a_plan_that_learns_shows_its_stage_and_adds_seeds(tmp_path):
    """The first look is planned, seeds are added as long as something is undecided, and the plan then shows it all."""
    path = write_world(tmp_path)
    text = path.read_text().replace("seeds: 2", "seeds: {auto: {looks: [2, 3]}}\nnoise: {seeds: 2}")
    path.write_text(text.replace("margin: 1%", "margin: 1e-6"))
    before = ablate("plan", "tiny.yaml", cwd=tmp_path)
    assert "10 trials over 2 seeds: 10 to run for now" in before.stdout, before.stdout
    assert "no noise floor yet for eval loss, peak kurtosis" in before.stdout.replace("\n", " ")
    done = ablate("run", "tiny.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "after 2 seeds, " in done.stdout and "1 more seed" in done.stdout
    assert "that was the last look" in done.stdout
    after = ablate("plan", "tiny.yaml", cwd=tmp_path)
    assert "14 trials over 3 seeds: all known already, nothing to run" in after.stdout, after.stdout
    assert "spread of eval loss over seeds (trained before: " in " ".join(after.stdout.split())
    assert "tiny: 14 finished, of 14 trials" in ablate("status", cwd=tmp_path).stdout
    asked = ablate("sql", "@verdicts", "--json", cwd=tmp_path)
    rows = json.loads(asked.stdout)
    assert len(rows) == 12 and {row["n"] for row in rows} == {3}
    resumed = ablate("resume", cwd=tmp_path)
    assert "nothing to resume" in resumed.stdout
