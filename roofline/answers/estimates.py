"""From an ideal time to an estimate: the efficiency of a deployment, what stands behind it, and its interval."""

from __future__ import annotations

from typing import Literal

import numpy as np

from roofline.errors import SpecError, shown
from roofline.num import Num
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.timing.efficiency import Efficiency
from roofline.timing.laws import larger
from roofline.timing.shipped import Known, known
from roofline.work.count import How, rows_of

__all__ = ["Edges", "Rates", "chip_of", "held_s", "interval", "known_of", "request_s"]


def known_of(deployment: Deployment) -> Known:
    """The efficiency of a deployment and its evidence: the one it was given, else that of its engine on its chip."""
    given = deployment.efficiency
    if given is None:
        return known(deployment.hardware, deployment.engine)
    if isinstance(given, Known):
        return given
    if isinstance(given, Efficiency):
        return Known(efficiency=given, regime="given", said="as given: an efficiency of your own")
    raise SpecError(f"Deployment(efficiency=…): expected an Efficiency, got {shown(given)}")


def chip_of(deployment: Deployment) -> Hardware:
    """The chip at the peaks its engine uses: where products add up in fp16, that rate for both 16-bit formats."""
    chip = deployment.hardware
    fp16 = chip.compute.matrix.get("fp16")
    if deployment.engine.kernels.accumulates != "fp16" or fp16 is None or fp16.peak_acc16_flops_per_s is None:
        return chip
    peak = fp16.model_copy(update={"peak_flops_per_s": fp16.peak_acc16_flops_per_s})
    matrix = {**chip.compute.matrix, "fp16": peak, "bf16": peak}
    return chip.model_copy(update={"compute": chip.compute.model_copy(update={"matrix": matrix})})


def request_s(deployment: Deployment, how: How) -> float:
    """What a request takes once, beside its passes: c + (weights a chip holds) / (ew·β)  [s]."""
    e = known_of(deployment).efficiency
    return e.request_s if e.first_read is None else e.request_s + held_s(deployment, how) / e.first_read


def held_s(deployment: Deployment, how: How) -> float:
    """The weights a chip holds, over its bandwidth; the fullest stage's  [s]."""
    d = deployment
    held = max(rows_of(d.model, d.precision, how, d.plan, stage)[1] for stage in range(d.plan.pp))
    return held / d.hardware.hbm_bytes_per_s


def interval(
    deployment: Deployment, what: Literal["ttft", "tpot", "e2e"], seconds: Num, floor_s: Num
) -> tuple[Num, Num] | None:
    """(low, high) around an estimate, never below its floor; none where there is no evidence to take one from  [s]."""
    band = known_of(deployment).bands.get(what)
    if band is None:
        return None
    low = larger(np.multiply(seconds, band.low) if isinstance(seconds, np.ndarray) else seconds * band.low, floor_s)
    return low, seconds * band.high


class Edges:
    """The edges of the intervals around `ttft_s`, `tpot_s` and `e2e_s` of what has them, their floors and a `deployment`."""

    __slots__ = ()

    @property
    def ttft_low_s(self) -> Num | None:
        """The lower edge of the interval that holds four of five measured TTFTs; none where nothing was measured [s]."""
        return self._edge("ttft", 0)

    @property
    def ttft_high_s(self) -> Num | None:
        """The upper edge of the same interval [s]."""
        return self._edge("ttft", 1)

    @property
    def tpot_low_s(self) -> Num | None:
        """The lower edge of the interval of the TPOT [s]."""
        return self._edge("tpot", 0)

    @property
    def tpot_high_s(self) -> Num | None:
        """The upper edge of the interval of the TPOT [s]."""
        return self._edge("tpot", 1)

    @property
    def e2e_low_s(self) -> Num | None:
        """The lower edge of the interval of the whole request [s]."""
        return self._edge("e2e", 0)

    @property
    def e2e_high_s(self) -> Num | None:
        """The upper edge of the interval of the whole request [s]."""
        return self._edge("e2e", 1)

    def edges(self) -> dict[str, Num | None]:
        """All six under their names  [s], and how far such estimates were off where the truth was held back [1]."""
        found: dict[str, Num | None] = {}
        off = known_of(getattr(self, "deployment")).off  # noqa: B009
        for what in ("ttft", "tpot", "e2e"):
            found |= {f"{what}_{side}_s": getattr(self, f"{what}_{side}_s") for side in ("low", "high")}
            found |= {f"{what}_held_out_error": off.get(what)}
        return found

    def _edge(self, what: Literal["ttft", "tpot", "e2e"], side: int) -> Num | None:
        seconds: Num | None = getattr(self, f"{what}_s")
        floor_s: Num | None = getattr(self, f"{what}_floor_s")
        deployment: Deployment = getattr(self, "deployment")  # noqa: B009
        if seconds is None or floor_s is None:
            return None
        edges = interval(deployment, what, seconds, floor_s)
        return None if edges is None else edges[side]


class Rates:
    """Output tokens a second of what has a `tpot_s`, a `batch` and a `deployment`."""

    __slots__ = ()

    @property
    def tokens_per_s_per_user(self) -> Num | None:
        """1 / TPOT: how fast one user sees text [1/s]."""
        tpot_s: Num | None = getattr(self, "tpot_s")  # noqa: B009
        return None if tpot_s is None else 1.0 / tpot_s

    @property
    def tokens_per_s(self) -> Num | None:
        """B / TPOT: output tokens of all sequences while decoding [1/s]."""
        tpot_s: Num | None = getattr(self, "tpot_s")  # noqa: B009
        batch: Num = getattr(self, "batch")  # noqa: B009
        return None if tpot_s is None else batch / tpot_s

    @property
    def tokens_per_s_per_chip(self) -> Num | None:
        """The same over the chips of the replica [1/s]."""
        total = self.tokens_per_s
        deployment: Deployment = getattr(self, "deployment")  # noqa: B009
        return None if total is None else total / deployment.n_chips
