"""A machine is known by what it computes: other instructions or another torch are told apart in plan, run and page, and
their trials are not paired; trials that recorded only a processor's name are paired by it, as before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version

import pytest
import torch
from rich.console import Console
from tiny_spaces import write_world

import ablate
from ablate.execute.machine import kernel_digest
from ablate.session.planning import plan_space
from ablate.session.reporting import report
from ablate.store import files, machines
from ablate.store.machines import by_name, installed, mixed, of_machine
from ablate.store.snapshot import Snapshot
from ablate.verdict.experiment import RanWith, pairable

CAPABILITIES = ("default", "avx2", "avx512")
KNOWN_BY_TORCH = {"DEFAULT": 1, "AVX2": 2, "AVX512": 3}
HERE = CAPABILITIES[: KNOWN_BY_TORCH.get(torch.backends.cpu.get_cpu_capability(), 1)]

several = pytest.mark.skipif(len(HERE) < 2, reason="this processor has one set of instructions")

PRINTED = """
import sys, torch
from ablate.execute.machine import kernel_digest
x = torch.arange(-160, 160, dtype=torch.float64).div(97).reshape(16, 20)
print(kernel_digest(sys.argv[1], "cpu"), (x @ x.T).sum().item().hex())
"""

RUN = """
import sys, ablate
from rich.console import Console
space = ablate.load_space(sys.argv[1], settings=[f"seeds={sys.argv[3]}"])
done = ablate.run(space, results=sys.argv[2], executor="inline", console=Console(quiet=True), mirror=False)
print("\\n".join(done.mixed))
"""

PLAN = """
import sys, ablate
from ablate.cli.app import app
try:
    app(["plan", sys.argv[1], "--set", f"seeds={sys.argv[3]}", "--results", sys.argv[2]], standalone_mode=False)
finally:
    print("imported:", [name for name in ("torch",) if name in sys.modules])
"""


def told(code: str, *arguments: object, capability: str | None = None) -> str:
    here = {} if capability is None else {"ATEN_CPU_CAPABILITY": capability}
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | here, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout


@several
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_set_of_instructions_has_its_own_fingerprint_and_the_best_is_that_of_this_machine(dtype):
    of = {capability: told(PRINTED, dtype, capability=capability).split() for capability in HERE}
    assert len({digest for digest, _ in of.values()}) == len(HERE)
    assert of[HERE[-1]][0] == kernel_digest(dtype, "cpu") == kernel_digest.__wrapped__(dtype, "cpu")
    assert of["default"][1] == of["avx2"][1]  # the twin: a matrix product alone would not tell them


def test_the_dtype_of_the_trial_is_in_it_and_threads_are_left_as_they_were():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert len({kernel_digest.__wrapped__(dtype, "cpu") for dtype in ("float32", "bfloat16", "float16")}) == 3
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@several
@pytest.mark.full
def test_other_instructions_are_told_in_plan_run_and_page_and_are_not_paired(tmp_path):
    space, results = write_world(tmp_path, seeds=2), tmp_path / "results"
    assert told(RUN, space, results, "[0]", capability="default").strip() == ""
    one, other = (told(PRINTED, "float32", capability=each).split()[0] for each in ("default", None))

    def lines(text: str) -> str:
        return " ".join(text.split())

    # A worker of this machine has not computed its kernels here yet: only what differs for sure is told.
    assert "kernels" not in told(PLAN, space, results, "2")
    told(RUN, space, results, "2", capability=HERE[-1])  # under a variable of its own
    planned = lines(told(PLAN, space, results, "3", capability=HERE[-1]))
    assert "imported: []" in planned
    trials = len(plan_space(ablate.load_space(space), results=results, forecasts="none").plan.trials) // 2
    counted = [f"{one} ({trials} trials)", f"{other} ({trials} to run, {trials} trials)"]
    assert f"not the same for all trials, and so not paired: kernels {', '.join(sorted(counted))}" in planned

    said = told(RUN, space, results, "2", capability="default").strip()
    parts = ", ".join(sorted(f"{digest} ({trials} trials)" for digest in (one, other)))
    assert said == f"not the same for all trials, and so not paired: kernels {parts}"
    loaded = ablate.load_space(space)
    written = report(loaded, results=results)
    assert said in written.markdown.read_text(encoding="utf-8")
    everyone = ablate.query("SELECT DISTINCT same_versions FROM edit_pairs", results=results)
    assert everyone["same_versions"].tolist() == [True]  # within a seed all were trained in one way


def test_another_torch_is_told(tmp_path, monkeypatch):
    space, results = ablate.load_space(write_world(tmp_path, seeds=1)), tmp_path / "results"
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    assert plan_space(space, results=results, forecasts="none").mixed == ()
    here = installed()["torch"]
    monkeypatch.setattr(
        "ablate.store.machines.version_of", lambda package: "9.9" if package == "torch" else version(package)
    )
    more = ablate.load_space(space.path, settings=["seeds=2"])
    (line, *_) = plan_space(more, results=results, forecasts="none").mixed
    n = len(plan_space(space, results=results, forecasts="none").plan.trials)
    assert line == f"not the same for all trials, and so not paired: torch {here} ({n} trials), 9.9 ({n} to run)"


BEFORE = {"torch": "2", "cpu": "AMD EPYC", "device": "cpu"}
NOW, OTHER = BEFORE | {"kernels": "k1"}, BEFORE | {"kernels": "k2", "cpu": "Xeon"}


def ran_with(versions: dict[str, str]) -> RanWith:
    return RanWith(json.dumps(of_machine(versions)), json.dumps(by_name(versions)))


def test_what_is_not_known_is_paired_by_the_name_as_before_and_said():
    before, now, other = map(ran_with, (BEFORE, NOW, OTHER))
    assert pairable([before, now]) and not pairable([before, other]) and not pairable([now, other])
    assert pairable([now, ran_with(NOW | {"cpu": "another name"})])  # what is computed decides, not the name
    assert not pairable([now, ran_with(NOW | {"torch": "3"})]) and not pairable(
        [before, ran_with(BEFORE | {"cpu": "x"})]
    )
    assert not pairable([now, before, ran_with(NOW | {"kernels": "k3"})])  # not all of these with each other
    assert mixed([(BEFORE, "trial"), (NOW, "trial"), (NOW, "trial")]) == (
        "1 trial recorded no kernels, only the processor's name: paired by that, as before",
    )
    assert mixed([(NOW, "trial")] * 2) == mixed([(BEFORE, "trial")] * 2) == mixed([]) == ()
    assert mixed([(NOW, "trial"), (NOW | {"attention": "sdpa", "cpu": "y"}, "trial")]) == ()


def test_sql_pairs_them_in_the_same_way(tmp_path):
    space, results = ablate.load_space(write_world(tmp_path, seeds=1)), tmp_path / "results"
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    cases = {"before": BEFORE, "now": NOW, "other": OTHER}
    for one in cases:
        for other in cases:
            ids = [*ran_with(cases[one]), *ran_with(cases[other])]
            given = [f"{name}={id}" for name, id in zip("abcd", ids, strict=True)]
            (row,) = ablate.query("SELECT alike($a, $b, $c, $d) AS same", results=results, given=given)["same"]
            assert row == pairable([ran_with(cases[one]), ran_with(cases[other])])


def test_what_a_worker_recorded_is_remembered_by_all_that_decides_it(tmp_path, monkeypatch):
    computed, here = (
        {"device": "cpu", "kernels": "k1"},
        machines.MachineRecord(installed() | {"device": "cpu", "kernels": "k1"}, (7, 8)),
    )
    assert machines.remembered(tmp_path, "float32") is None
    assert machines.record(tmp_path, "float32", computed, [7, 8]) == here.versions
    assert machines.remembered(tmp_path, "float32") == here
    assert machines.remembered(tmp_path, "bfloat16") is None
    (file,) = (tmp_path / machines.FOLDER).iterdir()
    written = file.stat().st_mtime_ns
    machines.record(tmp_path, "float32", computed, [7, 8])
    assert file.stat().st_mtime_ns == written
    for name in ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "OMP_NUM_THREADS"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "another value")
            assert machines.remembered(tmp_path, "float32") is None
    for broken in ("{", "{}", "[1, 2]", "[{}]", ""):  # cut short, or of another version: recorded again
        file.write_text(broken)
        assert machines.remembered(tmp_path, "float32") is None
    machines.record(tmp_path, "float32", computed, [7, 8])
    assert machines.remembered(tmp_path, "float32") == here
    assert [path.name for path in (tmp_path / machines.FOLDER).iterdir()] == [file.name]


def test_a_trial_goes_on_under_another_name_and_not_with_other_kernels(tmp_path):
    space, results = ablate.load_space(write_world(tmp_path, seeds=1)), tmp_path / "results"
    ablate.run(space, results=results, executor="inline", console=Console(quiet=True), mirror=False)
    ending = next(iter(Snapshot(results).endings.values()))
    assert {"kernels", "cpu", "device"} <= ending.versions.keys()
    assert ending.versions["kernels"] == kernel_digest("float32", "cpu")
    other = replace(ending, versions=ending.versions | {"cpu": "another name"})
    assert of_machine(other.versions) == of_machine(ending.versions)
    assert files.ENDING.validate_python(files.ENDING.dump_python(other)) == other
