"""What a step of a running engine takes, as a function of five sums: the word between a simulated scheduler and the clock.

A step advances B decodes by a token, of contexts that add up to ctx (the new token among them), and reads x tokens of
prompts beside them, with `pairs` visible (query, key) pairs and `past` tokens of those prompts cached before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["PlainLaw", "StepLaw"]


class StepLaw(Protocol):
    """Seconds of a step, and of a run of steps that only decode."""

    def seconds(self, n_decodes: int, context: int, tokens: int, pairs: int, past: int) -> float:
        """One step  [s]."""

    def decoding(self, n_decodes: int, context: int, n_steps: int) -> NDArray[np.float64]:
        """So many steps of the same decodes, the first at that sum of contexts, each later one B above the one before  [s].

        To the last bit what `seconds` says of each.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLaw:
    """A dense decoder on one roof:  t = t0 + max(flops / π, bytes / β).

        flops = 2·P·(B + x) + 4·L·H·(ctx + pairs)          bytes = W + κ·(ctx + past + B + x)

    Attributes
    ----------
    matmul_params : float
        P: parameters a token is multiplied by [1].
    weight_bytes, kv_bytes_per_token : float
        W, κ [B].
    n_layers, heads_dim : int
        L; H: query heads times their width [1].
    peak_flops_per_s, hbm_bytes_per_s : float
        π, β.
    step_s : float
        t0: what every step costs besides [s].

    Examples
    --------
    An 8B model on an H100 at six tenths of its peak: one decode at 1,024 tokens takes 9 ms, of which 6 are the weights.

    >>> law = PlainLaw(matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    ...                peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=3e-3)
    >>> round(1e3 * law.seconds(1, 1024, 0, 0, 0), 2)
    9.04
    """

    matmul_params: float
    weight_bytes: float
    kv_bytes_per_token: float
    n_layers: int
    heads_dim: int
    peak_flops_per_s: float
    hbm_bytes_per_s: float
    step_s: float = 0.0

    def seconds(self, n_decodes: int, context: int, tokens: int, pairs: int, past: int) -> float:
        """One step  [s]."""
        flops = 2 * self.matmul_params * (n_decodes + tokens) + 4 * self.n_layers * self.heads_dim * (context + pairs)
        moved = self.weight_bytes + self.kv_bytes_per_token * (context + past + n_decodes + tokens)
        return self.step_s + max(flops / self.peak_flops_per_s, moved / self.hbm_bytes_per_s)

    def decoding(self, n_decodes: int, context: int, n_steps: int) -> NDArray[np.float64]:
        """So many steps of the same decodes, one after another  [s]."""
        contexts = context + n_decodes * np.arange(n_steps)
        flops = 2 * self.matmul_params * n_decodes + 4 * self.n_layers * self.heads_dim * contexts
        moved = self.weight_bytes + self.kv_bytes_per_token * (contexts + n_decodes)
        slower = np.maximum(flops / self.peak_flops_per_s, moved / self.hbm_bytes_per_s)
        return np.asarray(self.step_s + slower, dtype=np.float64)
