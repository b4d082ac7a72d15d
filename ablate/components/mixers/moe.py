"""MoE: a mixture of experts, small MLPs of which each token passes through the few that a router chooses.

    r = score(router(x))                   one number per expert: softmax over the experts, or sigmoid of each
    K = the k experts with the largest r + b                    k is `active`; b only chooses: 0 without `bias_rate`
    g_e = r_e, or r_e / Σ_(j in K) r_j where `normalised`
    y = Σ_(e in K) g_e f_e(x) + Σ_s f_s(x)                      the shared experts s serve every token
    f(x) = down(act(up(x))), or down(act(up(x)) ⊙ gate(x)) gated

    L_balance = balance * E Σ_e F_e P_e    F_e the share of all choices that fall on e, P_e the mean of r_e / Σ_j r_j
    L_z = z * mean (log Σ_e exp(router(x)_e))²
    b_e += bias_rate * sign(mean load - load_e)                 after each step; the load: the choices of its batch

    Shazeer et al. 2017, arXiv:1701.06538; k = 1 and L_balance: Fedus et al. 2022, arXiv:2101.03961, Eq. 4 to 6, whose
    F is of one choice a token; L_z: Zoph et al. 2022, arXiv:2202.08906, Eq. 5; b: Wang et al. 2024, arXiv:2408.15664,
    Alg. 1; shared experts: Dai et al. 2024, arXiv:2401.06066; sigmoid: DeepSeek-AI 2024, arXiv:2412.19437, Eq. 12-16.

There is no capacity, and no token is dropped. Each expert is a part with matrices of its own (`experts.0.up`), not a
slice of one tensor: every weight that fits an MLP fits an expert, with its init and its rate, optimisers of matrices
update each as a matrix, and a model with more experts shares the numbers of the first. On the meta device, which has no
data, all experts get equally many tokens. Under `torch.compile` the graph breaks at the experts.

The router is computed in float32 at least, also under autocast (arXiv:2101.03961, Sec. 2.4). In microbatches or among
ranks L_balance, a product of means, is the mean of that of each part, and L_z, linear in the tokens, is exact; the load
is counted over the whole batch in whole numbers, so that b does not depend on how it is divided.

Dimension key: B batch, T time, N tokens (B T), D width of the model, E experts, K choices of a token.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ablate.block.equation import grouped
from ablate.components.declare import (
    Cost,
    Kept,
    Maker,
    Node,
    Signal,
    Sizes,
    component,
    fixed,
    flag,
    implements,
    number,
    part,
    width,
    word,
)
from ablate.components.inverted import refuse_inverted
from ablate.errors import InputError


@component("moe", slots=("part",), role="mlp", source="Shazeer et al. 2017, arXiv:1701.06538", version=1)
class Config:
    """`experts` E, of which a token passes `active`, and `shared` more; `hidden` is the width inside of each.

    `balance` and `z` weigh the two losses of the router, and `bias_rate` is what b changes by in a step; 0: none of it.
    A weight in `gate` makes every expert gated.
    """

    experts: float = number(at_least=1.0, at_most=4096.0, whole=True)
    active: float = number(at_least=1.0, at_most=4096.0, whole=True)
    shared: float = number(at_least=0.0, at_most=4096.0, whole=True)
    hidden: int = width()
    activation: Maker = part("activation")
    router: Maker = part("weight")
    up: Maker = part("weight")
    gate: Maker | None = part("weight", optional=True)
    down: Maker = part("weight")
    score: str = word("softmax", "sigmoid")
    normalised: bool = flag()
    balance: float = number(at_least=0.0)
    z: float = number(at_least=0.0)
    bias_rate: float = number(at_least=0.0)

    @staticmethod
    def effective(node: Node, sizes: Sizes) -> Node:
        """The node without a bias of the choice where nothing is to choose: every expert is active."""
        return node.replace({"bias_rate": 0.0}) if fixed(node["active"]) == fixed(node["experts"]) else node

    def cost(self, sizes: Sizes) -> Cost:
        """All FLOPs of a weight count as products with tokens: `spectral` has a few of its own, in each expert."""
        check_choices(self.experts, self.active)
        up, down = self.up(sizes.d_model, self.hidden), self.down(self.hidden, sizes.d_model)
        gate = self.gate(sizes.d_model, self.hidden) if self.gate else Cost()
        expert: Cost = up + gate + down + self.activation()
        held, used = int(self.experts + self.shared), int(self.active + self.shared)
        router: Cost = self.router(sizes.d_model, int(self.experts))
        return router + Cost(held * expert.parameters, used * expert.flops, used * expert.spared)

    sampled = True

    def propagate(self, x: Signal, sizes: Sizes) -> Signal:
        """(G + shared) ⊙ Σ_f, with f one expert, and G_ij = E[Σ_e g_e(x_i) g_e(x_j)] sampled from the router's kernel.

        b is 0 at first. The gradient reaches x through the experts, and through the gains of those that were chosen.
        InputError for experts that start alike.
        """
        from ablate.signal.sampled_attention import routing

        check_choices(self.experts, self.active)
        refuse_inverted(up=self.up, gate=self.gate, down=self.down)
        width, experts = sizes.d_model, int(self.experts)

        def mixed(x: Signal) -> Signal:
            inner: Signal = self.activation(self.up(x, width, self.hidden))
            inner = inner.gated(self.gate(x, width, self.hidden)) if self.gate else inner
            expert: Signal = self.down(inner, self.hidden, width)
            if expert.transfer is not None:
                raise InputError(
                    "moe whose experts are not of independent random weights is not forecast\n"
                    "  = give up and down a weight with a random init, such as dense"
                )
            router: Signal = self.router(x, width, experts)
            routed = routing(
                router.kernel, experts, int(self.active), softmax=self.score == "softmax", normalised=self.normalised
            )
            into_logits = routed.slopes * expert.kernel * (width / experts)
            routes = replace(router, backward=lambda gradient: router.backward(into_logits * gradient))
            served = routed.gains + self.shared
            return replace(
                expert,
                kernel=served * expert.kernel,
                backward=lambda gradient: expert.backward(served * gradient) + routes.backward(gradient),
            )

        return x.forked(lambda x: [mixed(x)])

    def equation(self, x: str) -> str:
        return f"MoE({x})"

    def details(self) -> tuple[str, ...]:
        shared = f" + Σ_s f_s(X),  s = 1 … {self.shared:g}" if self.shared else ""
        bias = " + b" if self.bias_rate else ""
        gain = "r_e / Σ_(j ∈ K) r_j" if self.normalised else "r_e"
        hidden = self.activation(self.up("X", "W^U_e"))
        if self.gate:
            hidden = f"({grouped(hidden)} ⊙ {grouped(self.gate('X', 'W^G_e'))})"
        return (
            f"MoE(X) = Σ_(e ∈ K) g_e f_e(X){shared}",
            f"r = {self.score}({self.router('X', 'W^R')}) over {self.experts:g} experts,  "
            f"K: the {self.active:g} of largest r{bias},  g_e = {gain}",
            f"f_e(X) = {self.down(grouped(hidden), 'W^D_e')}",
        )


def check_choices(experts: float, active: float) -> None:
    if active > experts:
        raise InputError(
            f"moe: {active:g} experts are active of {experts:g}\n  = choose as many as there are, or fewer"
        )


import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

TINY = 1e-20  # added to the sum of the chosen scores: sigmoids may all vanish


class Expert(nn.Module):
    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.up = config.up(sizes.d_model, config.hidden)
        self.gate = config.gate(sizes.d_model, config.hidden) if config.gate else None
        self.activation = config.activation()
        self.down = config.down(config.hidden, sizes.d_model)

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        hidden = self.activation(self.up(x))
        y: Tensor = self.down(hidden if self.gate is None else hidden * self.gate(x))
        return y


@implements(Config)
class MoE(nn.Module):
    bias: Tensor | None

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        check_choices(config.experts, config.active)
        self.active, self.score, self.normalised = int(config.active), config.score, config.normalised
        self.balance, self.z, self.bias_rate = config.balance, config.z, config.bias_rate
        self.router = config.router(sizes.d_model, int(config.experts))
        self.experts = nn.ModuleList(Expert(config, sizes) for _ in range(int(config.experts)))
        self.shared = nn.ModuleList(Expert(config, sizes) for _ in range(int(config.shared)))
        self.register_buffer("bias", torch.zeros(len(self.experts)) if config.bias_rate else None)
        self.kept = Kept()
        self.load: Tensor | None = None  # choices of each expert in the passes of this step, [E]

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        tokens = x.flatten(0, 1)
        logits = self.logits(tokens)
        scores = logits.softmax(-1) if self.score == "softmax" else logits.sigmoid()
        preferred = scores.detach() if self.bias is None else scores.detach() + self.bias
        chosen = preferred.topk(self.active).indices
        gains = scores.gather(1, chosen)
        if self.normalised:
            gains = gains / (gains.sum(-1, keepdim=True) + TINY)
        if self.training and torch.is_grad_enabled():
            self.kept.keep(logits=logits, scores=scores, chosen=chosen)
        served = self.served(tokens, chosen)
        y = (gains[..., None] * served).sum(1).to(served.dtype)
        for expert in self.shared:
            y = y + expert(tokens)
        return y.view_as(x)

    def logits(self, tokens: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
        """In float32 at least."""
        kind = tokens.device.type
        if not tokens.is_meta and torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                logits: Tensor = self.router(tokens.float())
        else:
            logits = self.router(tokens)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def served(self, tokens: Float[Tensor, "N D"], chosen: Int[Tensor, "N K"]) -> Float[Tensor, "N K D"]:
        # Copied and then permuted, rather than gathered: the gradient of a permutation needs no sum in any order.
        rows = tokens[:, None].expand(-1, self.active, -1).flatten(0, 1)
        order = chosen.flatten().argsort(stable=True)
        shares = self._shares(rows[order], chosen)
        y = torch.cat([expert(share) for expert, share in zip(self.experts, shares, strict=True)])
        return y[order.argsort()].view(*chosen.shape, -1)

    def _shares(self, rows: Float[Tensor, "NK D"], chosen: Int[Tensor, "N K"]) -> tuple[Tensor, ...]:
        """Split rows that are sorted by expert into those of each."""
        if rows.is_meta:
            return rows.tensor_split(len(self.experts))
        return torch.split(rows, self._counts(chosen).tolist())

    def _counts(self, chosen: Int[Tensor, "N K"]) -> Int[Tensor, "E"]:
        return chosen.flatten().bincount(minlength=len(self.experts))

    def losses(self) -> Mapping[str, Tensor]:
        """L_balance and L_z of the last pass, where they have a weight; its load is counted."""
        kept = self.kept.take()
        return dict(self._losses(**kept)) if kept else {}

    def _losses(self, logits: Tensor, scores: Tensor, chosen: Tensor) -> Iterator[tuple[str, Tensor]]:
        counts = self._counts(chosen)
        self.load = counts if self.load is None else self.load + counts
        if self.balance:
            share = counts.to(scores.dtype) / chosen.numel()
            probability = (scores / (scores.sum(-1, keepdim=True) + TINY)).mean(0)
            yield "balance", self.balance * len(self.experts) * (share * probability).sum()
        if self.z:
            yield "z", self.z * logits.logsumexp(-1).square().mean()

    def after_step(self, total: Callable[[Tensor], Tensor]) -> Mapping[str, Tensor]:
        """Move b towards an equal load; return the largest and the smallest expert's share of the step's choices."""
        if self.load is None:
            return {}
        load, self.load = total(self.load), None
        if self.bias is not None:
            # the sign of the mean load minus this one, in whole numbers
            self.bias += self.bias_rate * (load.sum() - len(self.experts) * load).sign()
        share = load.double() / load.sum()
        return {"largest_load": share.max(), "smallest_load": share.min()}
