"""Descriptions of models and of recipes that differ in what has no effect, and their nearest that differ in more.

Each name has three: two that are one model at the sizes of `space_fixtures` (4 layers, 4 heads of 8, 16 tokens, an init
of {normal: 0.02}), and a third that nearly is.
"""

PLAIN = "[residual: [layer_norm, attention], residual: [layer_norm, mlp]]"


def attending(fields: str) -> str:
    """A block with these fields of its attention."""
    return f"[residual: [layer_norm, attention: {{{fields}}}], residual: [layer_norm, mlp]]"


def with_mlp(part: str) -> str:
    """A block with this part in place of its MLP."""
    return f"[residual: [layer_norm, attention], residual: [layer_norm, {part}]]"


BLENDED = "{blend: {beside: {from: layers.first.attention.value}, gain: %d}}"

BLOCKS = {
    "as many keys as heads": (PLAIN, attending("kv_heads: 4"), attending("kv_heads: heads/2")),
    "the model's own heads": (PLAIN, attending("heads: 4, head_width: 8"), attending("heads: 2")),
    "as many keys as its own heads": (
        attending("heads: 2"),
        attending("heads: 2, kv_heads: 2, head_width: width/2"),
        attending("heads: 2, kv_heads: 1"),
    ),
    "a window as long as the context": (PLAIN, attending("mask: {window: context}"), attending("mask: {window: 15}")),
    "a window beyond the context": (PLAIN, attending("mask: {window: 1000}"), attending("mask: {window: context - 1}")),
    "a window rounded up": (
        attending("mask: {window: context/2 - 0.5}"),
        attending("mask: {window: 8}"),
        attending("mask: {window: 7}"),
    ),
    "the model's own mask": (PLAIN, attending("mask: causal"), attending("mask: document")),
    "a mask that another implies": (
        attending("mask: {window: 4}"),
        attending("mask: [causal, {window: 4}]"),
        attending("mask: [document, {window: 4}]"),
    ),
    "masks in another order": (
        attending("mask: [{window: 4}, document]"),
        attending("mask: [document, {window: 4}]"),
        attending("mask: [document, {window: 5}]"),
    ),
    "the tokenizer's separator": (
        attending("mask: document"),
        attending("mask: {document: 0}"),
        attending("mask: {document: 10}"),
    ),
    "a single pair of channels turned": (
        attending("position: {rope: {share: 0.25}}"),
        attending("position: {rope: {share: 0.25, base: 500}}"),
        attending("position: {rope: {share: 0.5, base: 500}}"),
    ),
    "distances beyond the context": (
        attending("bias: t5"),
        attending("bias: {t5: {max_distance: 500}}"),
        attending("bias: {t5: {buckets: 16, max_distance: 128}}"),
    ),
    "buckets that begin at the same distances": (
        attending("bias: {t5: {buckets: 8, max_distance: 128}}"),
        attending("bias: {t5: {buckets: 8, max_distance: 129}}"),
        attending("bias: {t5: {buckets: 8, max_distance: 16}}"),
    ),
    "biases in another order": (
        attending("bias: [alibi, t5]"),
        attending("bias: [t5, alibi]"),
        attending("bias: [transformer_xl, alibi]"),
    ),
    "the model's own init": (
        PLAIN,
        attending("query: {dense: {init: {normal: 0.01*2}}}"),
        attending("query: {dense: {init: {normal: 0.021}}}"),
    ),
    "an init per head, in another's heads": (
        attending("kv_heads: 2, query: {dense: {init: {xavier: {gain: 1, per_head: true}}}}"),
        attending("kv_heads: 2, query: {dense: {init: {xavier: {gain: 1, per_head: true}}}}, scale: 1/sqrt(8)"),
        attending("kv_heads: 2, query: {dense: {init: {xavier: {gain: 1}}}}"),
    ),
    "the model's own init, of a table": (
        attending("bias: t5"),
        attending("bias: {t5: {init: {normal: 0.02}}}"),
        attending("bias: {t5: {init: zero}}"),
    ),
    "the model's own init, of relative positions": (
        attending("bias: transformer_xl"),
        attending("bias: {transformer_xl: {init: {normal: 0.02}, start: {normal: 0.02}}}"),
        attending("bias: {transformer_xl: {init: {normal: 0.02}, start: zero}}"),
    ),
    "the model's own init, of a lookup": (
        attending("value: {blend: {beside: lookup, gain: 0.1}}"),
        attending("value: {blend: {beside: {lookup: {init: {normal: 0.02}}}, gain: 0.1}}"),
        attending("value: {blend: {beside: {lookup: {init: {normal: 0.03}}}, gain: 0.1}}"),
    ),
    "the model's own init, of a spectral weight": (
        attending("query: spectral"),
        attending("query: {spectral: {init: {normal: 0.02}}}"),
        attending("query: {spectral: {init: orthogonal}}"),
    ),
    "a normal init of width 0": (
        attending("query: {dense: {init: zero}}"),
        attending("query: {dense: {init: {normal: 0}}}"),
        attending("query: {dense: {init: {normal: 1e-3}}}"),
    ),
    "a gain of 0 at the start": (
        attending("query: {dense: {init: {orthogonal: 0}}}"),
        attending("query: {dense: {init: {fan_in: 0}}}"),
        attending("query: {dense: {init: {fan_in: 1e-3}}}"),
    ),
    "a Xavier init of gain 0": (
        attending("query: {dense: {init: {xavier: 0}}}"),
        attending("query: {dense: {init: {xavier: {gain: 0, per_head: true, distribution: normal}}}}"),
        attending("query: {dense: {init: {xavier: 1}}}"),
    ),
    "Xavier per head, of one head": (
        attending("heads: 1, query: {dense: {init: {xavier: 1}}}"),
        attending("heads: 1, query: {dense: {init: {xavier: {gain: 1, per_head: true}}}}"),
        attending("heads: 2, query: {dense: {init: {xavier: {gain: 1, per_head: true}}}}"),
    ),
    "a weight by layer": (
        attending("value: {by_layer: {first: dense, others: identity}}"),
        attending("value: {where: {layers: first, use: dense, otherwise: identity}}"),
        attending("value: {where: {layers: last, use: dense, otherwise: identity}}"),
    ),
    "one weight for all layers": (
        PLAIN,
        attending("value: {by_layer: {first: dense, others: dense}}"),
        attending("value: {by_layer: {first: dense, others: {dense: {bias: true}}}}"),
    ),
    "parts of the first layer": (
        "[first_layer: [layer_norm], residual: [attention], residual: [mlp]]",
        "[{where: {layers: first, use: layer_norm, otherwise: []}}, residual: [attention], residual: [mlp]]",
        "[layer_norm, residual: [attention], residual: [mlp]]",
    ),
    "a matrix without a trained part": (
        attending("value: {frozen: orthogonal}"),
        attending("value: {reparameterised: {init: orthogonal, gain: 0, delta: {normal: 1}, rate: 3}}"),
        attending("value: {reparameterised: {init: orthogonal, gain: 0, bias: true}}"),
    ),
    "a trained part that starts at 0": (
        attending("value: {reparameterised: {init: orthogonal}}"),
        attending("value: {reparameterised: {init: orthogonal, delta: {normal: 0}}}"),
        attending("value: {reparameterised: {init: orthogonal, delta: {normal: 1e-3}}}"),
    ),
    "a fixed part times 0": (
        attending("value: {reparameterised: {init: orthogonal, skip: 0, delta: {normal: 0.1}}}"),
        attending("value: {reparameterised: {init: eye, skip: 0, delta: {normal: 0.1}}}"),
        attending("value: {reparameterised: {init: eye, skip: 0.1, delta: {normal: 0.1}}}"),
    ),
    "nothing taken off": (
        attending("matrix: {value_skipinit: {skip: 0.5, gain: {init: 0.1, trainable: true}}}"),
        attending("matrix: {shaped: {skip: 0.5, gain: {init: 0.1, trainable: true}, centre: 0}}"),
        attending("matrix: {shaped: {skip: 0.5, gain: {init: 0.1, trainable: true}, centre: 0.01}}"),
    ),
    "a single branch": (
        "[residual: {skip: 0.9, branch: [layer_norm, attention]}, mlp]",
        "[parallel: {skip: 0.9, branches: [[layer_norm, attention]]}, mlp]",
        "[parallel: {skip: 0.9, branches: [[layer_norm, attention], [mlp]]}]",
    ),
    "a leaky ReLU that does not leak": (
        with_mlp("mlp: {activation: relu}"),
        with_mlp("mlp: {activation: {leaky_relu: 0}}"),
        with_mlp("mlp: {activation: {leaky_relu: 0.01}}"),
    ),
    "no choice among experts": (
        with_mlp("moe: {experts: 2, active: 2}"),
        with_mlp("moe: {experts: 2, active: 2, bias_rate: 0.001}"),
        with_mlp("moe: {experts: 2, active: 1, bias_rate: 0.001}"),
    ),
    "a value recalled times 0": (
        PLAIN,
        "[recall: {of: layers.first.in, gain: 0}, residual: [layer_norm, attention], residual: [layer_norm, mlp]]",
        "[recall: {of: layers.first.in, gain: 0.01}, residual: [layer_norm, attention], residual: [layer_norm, mlp]]",
    ),
    "a value blended times 0": (
        PLAIN,
        attending(f"value: {{where: {{layers: first, use: dense, otherwise: {BLENDED % 0}}}}}"),
        attending(f"value: {{where: {{layers: first, use: dense, otherwise: {BLENDED % 1}}}}}"),
    ),
    "a dropout of nothing": (
        PLAIN,
        "[residual: [layer_norm, attention], residual: [{dropout: 0}, layer_norm, mlp]]",
        "[residual: [layer_norm, attention], residual: [{dropout: 0.01}, layer_norm, mlp]]",
    ),
}
"""Blocks by what has no effect in the second of them."""

RECIPES = {
    "a decay of gains, of which none is trained": (
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0.1, decays: [gains]}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0.1, decays: [scales]}}",
    ),
    "a decay of nothing": (
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0.1, decays: []}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0, decays: [weights]}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0.1, decays: [weights]}}",
    ),
    "a decay of positions that are not trained": (
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0.1, decays: [weights]}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0.1, decays: [positions, weights]}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, weight_decay: 0.1, decays: [head, weights]}}",
    ),
    "a warm-up as a share": ("recipe.schedule.warmup: 10%", "recipe.schedule.warmup: 2", "recipe.schedule.warmup: 3"),
    "a decay that never begins": (
        "recipe.schedule: {warmup: 0, hold: 20, decay: linear, floor: 0}",
        "recipe.schedule: {warmup: 0, hold: 100%, decay: cosine, floor: 0.5}",
        "recipe.schedule: {warmup: 0, hold: 18, decay: linear, floor: 0}",
    ),
    "a straight line by another name": (
        "recipe.schedule: {warmup: 0, hold: 0, decay: linear, floor: 0}",
        "recipe.schedule: {warmup: 0, hold: 0, decay: {polynomial: {power: 1}}, floor: 0}",
        "recipe.schedule: {warmup: 0, hold: 0, decay: {polynomial: {power: 2}}, floor: 0}",
    ),
    "a floor as high as the peak": (
        "recipe.schedule: {warmup: 2, hold: 0, decay: cosine, floor: 1.0}",
        "recipe.schedule: {warmup: 2, hold: 5, decay: linear, floor: 1.0}",
        "recipe.schedule: {warmup: 2, hold: 0, decay: cosine, floor: 0.99}",
    ),
    "a floor as a rate": (
        "recipe.schedule.floor: {rate: 2.5e-3}",
        "recipe.schedule.floor: 0.25",
        "recipe.schedule.floor: 0.2",
    ),
    "a ramp as a share": (
        "recipe.batch_ramp: {from: 2, until: 50%}",
        "recipe.batch_ramp: {from: 2, until: 10}",
        "recipe.batch_ramp: {from: 2, until: 11}",
    ),
    "Nesterov's look ahead without momentum": (
        "recipe.optimizer: {muon: {lr: 1e-2, momentum: 0, nesterov: true}}",
        "recipe.optimizer: {muon: {lr: 1e-2, momentum: 0, nesterov: false}}",
        "recipe.optimizer: {muon: {lr: 1e-2, momentum: 0.5, nesterov: false}}",
    ),
    "a rate of the head that is the embedding's": (
        "recipe.optimizer: {adamw: {lr: 1e-2, embedding_lr: 3e-2}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, embedding_lr: 3e-2, head_lr: 3e-2, norm_lr: 1e-2}}",
        "recipe.optimizer: {adamw: {lr: 1e-2, embedding_lr: 3e-2, head_lr: 1e-2}}",
    ),
    "AdamW's rate beside Muon's": (
        "recipe.optimizer: {muon: {lr: 2e-2, adamw_lr: lr, embedding_lr: 2e-2}}",
        "recipe.optimizer: {muon: {lr: 2e-2, adamw_lr: 2e-2, norm_lr: 2e-2}}",
        "recipe.optimizer: {muon: {lr: 2e-2, adamw_lr: 1e-2, embedding_lr: 2e-2}}",
    ),
    "a rate of a head that is tied": (
        "model.head: tied, recipe.optimizer: {adamw: {lr: 2e-2}}",
        "model.head: tied, recipe.optimizer: {adamw: {lr: 2e-2, head_lr: 3e-2}}",
        "model.head: tied, recipe.optimizer: {adamw: {lr: 2e-2, embedding_lr: 3e-2}}",
    ),
    "a basis that is never refreshed": (
        "recipe.optimizer: {soap: {lr: 1e-2, precondition_frequency: 50}}",
        "recipe.optimizer: {soap: {lr: 1e-2, precondition_frequency: 19}}",
        "recipe.optimizer: {soap: {lr: 1e-2, precondition_frequency: 18}}",
    ),
    "one layer for all": ("model.share: {cycle: 1}", "model.share: {repeat: 4}", "model.share: {repeat: 2}"),
}
"""What a treatment sets around its block, by what has no effect in the second of them."""
