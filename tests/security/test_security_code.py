"""Nothing in `ablate` turns what a user wrote, or what lies on a disk, into code; what does run code is listed here."""

from __future__ import annotations

import ast
import io
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn, optim

import ablate
from ablate.compiler.initialise import TrainingStreams
from ablate.errors import RefusedError
from ablate.train.checkpoint import TrialProgress, load_state, save_state

ROOT = Path(ablate.__file__).parent
RUNS_CODE = {
    *("eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads"),
    *("marshal.load", "shelve.open", "dill.loads", "cloudpickle.loads", "cloudpickle.load", "joblib.load", "os.system"),
    *(
        "os.popen",
        "yaml.load",
        "yaml.load_all",
        "yaml.unsafe_load",
        "yaml.full_load",
        "yaml.Loader",
        "yaml.UnsafeLoader",
    ),
    *(
        "yaml.FullLoader",
        "torch.load",
        "torch.jit.load",
        "torch.hub.load",
        "np.load",
        "numpy.load",
        "pandas.read_pickle",
    ),
    *(f"torch.distributed.{name}" for name in ("all_gather_object", "broadcast_object_list", "recv_object_list")),
    *("torch.distributed.gather_object", "torch.distributed.scatter_object_list", "Connection.recv"),
    *("importlib.import_module", "importlib.util.spec_from_file_location", "runpy.run_path", "subprocess.getoutput"),
}
ALLOWED = {
    ("__init__.py", "importlib.import_module"): "our own face, by names that stand there",
    ("extension/head.py", "exec"): "our own things, and files that --plugin or an entry point names",
    ("extension/head.py", "compile"): "the same",
    ("extension/head.py", "importlib.util.spec_from_file_location"): "the same",
    ("testing/corpora.py", "pickle.loads"): "what the contract has pickled itself a line before",
    ("kernels/xformers.py", "importlib.import_module"): "a library, by a name that stands there",
    ("kernels/choose.py", "importlib.import_module"): "the same",
    ("execute/worker_process.py", "pickle.load"): "its task, by the pipe from the worker that started it",
    ("execute/worker.py", "pickle.loads"): "an outcome, by the pipe from a rank that it started",
    ("execute/ray_driver.py", "pickle.loads"): "an error that Ray Tune wrote to a folder of its own in this run",
    (
        "execute/worker_process.py",
        "Connection.recv",
    ): "tasks, by a pair of sockets that its driver made",
    ("execute/supervisor.py", "Connection.recv"): "messages, by the same pair",
    (
        "session/mirroring.py",
        "Connection.recv",
    ): "requests and answers, by the pipe between it and the process it started",
    (
        "train/data_parallel.py",
        "torch.distributed.all_gather_object",
    ): "what ranks of this trial found, on this machine alone",
    ("train/checkpoint.py", "torch.load"): "weights_only, which reads tensors and plain data",
}


def names_in(tree):
    """Every dotted name that is called, or handed on, as it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            yield ast.unparse(node)


def imported(tree):
    """What the first word of a dotted name stands for, where an import has given it that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)


def found_in(path):
    """The names as they are called where they come from; a method of the name `recv` as that of a connection."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    aliases = dict(imported(tree))
    for name in names_in(tree):
        first, dot, rest = name.partition(".")
        yield "Connection.recv" if name.endswith(".recv") else aliases.get(first, first) + dot + rest


@pytest.mark.full
def test_what_runs_code_is_listed_with_its_reason():
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in ROOT.rglob("*.py")
        for name in found_in(path)
        if name in RUNS_CODE
    }
    assert found == set(ALLOWED)


@pytest.mark.fast
@pytest.mark.parametrize(
    "text",
    [
        "eval(x)",
        "import pickle\npickle.loads(x)",
        "from yaml import load\nload(x)",
        "import torch\nread = torch.load",
        "exec(x)",
        "import pickle as p\np.loads(x)",
        "import torch as t\nread = t.load",
        "import torch.jit as jit\njit.load(x)",
        "from torch import hub\nhub.load(x)",
        "from multiprocessing.connection import Client\nClient(x).recv()",
        "from torch import distributed as dist\ndist.all_gather_object(x, y)",
        "import torch.distributed as d\nd.broadcast_object_list(x)",
    ],
)
def test_the_scan_sees_what_it_looks_for(text, tmp_path):
    (tmp_path / "a.py").write_text(text)
    assert RUNS_CODE & set(found_in(tmp_path / "a.py"))


def test_yaml_is_read_by_the_safe_loader_alone():
    """Its events, in one place; what is written elsewhere is dumped, never loaded."""
    names = {name for path in ROOT.rglob("*.py") for name in found_in(path) if name.startswith("yaml.")}
    loaders = {name for name in names if "load" in name.lower()}
    assert loaders == {"yaml.SafeLoader"}


def test_torch_load_reads_no_code_and_numpy_no_objects():
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                assert {word.arg: ast.unparse(word.value) for word in node.keywords}["weights_only"] == "True"
            if isinstance(node, ast.Call):
                said = {word.arg: ast.unparse(word.value) for word in node.keywords}
                # Typer calls by the same word the shell that a script is for.
                if not ast.unparse(node.func).endswith("get_completion_script"):
                    assert said.get("shell", "False") == "False", path
                assert said.get("allow_pickle", "False") == "False", path
                assert said.get("trust_remote_code", "False") == "False", path


class Evil:
    """A pickle of it touches a file where it is loaded."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def trained():
    model = nn.Linear(2, 2)
    return model, optim.AdamW(model.parameters()), TrainingStreams(0)


def tampered(state, **changes):
    found = torch.load(io.BytesIO(state), weights_only=True)
    buffer = io.BytesIO()
    torch.save({**found, **changes}, buffer)
    return buffer.getvalue()


@pytest.mark.fast
@pytest.mark.parametrize("where", ["whole", "step", "last", "model", "pickle"])
def test_a_tampered_state_runs_nothing(where, trained, tmp_path):
    evil, state = Evil(tmp_path / "code_has_run"), save_state("t", *trained, TrialProgress(3))
    buffer = io.BytesIO()
    torch.save(evil, buffer)
    bad = {"whole": buffer.getvalue(), "pickle": pickle.dumps(evil)}.get(where) or tampered(state, **{where: evil})
    with pytest.raises(RefusedError, match=r"trial t cannot resume from its checkpoint(.|\n)*--fresh"):
        load_state(bad, "t", *trained)
    assert not (tmp_path / "code_has_run").exists()


@pytest.mark.fast
def test_the_tampered_state_would_run_code_elsewhere(trained, tmp_path):
    bad = tampered(save_state("t", *trained, TrialProgress(3)), step=Evil(tmp_path / "code_has_run"))
    torch.load(io.BytesIO(bad), weights_only=False)
    assert (tmp_path / "code_has_run").exists()


@pytest.mark.fast
@pytest.mark.parametrize(
    "changes",
    [
        {"model": {}},
        {"model": {"weight": torch.zeros(3, 3), "bias": torch.zeros(2)}},
        {"model": 3},
        {"optimizer": {}},
        {"random": torch.zeros(3)},
        {"step": "many"},
        {"trial": None},
    ],
)
def test_a_state_of_another_shape_is_refused_in_words(changes, trained):
    bad = tampered(save_state("t", *trained, TrialProgress(3)), **changes)
    with pytest.raises(RefusedError, match=r"trial t cannot resume from its checkpoint(.|\n)*--fresh"):
        load_state(bad, "t", *trained)


@pytest.mark.fast
@pytest.mark.parametrize("found", [3, [], {}, {"trial": "t"}])
def test_a_state_of_something_else_is_refused_in_words(found, trained):
    buffer = io.BytesIO()
    torch.save(found, buffer)
    with pytest.raises(RefusedError, match=r"trial t cannot resume from its checkpoint"):
        load_state(buffer.getvalue(), "t", *trained)
