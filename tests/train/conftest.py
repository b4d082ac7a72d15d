"""A small decoder, its data and a trial, written out by hand: training needs no compiler and no corpus."""

from dataclasses import dataclass, replace

import pytest
import torch
from recipes import recipe
from torch import nn

from ablate.block.architecture import Architecture
from ablate.block.arithmetic import parse
from ablate.block.expression import Node, Sequence
from ablate.block.sizes import Sizes
from ablate.compiler.build import Scale
from ablate.data.batch import Examples
from ablate.kernels import Attend
from ablate.plan.identity import ModelTraining
from ablate.plan.plan import Trial
from ablate.space.data import Data
from ablate.space.documents import Choice
from ablate.space.judge import Evaluation, Measure

VOCABULARY, WIDTH, TIME, BATCH = 13, 8, 6, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.core = Attend(causal=True, scale=0.5)

    def forward(self, x):
        q, k, v = (weight(x).unflatten(-1, (2, -1)).transpose(1, 2) for weight in (self.query, self.key, self.value))
        return self.core(q, k, v).transpose(1, 2).flatten(-2)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.between = nn.Identity()

    def forward(self, x):
        return self.down(torch.relu(self.between(self.up(x))))


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.attention_gain = Scale(0.5, trainable=True)
        self.mlp = MLP()
        self.mlp_gain = Scale(0.5, trainable=True, shape=(WIDTH,))
        self.dropout = nn.Dropout(dropout)
        self.sublayers = {"attention": "attention_norm", "mlp": "mlp"}

    def forward(self, x):
        x = x + self.attention_gain(self.attention(self.attention_norm(x)))
        return x + self.mlp_gain(self.dropout(self.mlp(x)))


class Model(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(TIME, WIDTH)
        self.layers = nn.ModuleDict({str(i): Block(dropout) for i in (1, 2)})
        self.final_norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.layers.values():
            x = block(x)
        return self.head(self.final_norm(x))


@dataclass(frozen=True)
class Tokens:
    """Sequences that count upwards from a random start, now and then with a slip: something can be learned."""

    seed: int = 0

    def windows(self, number, stream):
        random = torch.Generator().manual_seed(1000 * self.seed + stream)
        start = torch.randint(VOCABULARY, (number, 1), generator=random)
        slips = (torch.rand(number, TIME + 1, generator=random) < 0.1).cumsum(-1)
        tokens = (start + torch.arange(TIME + 1) + slips) % VOCABULARY
        return tokens[:, :-1], tokens[:, 1:]

    def at(self, step):
        return self.windows(BATCH, step)

    @property
    def evaluation(self):
        return Examples(*self.windows(10, 999), bytes=None)  # not a multiple of the batch; no text has these tokens


def change(document, changes):
    """The document with some fields changed; `recipe__steps=3` reaches inside."""
    for path, value in changes.items():
        first, _, rest = path.partition("__")
        if isinstance(document, Choice):
            document = replace(document, settings={**document.settings, rest: value})
            continue
        if isinstance(document, Trial) and hasattr(document.work, first):
            document = replace(document, work=change(document.work, {path: value}))
            continue
        new = change(getattr(document, first), {rest: value}) if rest else value
        if isinstance(document, Trial | ModelTraining):
            document = replace(document, **{first: new})
        else:
            document = type(document).model_validate({**dict(document), first: new})
    return document


@pytest.fixture
def data():
    return Tokens()


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: a second thread would only wait, and wait badly where other tests run beside these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def build():
    def build(seed=0, dtype=torch.float32, dropout=0.0):
        torch.manual_seed(seed)
        return Model(dropout).to(dtype)

    return build


@pytest.fixture
def make_trial():
    """A trial of 8 steps; `make_trial(recipe__clip=None)` changes what it names."""
    nothing = Node("none")
    trial = Trial(
        id="a-trial",
        variant="a-variant",
        work=ModelTraining(
            architecture=Architecture(
                kind="decoder",
                sizes=Sizes(n_layers=2, d_model=WIDTH, n_heads=2, seq_len=TIME, vocab_size=VOCABULARY),
                block=Sequence(()),
                positions="learned",
                embedding_std=parse(0.02),
                embedding_scale=parse(1),
                embedding_dropout=0.0,
                position_std=parse(0.02),
                position_rows=TIME,
                logit_scale=parse(1),
                tied=False,
                entry_norm=None,
                final_norm=nothing,
                init=nothing,
            ),
            data=Data(corpus="python_stdlib", tokenizer="bytes", tuning=0.1, verdict=0.1),
            corpus="a-fingerprint",
            folder=".",
            recipe=recipe(steps=8, batch=BATCH, warmup=0.25),
            measure=Measure(
                every=3,
                probes=("kurtosis", "token_correlation", "gram", "attention_entropy", "gradient_norm"),
                evaluation=Evaluation(every=4, windows=10),
                checkpoint_every=3,
            ),
            threads=1,
        ),
        seed=0,
        salt=0,
    )
    return lambda **changes: change(trial, changes)
