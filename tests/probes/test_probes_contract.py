"""The contract, for every probe that ships; broken ones, which it must refuse; and one of a user's own, judged."""

from __future__ import annotations

import json
import math

import pytest
from documents import code
from tiny_spaces import write_world

import ablate
from ablate import api
from ablate.errors import InputError
from ablate.probes.registry import probe_names
from ablate.report.screens.catalogue import probes
from ablate.store.query import query
from ablate.testing import ProbeContract

OWN = code("probe", "python")[0]
"""The example of the manual."""


@pytest.mark.sampled(8, gate="all")
@pytest.mark.parametrize("name", [*probe_names(), "gain"])
def test_every_probe_holds_the_contract(name):
    class Contract(ProbeContract):
        probe = name

    Contract().check_all()


@pytest.fixture
def contract(tmp_path):
    """From changes of the file above to the contract of what it then declares."""

    def of(*changes):
        path, text = tmp_path / "sparsity.py", OWN
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)

        class Contract(ProbeContract):
            plugins = (path,)
            probe = "sparsity"

        return Contract()

    return of


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{"sparsity": (x', '{"sparse": (x', "not declared: sparse"),
        (".double().mean()", ".double()", "is not a single number"),
        (".double().mean()", ".float().mean()", "is computed in torch.float32"),
        ("(x.abs()", "(torch.rand(()) + x.abs()", "two readings of one model differ|draws random numbers"),
        (".double().mean()", ".double().mean() / 0", "is inf|is nan"),
    ],
)
def test_the_contract_refuses_a_broken_one(contract, old, new, said):
    with pytest.raises(AssertionError, match=said):
        contract((old, new)).check_all()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('reads="stream"', 'reads="steam"', "no probe reads 'steam'"),
        ('source="this manual")\nclass', 'source="")\nclass', "a probe must say where it is from"),
        ("sparsity = metric(", "sparsity = print(", "a probe must declare what it measures"),
        ("@implements(Sparsity)\n", "", "probe 'sparsity' has no measurement"),
        ('"sparsity", reads', '"kurtosis", reads', "probe 'kurtosis' is declared twice"),
        ("    sparsity = m", "    kurtosis = m", "the metric 'kurtosis' already belongs to the probe kurtosis"),
        ("    sparsity = m", "    train_loss = m", "the metric 'train_loss' already belongs to training"),
        ("    sparsity = m", "    mean_kurtosis = m", "the metric 'mean_kurtosis' already belongs to the probe"),
        ('"stream", sites', '"parameters", sites', "only a probe of the stream is read at other sites"),
        ('square", "this manual")', 'square", "  ")', "the metric 'sparsity' needs a definition and a source"),
        ('square", "this manual")', 'square", "-", better="more")', "the metric 'sparsity' has no side 'more'"),
        ('square", "this manual")', 'square", None)', "a source is a paper (arXiv id or DOI), a URL, a book"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_told_with_its_place(contract, old, new, said):
    with pytest.raises(InputError) as refused:
        contract((old, new)).check_all()
    assert said in str(refused.value) and "sparsity.py:" in str(refused.value), str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        "Hurley & Rickard 2009, doi:10.1109/TIT.2009.2027527",
        "https://distill.pub/2019/activation-atlas",
        "Cover & Thomas 2006, Elements of Information Theory, Sec. 2.1",
        "this work",
    ],
)
def test_a_source_is_any_text_and_is_listed_as_it_was_given(contract, source):
    own = contract(('source="this manual"', f"source={source!r}"), ('square", "this manual"', f'square", {source!r}'))
    own.check_all()
    listed = json.loads(str(probes(api.catalogue(own.plugins), as_json=True)))
    (entry,) = (entry for entry in listed if entry["name"] == "sparsity")
    assert own.spec().source == source and [metric["source"] for metric in entry["metrics"]] == [source]


BOOK = "Strang 2016, Introduction to Linear Algebra, Sec. 7.1"


@pytest.mark.full
@pytest.mark.parametrize("executor", ["inline", "local"])
def test_a_probe_of_ones_own_is_judged(tmp_path, executor):
    own, space = tmp_path / "sparsity.py", write_world(tmp_path, steps=6, seeds=2)
    own.write_text(OWN.replace("this manual", BOOK))
    text = space.read_text().replace("gradient_norm]", "gradient_norm, sparsity, sparsity_behind_norms]")
    judged = "sparsity: {}, peak_sparsity_behind_norms: {}, mean_train_loss: {}, perplexity: {}, step_seconds: {}"
    space.write_text(text.replace("peak_kurtosis: {scale: log}", judged))
    done = ablate.run(
        ablate.load_space(space, plugins=[own]), results=tmp_path / "results", plugins=[own], executor=executor,
        mirror=False,
    )  # fmt: skip
    found = set(done.verdicts.metric)
    assert {"sparsity", "peak_sparsity_behind_norms", "mean_train_loss", "perplexity", "step_seconds"} <= found
    assert set(done.verdicts.n) == {2} and "below a tenth" in done.definitions["sparsity"]
    sources = query(tmp_path / "results", "SELECT source FROM definitions WHERE metric = 'sparsity'").rows
    assert list(sources) == [(BOOK,)]
    numbers = dict(query(tmp_path / "results", NUMBERS).rows)
    assert numbers["perplexity"] == pytest.approx(math.exp(numbers["eval_loss"]), rel=1e-12)
    rows = [value for (value,) in query(tmp_path / "results", ROWS).rows]
    assert numbers["mean_train_loss"] == pytest.approx(math.fsum(rows) / len(rows), rel=1e-12)
    assert numbers["tokens_per_second"] > 0 and numbers["step_seconds"] > 0


ONE = "(SELECT min(trial_id) FROM trials)"
NUMBERS = f"SELECT name, value FROM numbers WHERE trial_id = {ONE}"
ROWS = f"SELECT value FROM metrics WHERE metric = 'train_loss' AND trial_id = {ONE}"


@pytest.mark.fast
def test_whatever_a_probe_measures_can_be_judged():
    from ablate.space.metrics import judgeable, known_probes

    known = judgeable(api.catalogue())
    for name, spec in known_probes(api.catalogue()).items():
        for metric in spec.metrics if spec.judged else ():
            assert {metric.metric, f"mean_{metric.metric}"} <= known.keys(), name
    assert {"token_correlation", "peak_kurtosis", "peak_attention_entropy", "tokens_per_second"} <= known.keys()
