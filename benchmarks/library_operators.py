"""Operators of public libraries, for `by_kernel.py`: forward and backward passes at sizes of training, bf16.

    PYTHONPATH=folder_of_the_libraries python benchmarks/by_kernel.py benchmarks/library_operators.py

`flash-linear-attention` (linear attention) and `liger-kernel` (training) are installed beside torch; an operator that
an installed version lacks is left out. `OPERATORS=gla,kda` chooses by parts of names, `DEVICE=cpu` and `TOKENS=128`
try the program where no GPU is.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

DEVICE = os.environ.get("DEVICE", "cuda")
BATCH, TOKENS = 4, int(os.environ.get("TOKENS", "2048"))
Make = Callable[[int, int], Any]  # (heads, size of each) -> an argument


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def tokens(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return normal(BATCH, TOKENS, *shape, dtype=dtype)


def unit(*shape: int) -> torch.Tensor:
    return F.normalize(tokens(*shape, dtype=torch.float32), dim=-1).bfloat16()


def decay(*shape: int) -> torch.Tensor:
    return F.logsigmoid(tokens(*shape, dtype=torch.float32))


def rate(*shape: int) -> torch.Tensor:
    return tokens(*shape).sigmoid()


ARGUMENTS: dict[str, Make] = {  # of linear attention, by name
    "q": unit, "k": unit, "r": unit, "p": unit, "v": tokens,
    "g": lambda h, d: decay(h), "g_atk": lambda h, d: decay(h), "log_alpha": lambda h, d: decay(h),
    "log_mu": lambda h, d: decay(h), "gv": decay, "gk": decay, "w": decay,
    "beta": lambda h, d: rate(h), "beta_atk": lambda h, d: rate(h),
    "s": lambda h, d: tokens(h, 64), "u": lambda h, d: normal(h, d), "a": unit, "b": unit,
    "lamb": lambda h, d: F.softplus(normal(h, d, dtype=torch.float32)) + 0.25,
    "num_householder": lambda h, d: 1, "layer_idx": lambda h, d: 3, "num_layers": lambda h, d: 24,
}  # fmt: skip
# What an operator takes otherwise, or beside the arguments that it needs.
GATE, BETA, CHANNELS = {"g": ARGUMENTS["g"]}, {"beta": ARGUMENTS["beta"]}, {"g": decay}
SLOTS: dict[str, Make] = {"g": lambda h, d: decay(h, 64)}
KEYS_OF_16: dict[str, Make] = dict.fromkeys("qk", lambda h, d: unit(h, 16))
PRECISE: dict[str, Make] = {"w": lambda h, d: unit(h, d).float(), "beta": lambda h, d: rate(h).float()}
HIDDEN: dict[str, Make] = {"x": lambda h, d: tokens(h * d), "g": lambda h, d: decay(h * d)}
LINEAR_ATTENTION: dict[str, dict[str, Make]] = {
    "abc.chunk_abc": {}, "based.parallel_based": KEYS_OF_16, "comba.chunk_comba": BETA,
    "delta_rule.chunk_delta_rule": {}, "forgetting_attn.parallel_forgetting_attn": {},
    "gated_delta_rule.chunk_gated_delta_rule": {}, "gated_delta_product.chunk_gated_delta_product": {},
    "gated_oja_rule.chunk_gated_oja_rule": {}, "gdn2.chunk_gdn2": {"g": decay, "w": rate, "b": rate},
    "generalized_delta_rule.chunk_dplr_delta_rule": {}, "gla.chunk_gla": CHANNELS,
    "gla.fused_recurrent_gla": {"gk": decay}, "gsa.chunk_gsa": SLOTS, "hgrn.fused_recurrent_hgrn": HIDDEN,
    "kda.chunk_kda": CHANNELS, "lightning_attn.chunk_lightning_attn": {}, "linear_attn.chunk_linear_attn": {},
    "mesa_net.chunk_mesa_net": {}, "momentum_delta_rule.chunk_momentum_delta_rule": {},
    "parallax.parallel_parallax": {}, "path_attn.parallel_path_attn": PRECISE,
    "precond_gated_delta_rule.chunk_precond_gated_delta_rule": {}, "rebased.parallel_rebased": KEYS_OF_16,
    "retention.chunk_retention": {}, "retention.parallel_retention": {}, "rwkv6.chunk_rwkv6": {},
    "rwkv7.chunk_rwkv7": {}, "simple_gla.chunk_simple_gla": GATE, "simple_gla.parallel_simple_gla": GATE,
    "stickbreaking_attn.parallel_stickbreaking_attn": {}, "attn.parallel_attn": {},
    "wall_attn.parallel_wall_attn": CHANNELS,
}  # fmt: skip


def first(outs: Any) -> torch.Tensor:
    return first(outs[0]) if isinstance(outs, (tuple, list)) else outs


def both_passes(build: Callable[[], tuple[Callable, list[Any]]]) -> Callable[[], None]:
    """A call of what `build` gives and its backward pass; arguments are made by the first call."""
    made: list[Any] = []

    def call() -> None:
        if not made:
            function, arguments = build()
            made.extend([function, [x.detach().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x
                                    for x in arguments]])  # fmt: skip
        function, arguments = made
        for x in arguments:
            if torch.is_tensor(x):
                x.grad = None
        out = first(function(*arguments))
        if out.requires_grad:
            out.backward(torch.ones_like(out))

    return call


def linear_attention(name: str, special: dict[str, Make], heads: int, size: int) -> Callable[[], None]:
    module, function = name.split(".")

    def build() -> tuple[Callable, list[Any]]:
        found = getattr(importlib.import_module(f"fla.ops.{module}"), function)
        needed = [p.name for p in inspect.signature(found).parameters.values()
                  if p.default is inspect.Parameter.empty and p.kind is p.POSITIONAL_OR_KEYWORD]  # fmt: skip
        makes = {**{name: ARGUMENTS[name] for name in needed if name not in special}, **special}
        return lambda *xs: found(**dict(zip(makes, xs))), [make(heads, size) for make in makes.values()]

    return both_passes(build)


def training() -> dict[str, tuple[str, Callable[[], list[Any]]]]:
    """Name -> (module.class of an autograd function, its arguments)."""
    rows, wide, words = BATCH * TOKENS, 4096, 32000
    x = lambda *shape: normal(*(shape or (rows, wide)))
    vector = lambda n=wide: normal(n)
    logits = lambda: normal(rows // 4, words)
    logs = lambda: logits().float().log_softmax(-1).bfloat16()
    chances = lambda: logits().float().softmax(-1)
    labels = lambda: torch.randint(0, words, (rows // 4,), device=DEVICE)
    angle = lambda: normal(1, TOKENS, 128)
    single = lambda *shape: normal(*shape, dtype=torch.float32)
    return {
        "rms_norm": ("rms_norm.LigerRMSNormFunction", lambda: [x(), vector(), 1e-6]),
        "fused_add_rms_norm": ("fused_add_rms_norm.LigerFusedAddRMSNormFunction", lambda: [x(), x(), vector(), 1e-6]),
        "layer_norm": ("layer_norm.LigerLayerNormFunction", lambda: [x(), vector(), vector(), 1e-6]),
        "group_norm": ("group_norm.LigerGroupNormFunction",
                       lambda: [single(64, 128, 1024), single(128), single(128), 128, 32, 1e-5]),
        "poly_norm": ("poly_norm.LigerPolyNormFunction", lambda: [x(), vector(3), vector(1)[0], 1e-6, False]),
        "dyt": ("dyt.LigerDyTFunction", lambda: [x(), vector(1), vector(), vector()]),
        "geglu": ("geglu.LigerGELUMulFunction", lambda: [x(rows, 11008), x(rows, 11008)]),
        "swiglu": ("swiglu.LigerSiLUMulFunction", lambda: [x(rows, 11008), x(rows, 11008)]),
        "relu_squared": ("relu_squared.LigerReLUSquaredFunction", lambda: [x()]),
        "softmax": ("softmax.LigerSoftmaxFunction", lambda: [logits()]),
        "sparsemax": ("sparsemax.LigerSparsemaxFunction", lambda: [single(rows // 4, wide), -1]),
        "rope": ("rope.LigerRopeFunction",
                 lambda: [normal(BATCH, 32, TOKENS, 128), normal(BATCH, 8, TOKENS, 128), angle(), angle()]),
        "cross_entropy": ("cross_entropy.LigerCrossEntropyFunction", lambda: [logits(), labels(), None]),
        "jsd": ("jsd.LigerJSDFunction", lambda: [logs(), logs()]),
        "kl_div": ("kl_div.LigerKLDivLossFunction", lambda: [logs().float(), chances()]),
        "tvd": ("tvd.LigerTVDLossFunction", lambda: [chances(), chances()]),
        "attn_res": ("attn_res.LigerAttnResFunction",
                     lambda: [normal(8, BATCH, TOKENS, 1024), vector(1024), vector(1024), 1e-6]),
    }  # fmt: skip


def training_case(path: str, make: Callable[[], list[Any]]) -> Callable[[], None]:
    module, function = path.split(".")
    return both_passes(lambda: (getattr(importlib.import_module(f"liger_kernel.ops.{module}"), function).apply, make()))


def cases() -> Iterator[tuple[str, Callable[[], None]]]:
    torch.manual_seed(0)
    every = [(f"{name.split('.')[1]} {size}", linear_attention(name, special, heads, size))
             for name, special in LINEAR_ATTENTION.items() for heads, size in ((16, 64), (8, 128))]  # fmt: skip
    every += [(name, training_case(path, make)) for name, (path, make) in training().items()]
    wanted = [word for word in os.environ.get("OPERATORS", "").split(",") if word]
    for name, call in every:
        if not wanted or any(word in name for word in wanted):
            yield name, call
            if DEVICE != "cpu":
                torch.cuda.empty_cache()
