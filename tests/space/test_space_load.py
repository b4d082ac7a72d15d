"""Reading a space: what lies on top, what is resolved, what is refused. Full error texts are in tests/errors."""

from pathlib import Path

import pytest
from builders import CATALOGUE
from reading import SPACES, copy_grammar, read_block, transformer
from space_fixtures import SECTIONS, fields, space

from ablate.block.arithmetic import parse
from ablate.block.expression import Node
from ablate.errors import InputError
from ablate.plan.build import build_plan
from ablate.source.yaml import read_yaml
from ablate.space.documents import CorpusChoice
from ablate.space.load import OPTIONAL, REQUIRED, load_space
from ablate.space.model import Learned


def refused(folder: Path, *settings: str, **sections: str | None) -> str:
    with pytest.raises(InputError) as found:
        space(folder, *settings, **sections)
    return str(found.value)


@pytest.mark.sampled(4, gate="all")
@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_shipped_spaces_resolve_in_every_profile(path: Path) -> None:
    written = read_yaml(path)
    profiles = [str(name) for name in written["profiles"]] if "profiles" in written else []
    for profile in (None, *profiles):
        shipped = load_space(path, CATALOGUE, profile=profile)
        assert shipped.name == path.stem
        assert shipped.architecture(next(iter(shipped.blocks.values())), 256).sizes.d_model == shipped.model.width


def test_what_is_left_out_comes_from_the_grammar(tmp_path: Path) -> None:
    found = space(tmp_path)
    assert found.recipe.optimizer.settings["betas"] == [0.9, 0.999]
    assert found.recipe.schedule.warmup == 0.05
    assert found.data.corpus == CorpusChoice("python_stdlib")
    assert found.model.causal
    assert found.around.entry_norm is found.around.final_norm is None
    assert found.judge.metrics["peak_kurtosis"].margin == "none"
    assert found.judge.metrics["peak_kurtosis"].scale == "log"
    assert found.judge.metrics["eval_loss"].margin == "1%"
    assert found.judge.metrics["eval_loss"].better == "lower"
    assert found.threads == 1
    assert found.seeds == (0, 1)
    assert found.folder == tmp_path


PROFILES = "{quick: {recipe: {steps: 7}, seeds: 1, design: {compare: [pre_ln, op]}, model: {init: {fan_in: 1}}}}"


def test_a_profile_lies_over_the_file_and_settings_over_both(tmp_path: Path) -> None:
    plain = space(tmp_path, profiles=PROFILES)
    quick = space(tmp_path, profiles=PROFILES, profile="quick")
    both = space(tmp_path, "recipe.steps=9", "seeds=[3, 5]", profiles=PROFILES, profile="quick")
    assert (plain.recipe.steps, plain.seeds, plain.design.kind) == (20, (0, 1), "path")
    assert (quick.recipe.steps, quick.seeds, quick.design.kind) == (7, (0,), "compare")
    assert (both.recipe.steps, both.seeds) == (9, (3, 5))
    assert quick.recipe.batch == plain.recipe.batch == 4
    assert quick.around.init.name == "fan_in"
    assert quick.profile == "quick"


def test_the_last_setting_wins(tmp_path: Path) -> None:
    assert space(tmp_path, "recipe.steps=9", "recipe.steps=11").recipe.steps == 11


def test_settings_reach_everything(tmp_path: Path) -> None:
    found = space(
        tmp_path,
        "recipe.optimizer.adamw.betas=[0.8, 0.95]",
        "model.position={learned: 0.01}",
        "model.final_norm={layer_norm: {eps: 1e-3}}",
        "data.corpus={files: [a/*.txt, b.txt]}",
        "measure.probes=[kurtosis, gradient_norm]",
        "judge.metrics.eval_loss.margin=0.5",
        "block.mlp.activation={leaky_relu: 0.2}",
        "design={leave_one_out: {from: pre_ln, to: op}}",
        "question=Why not?",
    )
    assert found.recipe.optimizer.settings["betas"] == [0.8, 0.95]
    assert found.model.position == Learned(learned=0.01)
    assert found.around.final_norm == read_block("[layer_norm: {eps: 0.001}]").parts[0]
    assert found.data.corpus == CorpusChoice("files", {"files": ["a/*.txt", "b.txt"]})
    assert found.measure.probes == ("kurtosis", "gradient_norm")
    assert found.judge.metrics["eval_loss"].margin == 0.5
    assert found.design.leave_one_out is not None
    assert found.question == "Why not?"
    mlps = [part for block in found.blocks.values() for part in block.parts[1]["branch"] if part.name == "mlp"]
    assert {part["activation"] for part in mlps} == {
        read_block("[mlp: {activation: {leaky_relu: 0.2}}]").parts[0]["activation"]
    }


def test_another_choice_replaces_the_first(tmp_path: Path) -> None:
    """`{normal: …}` and `{fan_in: …}` would otherwise lie side by side in one mapping."""
    assert space(tmp_path, "model.init={fan_in: 0.5}").around.init.name == "fan_in"
    assert space(tmp_path, "design={compare: [op, pre_ln]}").design.compare == ("op", "pre_ln")
    hub = "{hub: a/b, split: train, field: text}"
    asked = {
        "hub": "a/b",
        "config": None,
        "split": "train",
        "field": "text",
        "at_most": 2**26,
    }  # few steps ask for so much
    assert space(tmp_path, f"data.corpus={hub}").data.corpus.settings == asked
    other = space(tmp_path, f"data.corpus={hub}", "data.corpus.field=code").data.corpus
    assert other.settings == {**asked, "field": "code"}
    rows = "data.corpus={jsonl: [a.jsonl], field: body}"
    assert space(tmp_path, f"data.corpus={hub}", rows).data.corpus.settings["jsonl"] == ["a.jsonl"]
    assert space(tmp_path, "model.init.normal=0.5").around.init == Node("normal", (("std", parse(0.5)),))
    assert "exactly one kind" in refused(tmp_path, design="{path: {from: pre_ln, to: op}, compare: [pre_ln, op]}")


def test_key_order_and_spelling_change_nothing(tmp_path: Path) -> None:
    backwards = dict(reversed(SECTIONS.items()))
    path = tmp_path / "backwards.yaml"
    path.write_text("# a note\n" + "".join(f"{name}: {body}\n" for name, body in backwards.items()))
    assert fields(load_space(path, CATALOGUE)) == fields(space(tmp_path))
    assert fields(space(tmp_path, "recipe.optimizer.adamw.lr=0.010")) == fields(space(tmp_path))


@pytest.mark.parametrize("key", REQUIRED)
def test_every_required_key_is_missed(tmp_path: Path, key: str) -> None:
    if key in ("data", "threads"):  # the shipped grammar says them
        assert space(tmp_path).data.tokenizer == "bytes"
        return
    text = refused(tmp_path, **{key: None})
    partly = {"recipe": "missing keys 'steps', 'batch', 'optimizer' in recipe", "grammar": "a space needs a grammar"}
    partly |= {"measure": "missing keys 'every', 'probes', 'evaluation' in measure"}
    partly |= {
        "judge": "missing keys 'metrics', 'against' in judge",
        "model": "missing keys 'layers', 'width', 'heads', 'context' in model",
    }
    assert partly.get(key, f"missing key '{key}' in the space") in text
    assert "transformer.yaml:" not in text  # what is missing is missing in the space


def test_what_is_missing_in_a_section_is_missed_where_the_space_opens_it(tmp_path: Path) -> None:
    text = refused(tmp_path, recipe="{steps: 20, optimizer: {adamw: {betas: [0.9, 0.99]}}}")
    line = list(SECTIONS).index("recipe") + 1
    assert f"missing key 'batch' in recipe\n --> {tmp_path / 'small.yaml'}:{line}:1\n" in text
    assert f"missing key 'lr' in recipe.optimizer.adamw\n --> {tmp_path / 'small.yaml'}:{line}:33\n" in text


def test_a_mistake_in_what_the_grammar_says_is_shown_there(tmp_path: Path) -> None:
    path = copy_grammar(tmp_path, "broken.yaml")
    broken = path.read_text().replace("clip: 1.0", "clip: tight", 1)
    path.write_text(broken.replace("threads: 1", "thread: 1", 1))
    text = refused(tmp_path, grammar="broken.yaml", threads="1")
    assert "recipe.clip: expected a number or null, got text 'tight'" in text
    assert "unknown key 'thread' in a space" in text
    assert text.count(f"--> {tmp_path / 'broken.yaml'}:") == 2


@pytest.mark.sampled(12, gate="all")
@pytest.mark.parametrize(
    ("section", "body", "said"),
    [
        ("space", "3", "space must be text"),
        ("question", "''", "question must be text"),
        ("grammar", "trasnformer", "there is no grammar 'trasnformer'"),
        ("grammar", "[a]", "a space needs a grammar"),
        ("model", "[1]", "model: expected"),
        ("recipe", "{steps: 20, batch: four, optimizer: {adamw: {lr: 1e-2}}}", "recipe.batch: expected a whole number"),
        ("recipe", "{steps: 0, batch: 4, optimizer: {adamw: {lr: 1e-2}}}", "recipe.steps must be at least 1"),
        ("recipe", "{steps: 20, batch: 4, optimizer: {adamw: {lr: fast}}}", "recipe.optimizer.adamw.lr: expected"),
        ("recipe", "{steps: 20, batch: 4, optimizer: {sgdd: {lr: 1}}}", "unknown optimiser 'sgdd'"),
        ("seeds", "0", "seeds must be a whole number of at least 1, a list"),
        ("seeds", "many", "seeds must be a whole number of at least 1, a list"),
        ("seeds", "true", "seeds must be a whole number of at least 1, a list"),
        ("seeds", "[1, 1]", "seeds must be different whole numbers"),
        ("seeds", "[]", "seeds must be different whole numbers"),
        ("seeds", "[-1]", "seeds must be different whole numbers"),
        ("seeds", "[1, [2]]", "seeds must be different whole numbers"),
        ("seeds", "100000", "at most 10,000 seeds, got 100,000"),
        ("threads", "0.5", "threads must be a whole number"),
        ("measure", "{every: 5, probes: [kurtosys], evaluation: {every: 10, windows: 8}}", "unknown probe 'kurtosys'"),
        ("measure", "{every: 5, probes: [kurtosis, kurtosis], evaluation: {every: 10, windows: 8}}", "is listed twice"),
        ("measure", "{every: 5, probes: kurtosis, evaluation: {every: 10, windows: 8}}", "measure.probes: expected"),
        ("judge", "{against: pre_ln, metrics: {}}", "judge.metrics must hold 1 or more values"),
        ("judge", "{against: pre_ln, metrics: {eval_lost: {}}}", "unknown metric 'eval_lost'"),
        ("judge", "{against: pre_ln, metrics: {token_correlation: {}}}", "the probe token_correlation does not run"),
        ("judge", "{against: pre_ln, metrics: {eval_loss: {scale: square}}}", "expected one of linear, log"),
        ("judge", "{against: pre_lm, metrics: {eval_loss: {}}}", "unknown block 'pre_lm'"),
        ("judge", "{metrics: {eval_loss: {}}}", "missing key 'against' in judge"),
        ("design", "{path: {from: pre_ln, to: opp}}", "unknown block 'opp'"),
        ("design", "{pathway: {from: pre_ln, to: op}}", "unknown key 'pathway'"),
        ("design", "{path: {form: pre_ln, to: op}}", "unknown key 'form'"),
        ("design", "{compare: [pre_ln]}", "design.compare must hold 2 or more values"),
        ("design", "{}", "a design must have exactly one kind"),
        ("blocks", "[pre_ln]", "blocks must be a mapping from names to blocks"),
        ("blocks", "{op: [mlp]}", "block 'op' is already in the grammar"),
        ("blocks", "{mine: [mlpp]}", "unknown component 'mlpp' for slot part"),
        ("block", "[attention]", "block must map addresses to values"),
        ("sedes", "3", "did you mean 'seeds'?"),
        ("profil", "{}", "did you mean 'profiles'?"),
    ],
)
def test_a_mistake_in_a_section_is_named(tmp_path: Path, section: str, body: str, said: str) -> None:
    sections: dict[str, str | None] = {section: body}
    if section == "sedes":
        sections["seeds"] = None
    assert said in refused(tmp_path, **sections)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("model.heads=5", "5 heads do not divide the width 32"),
        ("model.heads=1000000", "heads must divide the width: set heads to 32"),
        ("model.layers=100000000", "model.layers must be at most 1000"),
        ("model.init=none", "slot init cannot be empty here"),
        ("model.final_norm=attention", "attention does not fit slot norm"),
        ("model.hidden=3", "unknown key 'hidden' in model"),
        ("model.position=rotary", "model.position: expected"),
        ("model.head=both", "model.head: expected one of tied, untied"),
        ("model.embedding.std=0", "model.embedding.std must be greater than 0"),
    ],
)
def test_a_model_that_does_not_fit(tmp_path: Path, model: str, said: str) -> None:
    assert said in refused(tmp_path, model)


def test_all_mistakes_are_shown_at_once_with_their_sources(tmp_path: Path) -> None:
    text = refused(tmp_path, "recipe.step=3", "block.attention.positoin=rope", model="{layers: 4}", sedes="1")
    assert text.count("error: ") >= 4
    assert "--> --set:1:" in text
    assert f"--> {tmp_path / 'small.yaml'}:" in text


def test_mistakes_of_the_grammar_and_of_the_space_stand_together(tmp_path: Path) -> None:
    path = copy_grammar(tmp_path, "broken.yaml")
    path.write_text(path.read_text().replace("[$norm, $f]", "[$nrom, $f]", 1))
    text = refused(tmp_path, grammar="broken.yaml", sedes="1")
    assert "unknown rule $nrom" in text
    assert "unknown key 'sedes'" in text
    (tmp_path / "broken.yaml").write_text("a: [")
    text = refused(tmp_path, grammar="broken.yaml")
    assert f"--> {tmp_path / 'broken.yaml'}:1:5" in text
    with pytest.raises(InputError) as both:
        space(tmp_path, profile="none", grammar="broken.yaml")
    assert "no profile 'none'" in str(both.value)
    assert "broken.yaml:1:5" in str(both.value)


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no profile 'quik'") as found:
        space(tmp_path, profiles=PROFILES, profile="quik")
    assert "did you mean 'quick'?" in str(found.value)
    with pytest.raises(InputError, match="its profiles are: none"):
        space(tmp_path, profile="quick")
    with pytest.raises(InputError, match="profile odd must be a mapping"):
        space(tmp_path, profiles="{odd: 3}", profile="odd")


def test_a_space_that_is_no_mapping(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("[a, b]\n")
    with pytest.raises(InputError, match="a space must be a mapping"):
        load_space(path, CATALOGUE)


def test_the_grammar_is_found_beside_the_space(tmp_path: Path) -> None:
    for folder in ("grammars", "spaces"):
        (tmp_path / folder).mkdir()
    copy_grammar(tmp_path / "grammars", "mine.yaml")
    assert space(tmp_path / "spaces", grammar="mine").grammar.path == tmp_path / "grammars" / "mine.yaml"
    assert space(tmp_path, grammar="mine").grammar.path == tmp_path / "grammars" / "mine.yaml"
    assert space(tmp_path, grammar="grammars/mine.yaml").grammar.count == transformer().count


def test_the_room_lists_each_key_once() -> None:
    assert not set(REQUIRED) & set(OPTIONAL)
    assert set(SECTIONS) <= set(REQUIRED)


def test_the_scale_that_a_loss_has_by_default_is_the_same_trial_written_out(tmp_path: Path) -> None:
    found = {}
    for scale in ("none", "{}", "{initial: 65536, every: 2000}", "{every: 2001}", "{initial: 32768}"):
        read = space(tmp_path, "recipe.dtype=float16", f"recipe.loss_scale={scale}")
        found[scale] = tuple(sorted(trial.id for trial in build_plan(read, vocab_size=256, corpus="c").trials))
    assert found["none"] == found["{}"] == found["{initial: 65536, every: 2000}"]
    assert len(set(found.values())) == 3
    said = refused(tmp_path, "recipe.dtype=bfloat16", "recipe.loss_scale={initial: 65536, every: 2000}")
    assert "recipe.loss_scale is for float16" in said  # not read as none, and forgotten


def test_a_variant_that_writes_the_default_scale_out_changes_nothing(tmp_path: Path) -> None:
    variants = "{scaled: {block: op, set: {recipe.loss_scale: {initial: 65536}}}}"
    said = refused(tmp_path, "recipe.dtype=float16", variants=variants, design="{compare: [pre_ln, scaled]}")
    assert "recipe.loss_scale has no effect in variant scaled: the space has this value already" in said
