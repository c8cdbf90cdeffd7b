"""A tiny execution of multi-head latent attention in decode, absorbed and expanded, which counts its own multiply-adds.

As in oracle_recurrent: `run(x)` gives (output, FLOPs by part, elements kept by part), softmax and norms count 0.
"""

from __future__ import annotations

import numpy as np
from oracle_recurrent import Array, Mixer, Tally, norm

__all__ = ["Mla"]


class Mla(Mixer):
    """n_heads, d_latent, d_rope, d_nope, d_value; decode over a cache of latents, `absorbed` (1: heads meet the latents
    themselves) or expanded (0: every step makes keys and values of the whole cache). Rotation counts 0 and is left out."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        n, r = self.n_heads, self.d_latent
        return {"q": (self.d_model, n * (self.d_nope + self.d_rope)), "kv_a": (self.d_model, r + self.d_rope),
                "k_b": (r, n, self.d_nope), "v_b": (r, n, self.d_value), "o": (n * self.d_value, self.d_model)}  # fmt: skip

    def memory(self) -> dict[str, Array]:
        return {"cache": np.zeros((0, self.d_latent + self.d_rope))}

    def step(self, tally: Tally, token: Array, kept: dict[str, Array]) -> Array:
        q = tally.dot("q", token, self.w["q"]).reshape(self.n_heads, -1)
        new = self.latent(tally.dot("kv_a", token, self.w["kv_a"]))
        kept["cache"] = np.concatenate([kept["cache"], new[None]])
        mixed = (self._absorbed if self.absorbed else self._expanded)(tally, q, kept["cache"])
        return tally.dot("o", mixed.ravel(), self.w["o"])

    def latent(self, made: Array) -> Array:
        return np.concatenate([norm(made[..., : self.d_latent]), made[..., self.d_latent :]], axis=-1)

    def at_once(self, x: Array) -> Array:
        q = (x @ self.w["q"]).reshape(len(x), self.n_heads, -1)
        latents, rotated = np.split(self.latent(x @ self.w["kv_a"]), [self.d_latent], axis=1)
        scores = np.einsum("tnd,sr,rnd->nts", q[..., : self.d_nope], latents, self.w["k_b"])
        scores = (scores + np.einsum("tnd,sd->nts", q[..., self.d_nope :], rotated)) / np.sqrt(q.shape[2])
        weights = softmax(np.where(np.tri(len(x), dtype=bool), scores, -np.inf))
        mixed = np.einsum("nts,sr,rnd->tnd", weights, latents, self.w["v_b"]).reshape(len(x), -1)
        return np.asarray(mixed @ self.w["o"])

    def _absorbed(self, tally: Tally, q: Array, cache: Array) -> Array:
        into = tally.einsum("k_b", "nd,rnd->nr", q[:, : self.d_nope], self.w["k_b"])
        query = np.concatenate([into, q[:, self.d_nope :]], axis=1)
        weights = softmax(tally.einsum("scores", "nr,sr->ns", query, cache) / np.sqrt(q.shape[1]))
        mean = tally.einsum("values", "ns,sr->nr", weights, cache[:, : self.d_latent])
        return tally.einsum("v_b", "nr,rnd->nd", mean, self.w["v_b"])

    def _expanded(self, tally: Tally, q: Array, cache: Array) -> Array:
        latents, rotated = cache[:, : self.d_latent], cache[:, self.d_latent :]
        keys = tally.einsum("k_b", "sr,rnd->snd", latents, self.w["k_b"])
        values = tally.einsum("v_b", "sr,rnd->snd", latents, self.w["v_b"])
        keys = np.concatenate([keys, np.repeat(rotated[:, None], self.n_heads, axis=1)], axis=2)
        weights = softmax(tally.einsum("scores", "nd,snd->ns", q, keys) / np.sqrt(q.shape[1]))
        return tally.einsum("values", "ns,snd->nd", weights, values)


def softmax(x: Array) -> Array:
    """Over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))
