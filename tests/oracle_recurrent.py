"""Tiny executions of recurrent mixers, token by token, which count their own multiply-adds.

Each runs a whole mixer over x (T, D), from its first product to its last, and returns

    (output (T, D), FLOPs by part, elements kept between tokens by part).

A multiply-add of a contraction is 2 FLOPs: products with weights, the depthwise convolution, rank-one updates of the state,
reads of it. What goes element by element counts 0: decays, gates, activations, norms, skips. Each has a twin,
`at_once`, that computes the same from sums over pairs of tokens.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Run = tuple[Array, dict[str, int], dict[str, int]]


class Tally:
    """Contractions that are counted: 2 · the product of the sizes of all indices, whatever is summed over."""

    def __init__(self) -> None:
        self.flops: dict[str, int] = {}

    def einsum(self, part: str, spec: str, *operands: Array) -> Array:
        sizes: dict[str, int] = {}
        for letters, operand in zip(spec.split("->")[0].split(","), operands, strict=True):
            sizes |= dict(zip(letters, operand.shape, strict=True))
        self.flops[part] = self.flops.get(part, 0) + 2 * math.prod(sizes.values())
        return np.asarray(np.einsum(spec, *operands))

    def dot(self, part: str, x: Array, w: Array) -> Array:
        return self.einsum(part, "i,io->o", x, w)


class Mixer:
    """Sizes as keywords, weights drawn from a seed."""

    def __init__(self, d_model: int, *, seed: int = 0, **sizes: int) -> None:
        self.sizes = {"d_model": d_model} | sizes
        rng = np.random.default_rng(seed)
        self.w = {name: rng.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in self.shapes().items()}

    def __getattr__(self, name: str) -> int:
        try:
            return int(vars(self)["sizes"][name])
        except KeyError:
            raise AttributeError(name) from None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        raise NotImplementedError

    def state(self) -> tuple[int, ...]:
        raise NotImplementedError

    def step(self, tally: Tally, token: Array, kept: dict[str, Array]) -> Array:
        """The output for one token; `kept` moves on."""
        raise NotImplementedError

    def memory(self) -> dict[str, Array]:
        """What is kept between tokens, before the first."""
        conv = self.w.get("conv")
        window = {} if conv is None else {"conv": np.zeros((len(conv), conv.shape[1] - 1))}
        return {"state": np.zeros(self.state())} | window

    def run(self, x: Array) -> Run:
        tally, kept = Tally(), self.memory()
        out = np.stack([self.step(tally, token, kept) for token in x])
        return out, dict(tally.flops), {part: array.size for part, array in kept.items()}

    def convolved(self, u: Array) -> Array:
        """Silu of the causal depthwise convolution of u (T, channels), all tokens at once."""
        padded = np.concatenate([np.zeros((self.d_conv - 1, u.shape[1])), u])
        return silu(sum(padded[i : i + len(u)] * self.w["conv"][:, i] for i in range(self.d_conv)))

    def convolve(self, tally: Tally, kept: dict[str, Array], u: Array) -> Array:
        full = np.concatenate([kept["conv"], u[:, None]], axis=1)
        kept["conv"] = full[:, 1:]
        return silu(tally.einsum("conv", "ck,ck->c", full, self.w["conv"]))


class Mamba1(Mixer):
    """d_inner, d_state, d_conv, dt_rank."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        i, n, r = self.d_inner, self.d_state, self.dt_rank
        return {"in": (self.d_model, 2 * i), "conv": (i, self.d_conv), "x": (i, r + 2 * n), "dt": (r, i), "dt_bias": (i,),
                "log_a": (i, n), "skip": (i,), "out": (i, self.d_model)}  # fmt: skip

    def state(self) -> tuple[int, ...]:
        return self.d_inner, self.d_state

    def step(self, tally: Tally, token: Array, kept: dict[str, Array]) -> Array:
        w = self.w
        u, z = np.split(tally.dot("in", token, w["in"]), 2)
        u = self.convolve(tally, kept, u)
        r, b, c = np.split(tally.dot("x", u, w["x"]), [self.dt_rank, self.dt_rank + self.d_state])
        dt = softplus(tally.dot("dt", r, w["dt"]) + w["dt_bias"])
        kept["state"] = np.exp(-np.exp(w["log_a"]) * dt[:, None]) * kept["state"]
        kept["state"] += tally.einsum("update", "c,n->cn", dt * u, b)
        y = tally.einsum("read", "cn,n->c", kept["state"], c) + w["skip"] * u
        return tally.dot("out", y * silu(z), w["out"])

    def at_once(self, x: Array) -> Array:
        w = self.w
        u, z = np.split(x @ w["in"], 2, axis=1)
        u = self.convolved(u)
        r, b, c = np.split(u @ w["x"], [self.dt_rank, self.dt_rank + self.d_state], axis=1)
        dt = softplus(r @ w["dt"] + w["dt_bias"])
        decay = pairs(-np.exp(w["log_a"]) * dt[:, :, None])  # (t, s, channel, state)
        y = np.einsum("tscn,sc,sn,tn->tc", decay, dt * u, b, c) + w["skip"] * u
        return np.asarray((y * silu(z)) @ w["out"])


class Mamba2(Mixer):
    """n_heads, d_head, n_groups, d_state, d_conv."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        n, i, bc = self.n_heads, self.n_heads * self.d_head, self.n_groups * self.d_state
        return {"in": (self.d_model, 2 * i + 2 * bc + n), "conv": (i + 2 * bc, self.d_conv), "dt_bias": (n,), "log_a": (n,),
                "skip": (n,), "out": (i, self.d_model)}  # fmt: skip

    def parts(self, u: Array) -> tuple[Array, Array, Array]:
        """x by head, and B and C, which the heads of a group share, for each head."""
        i, bc, per_group = self.n_heads * self.d_head, self.n_groups * self.d_state, self.n_heads // self.n_groups
        v, b, c = np.split(u, [i, i + bc], axis=-1)
        shared = [np.repeat(m.reshape(*u.shape[:-1], self.n_groups, -1), per_group, axis=-2) for m in (b, c)]
        return v.reshape(*u.shape[:-1], self.n_heads, -1), shared[0], shared[1]

    def state(self) -> tuple[int, ...]:
        return self.n_heads, self.d_head, self.d_state

    def step(self, tally: Tally, token: Array, kept: dict[str, Array]) -> Array:
        w, i = self.w, self.n_heads * self.d_head
        z, u, dt = np.split(tally.dot("in", token, w["in"]), [i, i + len(w["conv"])])
        v, b, c = self.parts(self.convolve(tally, kept, u))
        dt = softplus(dt + w["dt_bias"])
        kept["state"] = np.exp(-np.exp(w["log_a"]) * dt)[:, None, None] * kept["state"]
        kept["state"] += tally.einsum("update", "nh,ns->nhs", v * dt[:, None], b)
        y = tally.einsum("read", "nhs,ns->nh", kept["state"], c) + w["skip"][:, None] * v
        return tally.dot("out", norm(y.ravel() * silu(z)), w["out"])

    def at_once(self, x: Array) -> Array:
        w, i = self.w, self.n_heads * self.d_head
        z, u, dt = np.split(x @ w["in"], [i, i + len(w["conv"])], axis=1)
        v, b, c = self.parts(self.convolved(u))
        dt = softplus(dt + w["dt_bias"])
        y = np.einsum("tsn,snh,sni,tni->tnh", pairs(-np.exp(w["log_a"]) * dt), v * dt[:, :, None], b, c)
        y = y + w["skip"][:, None] * v
        return np.asarray(norm(y.reshape(len(x), -1) * silu(z)) @ w["out"])


class Delta(Mixer):
    """n_key_heads, d_key, n_value_heads, d_value, d_conv: gated delta net with one decay a value head."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        v, channels = self.n_value_heads * self.d_value, 2 * self.n_key_heads * self.d_key
        return {"in": (self.d_model, channels + 2 * v), "ba": (self.d_model, 2 * self.n_value_heads),
                "conv": (channels + v, self.d_conv), "dt_bias": (self.n_value_heads,), "log_a": (self.n_value_heads,),
                "out": (v, self.d_model)}  # fmt: skip

    def parts(self, u: Array) -> list[Array]:  # q and k by value head, of length 1; v
        qk, times = self.n_key_heads * self.d_key, self.n_value_heads // self.n_key_heads
        q, k, v = np.split(u, [qk, 2 * qk], axis=-1)
        heads = [m.reshape(*u.shape[:-1], self.n_key_heads, -1) for m in (q, k)]
        units = [np.repeat(m / np.linalg.norm(m, axis=-1, keepdims=True), times, axis=-2) for m in heads]
        return [*units, v.reshape(*u.shape[:-1], self.n_value_heads, -1)]

    def gates(self, ba: Array) -> tuple[Array, Array]:  # how much is written, the log of the decay
        b, a = np.split(ba, 2, axis=-1)
        return sigmoid(b), -np.exp(self.w["log_a"]) * softplus(a + self.w["dt_bias"])

    def state(self) -> tuple[int, ...]:
        return self.n_value_heads, self.d_key, self.d_value

    def step(self, tally: Tally, token: Array, kept: dict[str, Array]) -> Array:
        w = self.w
        u, z = np.split(tally.dot("in", token, w["in"]), [len(w["conv"])])
        beta, log_decay = self.gates(tally.dot("ba", token, w["ba"]))
        q, k, v = self.parts(self.convolve(tally, kept, u))
        kept["state"] = np.exp(log_decay)[:, None, None] * kept["state"]
        wrong = v - tally.einsum("read", "nkv,nk->nv", kept["state"], k)
        kept["state"] += tally.einsum("update", "nk,nv->nkv", k, beta[:, None] * wrong)
        y = tally.einsum("read", "nkv,nk->nv", kept["state"], q)
        return tally.dot("out", norm(y).ravel() * silu(z), w["out"])

    def at_once(self, x: Array) -> Array:
        u, z = np.split(x @ self.w["in"], [len(self.w["conv"])], axis=1)
        beta, log_decay = self.gates(x @ self.w["ba"])
        q, k, v = self.parts(self.convolved(u))
        decay = np.moveaxis(pairs(log_decay), 2, 0)  # (head, t, s)
        seen = np.tril(decay * np.einsum("tnk,snk->nts", k, k), -1) * beta.T[:, :, None]
        written = np.linalg.solve(np.eye(len(x)) + seen, np.swapaxes(v * beta[:, :, None], 0, 1))
        y = np.einsum("nts,nsv->tnv", decay * np.einsum("tnk,snk->nts", q, k), written)
        return np.asarray((norm(y).reshape(len(x), -1) * silu(z)) @ self.w["out"])


class Lightning(Mixer):
    """n_heads, d_head: linear attention with a fixed decay a head."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        wide = self.n_heads * self.d_head
        return {"in": (self.d_model, 3 * wide), "out_gate": (self.d_model, wide), "out": (wide, self.d_model)}

    def state(self) -> tuple[int, ...]:
        return self.n_heads, self.d_head, self.d_head

    def step(self, tally: Tally, token: Array, kept: dict[str, Array]) -> Array:
        w, n = self.w, self.n_heads
        q, k, v = silu(tally.dot("in", token, w["in"])).reshape(3, n, self.d_head)
        kept["state"] = 0.5 ** np.arange(1, n + 1)[:, None, None] * kept["state"]
        kept["state"] += tally.einsum("update", "nk,nv->nkv", k, v)
        y = norm(tally.einsum("read", "nkv,nk->nv", kept["state"], q).ravel())
        return tally.dot("out", sigmoid(tally.dot("out_gate", token, w["out_gate"])) * y, w["out"])

    def at_once(self, x: Array) -> Array:
        q, k, v = np.moveaxis(silu(x @ self.w["in"]).reshape(len(x), 3, self.n_heads, self.d_head), 1, 0)
        log_decay = np.log(0.5) * np.tile(np.arange(1, self.n_heads + 1), (len(x), 1))
        y = np.einsum("tsn,tnk,snk,snv->tnv", pairs(log_decay), q, k, v).reshape(len(x), -1)
        return np.asarray((sigmoid(x @ self.w["out_gate"]) * norm(y)) @ self.w["out"])


def pairs(log_decay: Array) -> Array:
    """How much of token s is left at token t, (t, s, …), 0 before it was there: exp of the sum of the log decays between."""
    total = np.cumsum(log_decay, axis=0)
    between = total[:, None] - total[None, :]
    past = np.tril(np.ones((len(total), len(total)), dtype=bool)).reshape(*between.shape[:2], *[1] * (between.ndim - 2))
    return np.where(past, np.exp(np.where(past, between, 0.0)), 0.0)


def norm(x: Array) -> Array:
    """RMS norm over the last axis."""
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6))


def sigmoid(x: Any) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def silu(x: Any) -> Array:
    return np.asarray(x * sigmoid(x))


def softplus(x: Any) -> Array:
    return np.asarray(np.logaddexp(0.0, x))
