"""Prefill, decode, and a whole request: the two shapes of the one pass, asked for by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import numpy as np

from roofline.answers.memory import Memory, memory
from roofline.errors import SpecError, require, shown
from roofline.num import Num, checked, common_shape, whole
from roofline.specs.deployment import Deployment
from roofline.timing.clock import Timing
from roofline.timing.efficiency import IDEAL
from roofline.units import format_si
from roofline.work.attention import AttentionKernel
from roofline.work.count import rows_of
from roofline.work.step import MAX_TOKENS, PassSums, Seqs

__all__ = ["Comparison", "Prediction", "decode", "predict", "prefill"]

PART_POINTS = 32_768
GRID_POINTS = 100_000
STEP_POINTS = 2_000_000
MAX_OUTPUT_TOKENS = 10_000_000


def prefill(
    deployment: Deployment, *, prompt_tokens: Any, batch: Any = 1, n_past: Any = 0, attention: AttentionKernel = "flash"
) -> Timing:
    """The pass that reads the whole prompt of every sequence and gives its first token.

    Parameters
    ----------
    deployment : Deployment
    prompt_tokens : int or array
        New tokens of each sequence, T [token].
    batch : int or array
        Sequences in the pass, B [1].
    n_past : int or array
        Tokens of each that the cache already holds (a prefix hit), S [token].
    attention : "flash" or "eager"

    Returns
    -------
    Timing
        Shape: broadcast of the arrays.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> t = prefill(d, prompt_tokens=2048)
    >>> t.bound, round(t.floor_s * 1e3, 1)
    ('compute', 30.0)
    """
    require(deployment, Deployment, "prefill(deployment)")
    given = _checked(prompt_tokens=prompt_tokens, batch=batch, n_past=n_past)
    seqs = Seqs.of_checked(n_seq=given["batch"], n_new=given["prompt_tokens"], n_past=given["n_past"])
    asked = {"prompt_tokens": seqs.n_new, "n_past": seqs.n_past, "batch": seqs.n_seq}
    return _time(deployment, seqs, attention, asked)


def decode(
    deployment: Deployment, *, context_tokens: Any, batch: Any = 1, attention: AttentionKernel = "flash"
) -> Timing:
    """The pass that gives every sequence its next token, after `context_tokens` of each are in the cache.

    Parameters
    ----------
    context_tokens : int or array
        Cached tokens of each sequence, S [token].
    batch : int or array
        Sequences in the pass, B [1].

    Returns
    -------
    Timing
        Shape: broadcast of the arrays. Large grids are evaluated in blocks and keep totals only.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> t = decode(d, context_tokens=4096, batch=64)
    >>> t.bound, round(t.floor_s * 1e3, 2)
    ('memory', 14.74)
    """
    require(deployment, Deployment, "decode(deployment)")
    given = _checked(context_tokens=context_tokens, batch=batch)
    seqs = Seqs.of_checked(n_seq=given["batch"], n_new=1.0, n_past=given["context_tokens"])
    return _time(deployment, seqs, attention, {"context_tokens": seqs.n_past, "batch": seqs.n_seq})


def _time(deployment: Deployment, seqs: Seqs, attention: AttentionKernel, asked: dict[str, Num]) -> Timing:
    """A pass on the clock: whole where the grid is small, else in pieces that fit a core's cache."""
    chip, n_points = deployment.hardware, math.prod(seqs.shape)
    rows, _ = rows_of(deployment.model, deployment.precision, attention)
    if n_points <= GRID_POINTS:
        whole_grid = (slice(None), partial(PassSums, (seqs,)))
        return Timing(rows, (whole_grid,), shape=None, chip=chip, efficiency=IDEAL, coordinates=asked)
    flat = seqs.flat()
    wheres = [slice(start, min(start + PART_POINTS, n_points)) for start in range(0, n_points, PART_POINTS)]
    parts = tuple((where, partial(_sums, flat, where)) for where in wheres)
    return Timing(rows, parts, shape=seqs.shape, chip=chip, efficiency=IDEAL, coordinates=asked)


def _checked(**fields: Any) -> dict[str, Num]:
    """The fields as numbers in range, under the caller's own names; they must broadcast together."""
    least = {"n_past": 0.0, "context_tokens": 0.0}
    nums = {n: checked(v, name=n, low=least.get(n, 1.0), high=MAX_TOKENS) for n, v in fields.items()}
    common_shape(**nums)
    return nums


def _sums(flat: Seqs, where: slice) -> PassSums:
    """The sums of one piece of a flat grid, small enough for a core's cache."""
    return PassSums((flat.part(where),))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Prediction:
    """One static batch from its prompts to its last tokens.

    `prefill` is the pass over the prompts; `decode` the pass at the mean context, to place decode on the roofline (none
    for one output token).
    Times in seconds, rates per second; fields broadcast as the arguments did.
    """

    deployment: Deployment
    prompt_tokens: Num
    output_tokens: int
    batch: Num
    prefill: Timing
    decode: Timing | None
    ttft_s: Num
    ttft_floor_s: Num
    ttft_bound: Any
    tpot_s: Num | None
    tpot_floor_s: Num | None
    tpot_bound: Any
    e2e_s: Num
    e2e_floor_s: Num
    memory: Memory

    @property
    def tokens_per_s_per_user(self) -> Num | None:
        """1 / TPOT: how fast one user sees text [1/s]."""
        return None if self.tpot_s is None else 1.0 / self.tpot_s

    @property
    def tokens_per_s(self) -> Num | None:
        """B / TPOT: output tokens of all sequences while decoding [1/s]."""
        return None if self.tpot_s is None else self.batch / self.tpot_s

    @property
    def tokens_per_s_per_chip(self) -> Num | None:
        """The same over the chips of the replica [1/s]."""
        total = self.tokens_per_s
        return None if total is None else total / self.deployment.n_chips

    def __repr__(self) -> str:
        if isinstance(self.e2e_s, np.ndarray):
            return f"Prediction(grid of {self.e2e_s.shape}, {self.deployment!r})"
        tpot = "none" if self.tpot_s is None else format_si(float(self.tpot_s), "s")
        times = f"TTFT {format_si(float(self.ttft_s), 's')}, TPOT {tpot}, E2E {format_si(float(self.e2e_s), 's')}"
        return f"Prediction({times}, {self.deployment!r})"

    @property
    def exceeds_context(self) -> Any:
        """Whether the positions of prompt and output (the last token takes none) are more than the model is made for."""
        exceeds = np.greater(self.prompt_tokens + self.output_tokens - 1, self.deployment.model.max_context_tokens)
        return exceeds if isinstance(self.prompt_tokens, np.ndarray) else bool(exceeds)

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key: the JSON of the command line."""
        d, t = self.deployment, self.decode
        return {
            "model": d.model.id,
            "hardware": d.hardware.id,
            "n_chips": d.n_chips,
            "engine": d.engine,
            "evidence": "ideal machine; no measurements behind it",
            "notes": list(d.said()),
            "weights": d.numerics.weights.name,
            "kv": d.numerics.kv.name,
            "head": d.numerics.store("head").name,
            "activations": d.precision.activations,
            "compute_dtype": self.prefill.dtype,
            "prompt_tokens": whole(self.prompt_tokens),
            "output_tokens": self.output_tokens,
            "batch": whole(self.batch),
            "exceeds_context": self.exceeds_context,
            "ttft_s": self.ttft_s,
            "ttft_floor_s": self.ttft_floor_s,
            "ttft_bound": self.ttft_bound,
            "tpot_s": self.tpot_s,
            "tpot_floor_s": self.tpot_floor_s,
            "tpot_bound": self.tpot_bound,
            "e2e_s": self.e2e_s,
            "e2e_floor_s": self.e2e_floor_s,
            "tokens_per_s_per_user": self.tokens_per_s_per_user,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_chip": self.tokens_per_s_per_chip,
            "prefill_flops": self.prefill.flops,
            "prefill_hbm_bytes": self.prefill.hbm_bytes,
            "prefill_intensity": self.prefill.intensity,
            "prefill_mfu": self.prefill.mfu,
            "prefill_mbu": self.prefill.mbu,
            "decode_flops": None if t is None else t.flops,
            "decode_hbm_bytes": None if t is None else t.hbm_bytes,
            "decode_intensity": None if t is None else t.intensity,
            "decode_mfu": None if t is None else t.mfu,
            "decode_mbu": None if t is None else t.mbu,
            "ridge": self.prefill.ridge,
        } | self.memory.to_dict()

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return _frame([self])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions of several deployments for one request, side by side."""

    predictions: tuple[Prediction, ...]

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.predictions)

    def __len__(self) -> int:
        return len(self.predictions)

    def __getitem__(self, index: int) -> Prediction:
        return self.predictions[index]

    def to_frame(self) -> Any:
        """One row a deployment, as a pandas DataFrame."""
        return _frame(self.predictions)


def _frame(predictions: Sequence[Prediction]) -> Any:
    import pandas as pd

    frames = []
    for prediction in predictions:
        given = prediction.to_dict() | {"notes": "; ".join(prediction.deployment.said())}
        row = {k: np.asarray(v, dtype=object if v is None else None) for k, v in given.items()}
        columns = np.broadcast_arrays(*row.values())
        frames.append(pd.DataFrame({k: c.ravel() for k, c in zip(row, columns, strict=True)}))
    return pd.concat(frames, ignore_index=True)


@overload
def predict(deployment: Deployment, *, prompt_tokens: Any, output_tokens: int, batch: Any = 1) -> Prediction: ...
@overload
def predict(
    deployment: Sequence[Deployment], *, prompt_tokens: Any, output_tokens: int, batch: Any = 1
) -> Comparison: ...
def predict(
    deployment: Deployment | Sequence[Deployment], *, prompt_tokens: Any, output_tokens: int, batch: Any = 1
) -> Prediction | Comparison:
    """TTFT, TPOT, end-to-end time, speed and memory of a static batch.

        TTFT = the pass over all prompts at once
        TPOT = (1 / (N − 1)) · Σ_{i = 0..N−2} decode pass at n_past = prompt + i
        E2E  = TTFT + (N − 1) · TPOT

    N output tokens are one prefill and N − 1 decode passes; with N = 1 there is no TPOT (none). This is TPOT as vLLM,
    SGLang and AIPerf define it, (latency − TTFT) / (N − 1).

    Parameters
    ----------
    deployment : Deployment, or a sequence of them
        A sequence gives a `Comparison`, side by side.
    prompt_tokens, batch : int or array
        Prompt of each sequence, and sequences [token, 1].
    output_tokens : int
        N, tokens generated for each [token].

    Returns
    -------
    Prediction or Comparison
        "Does not fit" is part of the answer (`memory.fits`, `memory.short_by_bytes`), not an error.

    Notes
    -----
    Assumes one batch that starts and ends together, nothing queueing, all prompts in one pass.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> p = predict(d, prompt_tokens=2048, output_tokens=256, batch=8)
    >>> round(p.ttft_floor_s * 1e3), round(p.tpot_floor_s * 1e3, 2), p.memory.fits
    (240, 5.16, True)
    """
    if not isinstance(deployment, Deployment):
        members = tuple(deployment) if isinstance(deployment, (list, tuple)) else (deployment,)
        for member in members:
            require(member, Deployment, "predict(deployment)")
        if not members:
            raise SpecError("predict: expected at least one deployment, got an empty list")
        return Comparison(
            tuple(predict(d, prompt_tokens=prompt_tokens, output_tokens=output_tokens, batch=batch) for d in members)
        )
    n_out = _n_output(output_tokens)
    given = _checked(prompt_tokens=prompt_tokens, batch=batch)
    _room_to_grow(given["prompt_tokens"], n_out)
    prompt, n_seq = given["prompt_tokens"], given["batch"]
    first = prefill(deployment, prompt_tokens=prompt, batch=n_seq)
    n_steps = n_out - 1
    mean = decode(deployment, context_tokens=prompt + (n_steps - 1) / 2.0, batch=n_seq) if n_steps else None
    tpot, tpot_floor = _means(deployment, prompt, n_seq, n_steps) if n_steps else (None, None)
    return Prediction(
        deployment=deployment,
        prompt_tokens=prompt,
        output_tokens=n_out,
        batch=n_seq,
        prefill=first,
        decode=mean,
        ttft_s=first.seconds,
        ttft_floor_s=first.floor_s,
        ttft_bound=first.bound,
        tpot_s=tpot,
        tpot_floor_s=tpot_floor,
        tpot_bound=None if mean is None else mean.bound,
        e2e_s=first.seconds + (n_steps * tpot if tpot is not None else 0.0),
        e2e_floor_s=first.floor_s + (n_steps * tpot_floor if tpot_floor is not None else 0.0),
        memory=memory(deployment, context_tokens=prompt + n_steps, batch=n_seq),
    )


def _n_output(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise SpecError(f"output_tokens: expected a whole number, got {shown(value)}")
    if not 1 <= value <= MAX_OUTPUT_TOKENS:
        raise SpecError(f"output_tokens: expected 1 to {MAX_OUTPUT_TOKENS:,}, got {shown(value)}")
    return int(value)


def _room_to_grow(prompt: Num, n_out: int) -> None:
    checked(prompt, name="prompt_tokens", low=1.0, high=MAX_TOKENS - n_out)


def _means(deployment: Deployment, prompt: Num, n_seq: Num, n_steps: int) -> tuple[Num, Num]:
    """Mean seconds and mean floor of all N − 1 decode passes: summed along a last axis, in bounded memory."""
    at_once = max(1, STEP_POINTS // math.prod(np.broadcast_shapes(np.shape(prompt), np.shape(n_seq))))
    seconds: Num = 0.0
    floor: Num = 0.0
    for start in range(0, n_steps, at_once):
        step = np.arange(start, min(start + at_once, n_steps), dtype=np.float64)
        passes = decode(deployment, context_tokens=np.expand_dims(prompt, -1) + step, batch=np.expand_dims(n_seq, -1))
        seconds, floor = seconds + _summed(passes.seconds), floor + _summed(passes.floor_s)
    return seconds / n_steps, floor / n_steps


def _summed(value: Num) -> Num:
    """Σ along the last axis; a plain float where nothing else is left."""
    total = np.sum(value, axis=-1)
    return total if np.ndim(total) else float(total)
