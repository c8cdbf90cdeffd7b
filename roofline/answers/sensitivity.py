"""What a ceiling is worth, and how high one must be: the model run again with the chip's ceilings moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.answers.memory import memory
from roofline.answers.prediction import Prediction, predict
from roofline.answers.whatif import CEILINGS, Ceiling, scaled
from roofline.errors import SpecError, did_you_mean, require, shown
from roofline.num import Num, checked, whole
from roofline.specs.deployment import Deployment
from roofline.specs.fabric import link_between

__all__ = ["Effect", "Needed", "Sensitivity", "needed", "sensitivity"]

Target: TypeAlias = Literal["ttft_s", "tpot_s", "batch"]

DECADES = 12.0
"""A ceiling is looked for between 1e-12 and 1e12 of the chip's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What moving one ceiling does.

    `…_elasticity` is d ln(quantity) / d ln(ceiling) [1]: −1 where a ceiling 1 % higher gives a time 1 % shorter, 0 where it
    has no part in it. `…_doubled` is the exact answer at twice the ceiling (of latency: at twice the latency). What there is
    none of (TPOT of a single output token, a batch where none fits) is none.
    """

    ceiling: Ceiling
    ttft_elasticity: float
    tpot_elasticity: float | None
    max_batch_elasticity: float | None
    ttft_doubled_s: float
    tpot_doubled_s: float | None
    max_batch_doubled: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One effect for each ceiling, and the prediction they start from."""

    prediction: Prediction
    effects: tuple[Effect, ...]

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def __getitem__(self, ceiling: str) -> Effect:
        for effect in self.effects:
            if effect.ceiling == ceiling:
                return effect
        raise _no_ceiling(ceiling, CEILINGS)

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key: what the base gives, then every effect under `<ceiling>_…`."""
        p = self.prediction
        base = {"model": p.deployment.model.id, "hardware": p.deployment.hardware.id, "n_chips": p.deployment.n_chips}
        base |= {"ttft_s": p.ttft_s, "tpot_s": p.tpot_s, "max_batch": whole(p.memory.max_batch)}
        return base | {f"{e.ceiling}_{n}": v for e in self.effects for n, v in _said(e).items() if n != "ceiling"}

    def to_frame(self) -> Any:
        """One row a ceiling, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([_said(effect) for effect in self.effects])


def _said(effect: Effect) -> dict[str, Any]:
    return asdict(effect) | {"max_batch_doubled": whole(effect.max_batch_doubled)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """How high a ceiling must be for a target.

    `least` is the least that will do [FLOP/s, B/s or B, as `now`], none where no height will; 0 where the ceiling has no
    part in the target, which is met whatever it is. `factor` is the same over the chip's own. `limit_s` is the time that
    an endlessly high ceiling leaves (of a batch, there is none).
    """

    ceiling: Ceiling
    target: Target
    target_value: float
    now: float
    least: float | None
    factor: float | None
    limit_s: float | None

    @property
    def reachable(self) -> bool:
        """Whether this ceiling alone can reach the target."""
        return self.least is not None

    def to_dict(self) -> dict[str, Any]:
        """Flat, in SI."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"reachable": self.reachable}

    def to_frame(self) -> Any:
        """One row, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([self.to_dict()])


def sensitivity(
    deployment: Deployment, *, prompt_tokens: int, output_tokens: int, batch: int = 1, step: float = 0.01
) -> Sensitivity:
    """Elasticities of TTFT, TPOT and the largest batch to every ceiling of the chip, and the answers at twice each.

        ε = d ln t / d ln c  ≈  (ln t(c·e^h) − ln t(c·e^−h)) / (2h),   h = `step`

    Without fixed costs a time is homogeneous of degree −1 in its ceilings, so
    ε(peak) + ε(bandwidth) + ε(link bandwidth) − ε(link latency) = −1.

    Parameters
    ----------
    deployment : Deployment
    prompt_tokens, output_tokens, batch : int
        Of the request, as in `predict` [token, token, 1].
    step : float
        h, the relative step of the difference, up to 0.5 [1].

    Returns
    -------
    Sensitivity
        An effect for each of "peak", "bandwidth", "link_bandwidth", "link_latency", "capacity"; see `Effect`.

    Notes
    -----
    Assumes a peak moves for all dtypes at once, and the chip's links move together. Where an op changes from
    one bound to the other within the step, the elasticity is a mean over the step. The largest batch is a whole number n:
    its elasticity is the slope between the capacities that n and n + 1 sequences need. Every figure is a re-run of
    `predict`.

    Examples
    --------
    Decode of one sequence is bound by memory: twice the bandwidth, half the TPOT.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> found = sensitivity(d, prompt_tokens=2048, output_tokens=128)
    >>> round(found["bandwidth"].tpot_elasticity, 3), round(found["bandwidth"].tpot_doubled_s / found.prediction.tpot_s, 3)
    (-1.0, 0.5)
    """
    require(deployment, Deployment, "sensitivity(deployment)")
    h = _one(step, name="step", high=0.5)
    asked = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "batch": batch}
    base = _predicted(deployment, asked)
    effects = tuple(_effect(ceiling, base, asked, h) for ceiling in CEILINGS)
    return Sensitivity(prediction=base, effects=effects)


def _effect(ceiling: Ceiling, base: Prediction, asked: dict[str, Any], h: float) -> Effect:
    d = base.deployment
    up, down, twice = (_predicted(_moved(d, ceiling, k), asked) for k in (math.exp(h), math.exp(-h), 2.0))
    slope = _slope_of_batch(base) if ceiling == "capacity" else 0.0
    return Effect(
        ceiling=ceiling,
        ttft_elasticity=_slope(_float(up.ttft_s), _float(down.ttft_s), h),
        tpot_elasticity=None if up.tpot_s is None else _slope(_float(up.tpot_s), _float(down.tpot_s), h),
        max_batch_elasticity=slope,
        ttft_doubled_s=_float(twice.ttft_s),
        tpot_doubled_s=None if twice.tpot_s is None else _float(twice.tpot_s),
        max_batch_doubled=_float(twice.memory.max_batch),
    )


def _slope(up: float, down: float, h: float) -> float:
    return math.log(up / down) / (2.0 * h)


def _slope_of_batch(base: Prediction) -> float | None:
    """ln((n + 1) / n) over the logarithm of the capacities that so many sequences need."""
    n = _float(base.memory.max_batch)
    if not 1.0 <= n < math.inf:
        return None
    return math.log((n + 1.0) / n) / math.log(_capacity(base, n + 1.0) / _capacity(base, n))


def needed(
    deployment: Deployment,
    *,
    ceiling: Ceiling,
    prompt_tokens: int,
    output_tokens: int,
    batch: int = 1,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
) -> Needed:
    """How high one ceiling must be for a target: a TTFT or TPOT at this batch; of capacity, that this batch fits.

    Parameters
    ----------
    ceiling : "peak", "bandwidth", "link_bandwidth" or "capacity"
    prompt_tokens, output_tokens, batch : int
        Of the request, as in `predict` [token, token, 1].
    ttft_s, tpot_s : float, optional
        The target: one of them, and none for a capacity [s].

    Returns
    -------
    Needed
        "Not by this alone" is an answer: `least` is none, and `limit_s` says what remains.

    Notes
    -----
    Assumes all other ceilings stay, and all dtypes' peaks keep their proportions (`now` is the peak of the dtype most of the
    matrix products run in; a link's, that of the innermost link that joins all chips). Bisection on re-runs of `predict`:
    no time grows with a ceiling. A capacity grows by what is short until it fits.

    Examples
    --------
    Llama-3.1-8B reads 15 GB of weights a token: 2 ms a token need 7.5 TB/s, and more for its cache.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> round(needed(d, ceiling="bandwidth", prompt_tokens=512, output_tokens=64, tpot_s=2e-3).least / 1e12, 1)
    7.5
    >>> needed(d, ceiling="peak", prompt_tokens=512, output_tokens=64, tpot_s=2e-3).reachable
    False
    """
    require(deployment, Deployment, "needed(deployment)")
    if ceiling not in _RAISABLE:
        raise _no_ceiling(ceiling, _RAISABLE)
    asked = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "batch": batch}
    base = _predicted(deployment, asked)
    target, value = _target(ceiling, base, ttft_s=ttft_s, tpot_s=tpot_s)
    factor, limit = None, None
    if target == "batch":
        factor = _capacity(base, value) / _height(ceiling, base)
    else:
        asked |= {"output_tokens": min(output_tokens, 1)} if target == "ttft_s" else {}

        def time(k: float) -> float:
            return _float(getattr(_predicted(_moved(deployment, ceiling, k), asked), target))

        limit = time(10.0**DECADES)
        factor = _least(lambda k: time(k) <= value) if limit <= value else None
    now = _height(ceiling, base)
    return Needed(
        ceiling=ceiling, target=target, target_value=value, now=now, limit_s=limit, factor=factor,
        least=None if factor is None else factor * now,
    )  # fmt: skip


_RAISABLE = tuple(c for c in CEILINGS if c != "link_latency")


def _target(ceiling: Ceiling, base: Prediction, *, ttft_s: Any, tpot_s: Any) -> tuple[Target, float]:
    times: dict[Target, Any] = {"ttft_s": ttft_s, "tpot_s": tpot_s}
    given = [(name, value) for name, value in times.items() if value is not None]
    if ceiling == "capacity":
        if given:
            raise SpecError(f"{given[0][0]}: memory capacity has no part in times; leave it out to ask for the batch")
        return "batch", _float(base.batch)
    if len(given) != 1:
        raise SpecError(f"needed: expected one target, ttft_s or tpot_s, got {len(given) or 'neither'}")
    name, value = given[0]
    if getattr(base, name) is None:
        raise SpecError(f"{name}: {base.output_tokens} output tokens have no TPOT; ask for 2 or more")
    return name, _one(value, name=name)


def _height(ceiling: Ceiling, base: Prediction) -> float:
    """The chip's own ceiling [FLOP/s, B/s or B]."""
    chip = base.deployment.hardware
    match ceiling:
        case "peak":
            return base.prefill.peak_flops_per_s
        case "bandwidth":
            return chip.hbm_bytes_per_s
        case "capacity":
            return chip.memory_bytes
        case _:
            link = link_between(base.deployment.n_chips, chip)
            if link.bytes_per_s is None:
                raise SpecError(
                    f"link_bandwidth: that of {chip.id} is not known; write a hardware file with that figure"
                )
            return link.bytes_per_s


def _capacity(base: Prediction, batch: float) -> float:
    """The least memory, to a byte or two, that so many of the request fit in: add what is short until nothing is  [B]."""
    d, least = base.deployment, base.deployment.engine.memory.driver_bytes + 1.0
    context = base.request.n_new + max(base.output_tokens - 1, 0)
    sources = base.request.n_memory if d.model.remembers else None
    for _ in range(1000):
        moved = _moved(d, "capacity", least / d.hardware.memory_bytes)
        held = memory(moved, context_tokens=context, batch=batch, memory_tokens=sources)
        if held.fits:
            return least
        least += max(math.ceil(_float(held.short_by_bytes)), 1.0)
    raise SpecError(f"capacity: no size was found that holds {batch:g} of the request; {least:g} B do not")


def _least(met: Callable[[float], bool]) -> float:
    """The least factor that will do, by bisection of its logarithm; 0 where even the least tried does."""
    if met(10.0**-DECADES):
        return 0.0
    low, high = -DECADES, DECADES
    for _ in range(54):  # 24 decades / 2^54: the last bit of the factor
        middle = (low + high) / 2.0
        low, high = (low, middle) if met(10.0**middle) else (middle, high)
    return float(10.0**high)


def _moved(deployment: Deployment, ceiling: Ceiling, factor: float) -> Deployment:
    return replace(deployment, hardware=scaled(deployment.hardware, **{ceiling: factor}))


def _predicted(deployment: Deployment, asked: dict[str, Any]) -> Prediction:
    prediction = predict(deployment, **asked)
    if isinstance(prediction.e2e_s, np.ndarray):
        raise SpecError("prompt_tokens, batch: expected the numbers of one request shape, got arrays")
    return prediction


def _one(value: Any, *, name: str, high: float = 1e15) -> float:
    number = checked(value, name=name, low=0.0, high=high, above=True)
    if not isinstance(number, float):
        raise SpecError(f"{name}: expected one number, got an array")
    return number


def _float(value: Num | None) -> float:
    return float(value)  # type: ignore[arg-type]


def _no_ceiling(name: object, known: tuple[str, ...]) -> SpecError:
    return SpecError(f"ceiling: expected one of {', '.join(known)}, got {shown(name)}{did_you_mean(str(name), known)}")
