"""Vision transformers and residual MLPs of the papers: their parameters, by hand and as published, and their shapes."""

from __future__ import annotations

import pytest
import torch
from reading import transformer

import ablate
from ablate.compiler import compile_model, size_report
from ablate.plan.size import cost

GRAMMAR = transformer()

IMAGES = '''
"""Images of one size, that nothing reads."""
from ablate.data.corpora.declare import Layout, Settings, corpus, implements

@corpus("sized", source="this test")
class Sized(Settings):
    sized: int
    classes: int

    @property
    def layout(self):
        return Layout(shape=(3, self.sized, self.sized), dtype="uint8", targets=0, classes=self.classes)


@implements(Sized)
def read(settings, folder):
    raise AssertionError("its images are not read")
'''
SPACE = """
space: sizes
question: How large is it?
grammar: {grammar}
preset: {preset}
data: {{corpus: {{sized: {side}, classes: {classes}}}}}
design: {{compare: [{blocks}]}}
seeds: 1
measure: {{every: 10, probes: [], evaluation: {{every: 20, windows: 8}}}}
judge: {{against: {first}, metrics: {{eval_loss: {{}}, eval_accuracy: {{}}}}}}
"""


def architecture_of(folder, preset, side, classes, *blocks):
    (folder / "images.py").write_text(IMAGES, encoding="utf-8")
    written = {"grammar": GRAMMAR.path, "preset": preset, "side": side, "classes": classes}
    path = folder / "space.yaml"
    path.write_text(SPACE.format(**written, blocks=", ".join(blocks), first=blocks[0]), encoding="utf-8")
    space = ablate.load_space(path, plugins=(folder / "images.py",))
    return space.architecture(space.blocks[blocks[0]], classes)


def layers(width):
    """A Pre-LN layer with biases: queries, keys, values, projection; an MLP of four widths; two LayerNorms."""
    return 4 * (width * width + width) + 2 * 4 * width * width + 5 * width + 2 * 2 * width


VITS = {
    # Touvron et al. 2021, Table 1, and the count of its code; Beyer et al. 2022 give 22M
    "vit_s": (22.05, 384 + 197 * 384, 0),
    "vit_s_plain": (22.12, 0, 384 * 384 + 384),
}


@pytest.mark.parametrize("preset", VITS)
def test_vit_s_has_the_parameters_that_are_published(tmp_path, preset):
    millions, tokens, before_head = VITS[preset]
    whole = architecture_of(tmp_path, preset, 224, 1_000, "pre_ln", "op")
    patches = 3 * 16 * 16 * 384 + 384
    expected = patches + tokens + 12 * layers(384) + 2 * 384 + before_head + 384 * 1_000 + 1_000
    counted = cost(whole, GRAMMAR.catalogue)
    assert counted == size_report(whole, GRAMMAR.catalogue)
    assert counted.parameters == expected and counted.parameters / 1e6 == pytest.approx(millions, abs=0.005)
    assert counted.flops / 2e9 == pytest.approx(4.6, abs=0.05), "Touvron et al. 2021: 4.6 GMAC"


@pytest.mark.parametrize("block", ["outlier_mlp_pre_norm", "outlier_mlp_no_norm"])
def test_the_residual_mlp_has_the_parameters_that_are_published(tmp_path, block):
    """He et al. 2024, App. G: 6 layers of width 1024 on CIFAR-10 give 15M parameters."""
    other = "outlier_mlp_no_norm" if block.endswith("pre_norm") else "outlier_mlp_pre_norm"
    whole = architecture_of(tmp_path, "outlier_mlp", 32, 10, block, other)
    expected = 3 * 32 * 32 * 1024 + 1024 + 6 * 2 * 1024**2 + 1024 * 10 + 10
    counted = cost(whole, GRAMMAR.catalogue)
    assert counted == size_report(whole, GRAMMAR.catalogue)
    assert counted.parameters == expected == 15_739_914
    assert 15e6 < counted.parameters < 16e6
    model = compile_model(whole, GRAMMAR.catalogue)
    assert (model(torch.randn(3, 3, 32, 32)) == 0).all(), "its last layer starts at 0"
    assert model.head.scale == 1024**-0.5
