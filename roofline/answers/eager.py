"""Without FlashAttention: what moving the score matrices costs a prefill, in bytes, intensity and seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from roofline.answers.inputs import request
from roofline.answers.phases import asked_for, prefill
from roofline.answers.records import as_frame
from roofline.errors import require
from roofline.num import Num, common_shape, same, whole
from roofline.specs.deployment import Deployment
from roofline.work.attention import SCORE_BYTES, SCORE_PASSES
from roofline.work.count import count
from roofline.work.step import Seqs

__all__ = ["WithoutFlash", "without_flash"]

_SAID = (
    "flash_hbm_bytes", "eager_hbm_bytes", "extra_bytes", "bytes_factor", "score_bytes", "masked_score_bytes",
    "score_matrix_bytes", "flash_flops", "eager_flops", "extra_flops", "flash_intensity", "eager_intensity", "ridge",
    "flash_prefill_s", "eager_prefill_s", "time_factor", "floor_s", "flash_bound", "eager_bound",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WithoutFlash:
    """One prefill twice: `flash`, whose scores never leave the chip, and `eager`, which writes and reads them.

    `…_hbm_bytes`, `…_flops`, `…_intensity`, `…_prefill_s`, `…_bound` are those of the pass as executed by either kernel;
    `floor_s` is that of both. `score_bytes` is what eager moves for its score matrices, `masked_score_bytes` the part of
    it that stands for pairs no query attends to, `score_matrix_bytes` what the scores of one layer take while they are there
    (flash has none). Bytes and FLOPs are one chip's share; every field broadcasts as prompt and batch do.
    """

    deployment: Deployment
    prompt_tokens: Num
    batch: Num
    flash_hbm_bytes: Num
    eager_hbm_bytes: Num
    score_bytes: Num
    masked_score_bytes: Num
    score_matrix_bytes: Num
    flash_flops: Num
    eager_flops: Num
    flash_intensity: Num
    eager_intensity: Num
    ridge: float
    flash_prefill_s: Num
    eager_prefill_s: Num
    floor_s: Num
    flash_bound: Any
    eager_bound: Any

    @property
    def extra_bytes(self) -> Num:
        """What eager moves more [B]."""
        return self.eager_hbm_bytes - self.flash_hbm_bytes

    @property
    def bytes_factor(self) -> Num:
        """Bytes eager moves, over those of flash [1]."""
        return self.eager_hbm_bytes / self.flash_hbm_bytes

    @property
    def extra_flops(self) -> Num:
        """Work eager does more: pairs that the mask throws away [FLOP]."""
        return self.eager_flops - self.flash_flops

    @property
    def time_factor(self) -> Num:
        """Seconds of eager over those of flash [1]."""
        return self.eager_prefill_s / self.flash_prefill_s

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key."""
        d = self.deployment
        about = {"model": d.model.id, "hardware": d.hardware.id, "n_chips": d.n_chips}
        asked = {"prompt_tokens": whole(self.prompt_tokens), "batch": whole(self.batch)}
        return about | asked | {name: getattr(self, name) for name in _SAID}

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def without_flash(deployment: Deployment, *, prompt_tokens: Any, batch: Any = 1) -> WithoutFlash:
    """What FlashAttention saves a prefill: the same pass with `attention="flash"` and with `attention="eager"`.

        score bytes    = Σ_layers B · N · T² · 4 · 2 B         every (query, key) pair of every head, masked ones and all:
                                                               scores written and read, their softmax written and read
        masked         = Σ_layers B · N · (T² − T·(T+1)/2) · 4 · 2 B       nearly half of them, in a causal model
        extra FLOPs    = Σ_layers 2 · N · (H + Hv) · B · (T² − T·(T+1)/2)
        intensity      = executed FLOPs / bytes

    Bytes of everything else grow with T, those of scores with T²: past some prompt the scores are most of what moves, and
    the intensity of the pass, which had grown with T, falls.

    Parameters
    ----------
    deployment : Deployment
    prompt_tokens, batch : int or array
        Prompt of each sequence, T, and sequences, B [token, 1].

    Returns
    -------
    WithoutFlash
        Shape of its fields: broadcast of prompt_tokens and batch.

    Notes
    -----
    Assumes scores of 2 bytes, softmax and mask in one kernel, and no tile of either kept on the chip (convention of
    `attention_core`); engines that keep scores in fp32, or mask in a kernel of its own, move more. `eager_intensity` counts
    the FLOPs of masked pairs as work; of the model's own it is lower. Whether the scores fit is not asked: compare
    `score_matrix_bytes` with what is free (of a batch in microbatches, less of it is there at a time).

    References
    ----------
    Dao et al. 2022, arXiv:2205.14135, §2 and §3.2: standard attention moves Θ(T²) elements, FlashAttention fewer.

    Examples
    --------
    Llama-3.1-8B reads 8192 tokens: 32 layers · 32 heads · 8192² pairs · 4 passes · 2 B = 512 GiB of scores.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> w = without_flash(d, prompt_tokens=8192)
    >>> w.extra_bytes / 2**30, round(w.bytes_factor, 1)
    (512.0, 6.0)
    >>> round(w.flash_intensity), round(w.eager_intensity), round(w.ridge)
    (1201, 227, 295)
    """
    require(deployment, Deployment, "without_flash(deployment)")
    given: dict[str, Any] = asked_for(prompt_tokens=prompt_tokens, batch=batch)
    flash = prefill(deployment, **given, attention="flash")
    eager = prefill(deployment, **given, attention="eager")
    masked = eager.total("score_elements") - flash.total("score_elements")
    return WithoutFlash(
        deployment=deployment,
        prompt_tokens=given["prompt_tokens"],
        batch=given["batch"],
        flash_hbm_bytes=flash.hbm_bytes,
        eager_hbm_bytes=eager.hbm_bytes,
        score_bytes=eager.total("act_bytes") - flash.total("act_bytes"),
        masked_score_bytes=masked * (SCORE_PASSES * SCORE_BYTES),
        score_matrix_bytes=_score_matrix_bytes(deployment, **given),
        flash_flops=flash.executed_flops,
        eager_flops=eager.executed_flops,
        flash_intensity=flash.intensity,
        eager_intensity=eager.intensity,
        ridge=flash.ridge,
        flash_prefill_s=flash.seconds,
        eager_prefill_s=eager.seconds,
        floor_s=flash.floor_s,
        flash_bound=flash.bound,
        eager_bound=eager.bound,
    )


def _score_matrix_bytes(deployment: Deployment, *, prompt_tokens: Num, batch: Num) -> Num:
    """The scores of the layer that has most of them, B · N · T² · 2 B: a quarter of what moving them four times adds."""
    asks = request(deployment.model, prompt_tokens=prompt_tokens)
    step = Seqs(n_seq=batch, n_new=asks.n_new, **asks.towers)
    counted = partial(count, deployment.model, step, plan=deployment.plan, precision=deployment.precision)
    pairs = zip(counted(attention="eager").ops, counted(attention="flash").ops, strict=True)
    largest: Num = reduce(np.maximum, ((eager.act_bytes - flash.act_bytes) / SCORE_PASSES for eager, flash in pairs))
    shape = common_shape(prompt_tokens=prompt_tokens, batch=batch)
    return same(np.broadcast_to(largest, shape).copy(), prompt_tokens, batch)
