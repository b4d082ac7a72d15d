"""Hints for values that the documents of a space refuse: what is accepted, and what other programs call it."""

from __future__ import annotations

from typing import Final

from ablate.source.document import Hints

PAIR = "{from: pre_ln, to: op}"

WAYS: Final = {
    "data": "such as data: {corpus: python_stdlib, tokenizer: bytes}",
    "data.corpus": "of the hub: {hub: NAME, split: train, field: text}; images: {hub_images: NAME, split: train, "
    "image: img, label: label, size: 32, classes: 10}; files of your own: {files: ['texts/**/*.txt']}",
    "data.corpus.files": "such as files: ['texts/**/*.txt']",
    "data.corpus.jsonl": "such as jsonl: ['texts/**/*.jsonl'], with field: the key that holds the text",
    "data.corpus.parquet": "such as parquet: ['texts/**/*.parquet'], with field: the column that holds the text",
    "data.corpus.at_most": "the most that is read of it: a number of bytes, or a size such as 4 GiB; if left out, "
    "1 GiB, and all of local files",
    "data.tokenizer": "bytes, {bpe: 32000}, {wordpiece: 32768}, {unigram: 8000}, or a saved one: {file: "
    "tokenizer.json}. A space has one; across tokenizers `ablate sql @across_tokenizers` compares bits per byte",
    "data.tokenizer.file": "a file that the library tokenizers saved, beside the space: tokenizer.json",
    "data.tokenizer.bpe": "the size of the vocabulary: 256 bytes, a separator, and the merges",
    "data.tokenizer.unigram": "the size of the vocabulary, from 262 to 65536",
    "data.tokenizer.wordpiece": "the size of the vocabulary, from 6 to 65536, or {size: 32768, lowercase: false}",
    "data.tuning": "a share of the text: 5% or 0.05",
    "data.verdict": "a share of the text: 5% or 0.05",
    "design": f"such as design: {{path: {PAIR}}}, or design: {{compare: [pre_ln, op]}}",
    "design.compare": "such as compare: [pre_ln, op]",
    "design.path": f"such as path: {PAIR}",
    "design.leave_one_out": f"such as leave_one_out: {PAIR}",
    "design.add_one_in": f"such as add_one_in: {PAIR}",
    "design.factorial": f"such as factorial: {PAIR}",
    "design.factorial.vary": "such as vary: {model.layers: [4, 8, 16]}",
    "design.search.start": "a rule that the grammar lists under start",
    "design.search.vary": "such as vary: {recipe.optimizer.adamw.lr: {from: 1e-4, to: 1e-1, scale: log}}",
    "design.fractional": "such as fractional: {from: pre_ln, to: op, resolution: IV}",
    "design.fractional.resolution": (
        "III aliases edits with pairs, IV pairs with each other, V neither; for no aliasing at all: factorial"
    ),
    "design.*.interactions": "pairs: also interactions of two edits; none: only the effect of each edit",
    "design.plackett_burman": f"such as plackett_burman: {PAIR}",
    "design.d_optimal": "such as d_optimal: {from: pre_ln, to: op, runs: 12}",
    "design.*.split": "name edits to split place by place: [-layer_norm], or true for all",
    "design.ladder": "such as ladder: {compare: [pre_ln, op], sizes: [{model.width: 32}, {model.width: 48}, …]}",
    "design.ladder.compare": "such as compare: [pre_ln, op]",
    "design.ladder.law": "power: a·C^-b; saturating: E + a·C^-b, from four sizes on",
    "design.search": "such as search: {from: pre_ln, objective: {eval_loss: min}, budget: {trials: 60}}",
    "design.search.objective": "such as objective: {eval_loss: min}",
    "design.search.objective.*": "min: lower is better; max: higher is better",
    "design.search.budget": "such as budget: {trials: 60}, {hours: 8} or {flops: 1e18}",
    "design.search.pruner": "such as pruner: {asha: {first: 25%, factor: 2}}, or pruner: none",
    "design.search.pruner.*": "such as {first: 25%, factor: 2}: the best half continue after a quarter of the steps",
    "design.search.beforehand": "such as beforehand: {veto: {parameters: 110%}, order: null}",
    "design.search.beforehand.veto": "such as veto: {parameters: 110%}",
    "design.search.beforehand.veto.*": "a share of the reference's value such as 110%, or a number above 0",
    "design.search.beforehand.forecast": "avoid skips what a forecast finds in danger; ignore trains it like any other",
    "design.search.beforehand.order": "such as order: {by: parameters, of: 4}: of 4 proposals the smallest is trained",
    "design.search.beforehand.order.of": "the number of proposals of which one is trained",
    "design.search.confirm": "such as confirm: {blocks: 3, seeds: 5}, or confirm: none",
    "fair": "such as fair: {budget: flops}, or fair: {match: {parameters: 1%, by: width}}",
    "fair.budget": "wallclock is equal time; steps and tokens are the same, since all batches have one size",
    "fair.match": "such as match: {parameters: 1%, by: width}",
    "fair.*match.by": "what is changed to make the parameters equal: the model's width or depth, or its MLPs",
    "fair.*match.parameters": "how far from equal they may be, such as 1%",
    "fair.tune": "such as tune: {lr: [1e-3, 3e-3, 1e-2], seeds: 2}",
    "fair.under": "name the terms: under: {equal steps: {}, equal FLOPs: {budget: flops}}",
    "fair.under.*": "such as {budget: flops}, or {match: {parameters: 1%, by: width}}",
    "judge": "such as judge: {against: pre_ln, metrics: {eval_loss: {margin: 1%}}}",
    "judge.against": "one block that the others are compared with: against: pre_ln",
    "judge.confidence": "the confidence level of the intervals, such as 0.95",
    "judge.expect": "such as expect: [{claim: Fig. 6, of: hot, metric: eval_loss, verdict: better}]",
    "judge.expect*.verdict": (
        "better, worse or equivalent (higher or lower where neither is better), or a list of what the claim allows"
    ),
    "judge.expect*.order": "variants, the lowest first: order: a < b < c",
    "judge.expect*.equivalent": "variants that are all equivalent: equivalent: [a, b, c]",
    "judge.expect*.correlation": "another metric, of which the correlation over the variants is meant",
    "judge.expect*.by": "a share of the baseline's mean such as 2%, or a number such as 0.05: what its power is for",
    "judge.pairing": "possible: by seed, where both sides see the same batches; required: of every comparison",
    "judge.budget": "question: each has an account of its own; folder: one for all that share a training",
    "judge.family": "metric: the comparisons on one metric; page: those on all metrics",
    "judge.metrics": "such as metrics: {eval_loss: {margin: 1%}, peak_kurtosis: {scale: log}}",
    "judge.metrics.*.margin": "a share of the baseline's mean such as 1%, a number such as 0.01, or none",
    "judge.metrics.*.scale": "log: differences are ratios",
    "judge.metrics.*.better": "which side is better: lower, higher, or none for one that is only higher or lower",
    "judge.metrics.*": "such as {margin: 1%}; {} for the defaults",
    "measure": "such as measure: {every: 25, probes: [kurtosis], evaluation: {every: 100, windows: 64}}",
    "measure.evaluation": "such as evaluation: {every: 100, windows: 64}",
    "measure.probes": "`ablate list probes` lists them",
    "measure.train_loss_ema": "the decay of its moving average, such as train_loss_ema: 0.99; none: it is not measured",
    "model": "such as model: {layers: 6, width: 128, heads: 4, context: 64, head: untied, init: {normal: 0.02}}",
    "model.ahead": "a number of blocks, one for each weight of recipe.loss.ahead; 0: none",
    "model.embedding": "such as embedding: {std: 0.02, scale: 1}",
    "model.encoder_layers": "a number of layers, or none: as many as the decoder's",
    "model.source": "the length of what the encoder reads, such as 128; none of a model without an encoder",
    "model.head": "tied: the embedding's matrix is the head's",
    "model.logit_softcap": "a bound such as 30, or none",
    "model.share": "such as share: {cycle: 2} for layers A B A B, {repeat: 2} for A A B B, or none",
    "model.position": "learned ones: {learned: 0.02}; rope is the attention's: block: {attention.position: rope}",
    "noise": "such as noise: {seeds: 5}",
    "recipe": "such as recipe: {steps: 200, batch: 8, optimizer: {adamw: {lr: 1e-3}}}",
    "recipe.average": "such as average: {last: 10, every: 500} or average: {ema: 0.999}; none: no average",
    "recipe.batch_ramp": "such as batch_ramp: {from: 32, until: 60%}, or none",
    "recipe.batch_ramp.from": "the sequences of the first batch; recipe.batch is where the ramp ends",
    "recipe.batch_ramp.until": "steps such as 100, or a share of all of them: 60% or 0.6",
    "recipe.clip": "a norm such as 1.0, or null for no clipping",
    "recipe.dtype": "half precision is bfloat16, or float16, whose loss is scaled: recipe.loss_scale",
    "recipe.loss_scale": "of float16, such as loss_scale: {initial: 65536, every: 2000}; none: these",
    "recipe.loss": "such as loss: {label_smoothing: 0.1, z: 1e-4, ahead: [0.5, 0.25]}",
    "recipe.optimizer": "such as optimizer: {adamw: {lr: 1e-3}}",
    "recipe.optimizer.adamw": "such as adamw: {lr: 1e-3, betas: [0.9, 0.95], weight_decay: 0.1}",
    "recipe.optimizer.adamw.betas": "such as betas: [0.9, 0.95]",
    "recipe.optimizer.adamw.decays": "such as decays: [weights, embedding, head]",
    "recipe.schedule": "such as schedule: {warmup: 5%, decay: cosine}",
    "recipe.schedule.floor": "a share of the rate: 10%; or a rate: {rate: 1e-5}",
    "recipe.schedule.warmup": "steps such as 100, or a share of all of them: 5% or 0.05",
    "recipe.schedule.hold": "steps at the peak, such as 100, or a share of all of them: 5% or 0.05",
    "recipe.schedule.decay.wsd.over": "a share of all steps: 20% or 0.2",
    "seeds.auto": "such as seeds: auto, or seeds: {auto: {looks: [4, 8, 12]}}",
    "seeds.auto.looks": "such as looks: [4, 8, 12]",
}
"""By the name of the value, where the error message alone does not show what to write."""

LR, STEPS, BATCH, CLIP = "recipe.optimizer.adamw.lr", "recipe.steps", "recipe.batch", "recipe.clip"
LAYERS, WIDTH, HEADS, CONTEXT = "model.layers", "model.width", "model.heads", "model.context"
BETAS, EVALUATED = "recipe.optimizer.adamw.betas", "measure.evaluation.every"
WARMUP, DECAY, TIED = "recipe.schedule.warmup", "recipe.schedule.decay", "model.head, tied or untied"
ACTIVATION = "for every block: block: {mlp.activation: relu}"
EPOCHS = "there are no epochs: recipe.steps, of recipe.batch sequences each"
MIRRORED = "runs are mirrored to MLflow: ablate run --mlflow"
PLACED = "where trials run is not part of the question: see ablate run --help"

OTHER_NAMES: Final = {
    **dict.fromkeys(("n_layer", "n_layers", "num_layers", "num_hidden_layers", "depth"), LAYERS),
    **dict.fromkeys(("n_embd", "hidden_size", "d_model", "dim", "embed_dim", "hidden_dim"), WIDTH),
    **dict.fromkeys(("n_head", "n_heads", "num_heads", "num_attention_heads"), HEADS),
    **dict.fromkeys(
        ("block_size", "seq_len", "seq_length", "max_seq_len", "sequence_length", "context_length", "n_ctx"), CONTEXT
    ),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), CONTEXT),
    **dict.fromkeys(("tie_word_embeddings", "tie_embeddings", "tie_weights", "weight_tying"), TIED),
    **dict.fromkeys(("vocab_size", "vocabulary"), "the vocabulary is the tokenizer's: data.tokenizer"),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff"), "for every block: block: {mlp.hidden: 4x}"),
    **dict.fromkeys(
        ("activation", "hidden_act", "activation_function"), "for every block: block: {mlp.activation: relu}"
    ),
    "dropout": "for every block: block: {attention.dropout: 0.1}; of the embedding: model.embedding.dropout",
    **dict.fromkeys(("lr", "learning_rate", "max_lr", "peak_lr"), LR),
    **dict.fromkeys(("batch_size_ramp", "rampup_batch_size", "batch_size_rampup"), "recipe.batch_ramp"),
    **dict.fromkeys(("batch_size", "train_batch_size", "per_device_train_batch_size", "bs"), BATCH),
    **dict.fromkeys(("max_steps", "max_iters", "num_steps", "n_steps", "iterations", "train_steps"), STEPS),
    **dict.fromkeys(
        ("epochs", "num_epochs", "num_train_epochs"), "there are no epochs: recipe.steps, of recipe.batch each"
    ),
    **dict.fromkeys(("grad_clip", "gradient_clip", "max_grad_norm", "clip_grad_norm", "gradient_clip_val"), CLIP),
    **dict.fromkeys(("warmup_steps", "warmup_iters", "warmup_ratio", "num_warmup_steps", "warmup_fraction"), WARMUP),
    **dict.fromkeys(("lr_scheduler", "lr_scheduler_type", "scheduler", "lr_schedule"), DECAY),
    **dict.fromkeys(("min_lr", "final_lr", "end_lr"), "recipe.schedule.floor"),
    **dict.fromkeys(("beta1", "beta2", "adam_beta1", "adam_beta2"), BETAS),
    "weight_decay": "recipe.optimizer.adamw.weight_decay",
    **dict.fromkeys(("precision", "mixed_precision", "fp16", "bf16"), "recipe.dtype"),
    **dict.fromkeys(("init_scale", "initial_scale_power", "grad_scaler"), "recipe.loss_scale"),
    **dict.fromkeys(("eval_interval", "eval_steps", "eval_every"), EVALUATED),
    **dict.fromkeys(("eval_iters", "eval_batches"), "measure.evaluation.windows"),
    **dict.fromkeys(("save_steps", "save_interval", "checkpoint_interval"), "measure.checkpoint_every"),
    **dict.fromkeys(("log_interval", "logging_steps", "log_every"), "measure.every"),
    **dict.fromkeys(("dataset", "train_data", "data_dir"), "data.corpus"),
    "files": "here it is data: {corpus: {files: ['texts/**/*.txt']}}",
    "hub": "here it is data: {corpus: {hub: NAME, split: train, field: text}}",
    "at_most": "here it is data: {corpus: {hub: NAME, split: train, field: text, at_most: 4 GiB}}",
    "tokenizer": "all variants of a space share one: data.tokenizer",
    "name": "space",
    **dict.fromkeys(("training", "train", "trainer", "training_args"), "recipe"),
    **dict.fromkeys(
        ("device", "gpus", "num_gpus", "num_workers", "accelerator", "strategy", "workers", "executor"), PLACED
    ),
    **dict.fromkeys(
        ("wandb", "logger", "logging", "tracker", "mlflow"), "runs are mirrored to MLflow: ablate run --mlflow"
    ),
    **dict.fromkeys(("type", "_target_"), "the kind is a key, with its settings as the value: {adamw: {lr: 1e-3}}"),
    "defaults": "what a space leaves out comes from its grammar",
}
"""Keys of GPT, Transformers, Lightning and Hydra configurations, and what to write here instead."""

HINTS: Final = Hints(WAYS, OTHER_NAMES)
