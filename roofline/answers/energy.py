"""Joules a token, between what chips draw at their rated power and what they draw idle; and chips held below their peak."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from roofline.answers.cost import MTOK, day_of, of_prediction, request_of
from roofline.answers.prediction import Prediction
from roofline.answers.records import as_frame
from roofline.answers.whatif import scaled
from roofline.errors import SpecError, require
from roofline.num import Num, checked, common_shape
from roofline.specs.hardware import Hardware

__all__ = ["Energy", "energy", "throttled"]

KWH_J = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Energy:
    """Bounds on the energy of a token, input and output apart; fields broadcast.

    `…_max` is every chip at `tdp_w` while it works, `…_min` every chip at `idle_fraction` of it. Each side takes the energy
    of the time it holds the machine: input that of the prefill, over P tokens; output that of the N − 1 decode passes,
    over N.
    """

    prediction: Prediction
    tdp_w: Num
    idle_fraction: Num
    utilisation: Num
    usd_per_kwh: Num | None
    price_date: datetime.date | None
    input_j_per_token_min: Num
    input_j_per_token_max: Num
    output_j_per_token_min: Num | None
    output_j_per_token_max: Num | None
    request_j_min: Num
    request_j_max: Num

    @property
    def request_kwh_max(self) -> Num:
        """Upper bound of a request [kWh]."""
        return self.request_j_max / KWH_J

    @property
    def request_usd_max(self) -> Num | None:
        """Upper bound of its electricity [USD]; none without a price."""
        return None if self.usd_per_kwh is None else self.request_kwh_max * self.usd_per_kwh

    def _per_mtok(self, j_per_token: Num | None) -> Num | None:
        """Electricity [USD/Mtok]."""
        if self.usd_per_kwh is None or j_per_token is None:
            return None
        return j_per_token * MTOK / KWH_J * self.usd_per_kwh

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI and USD, unit in the key; a million tokens take 1 / 3.6 kWh for every J a token."""
        sides = {name: getattr(self, name) for name in _SIDES}
        names = ("tdp_w", "idle_fraction", "utilisation", "usd_per_kwh", "request_j_min", "request_j_max")
        return (
            request_of(self.prediction)
            | {name: getattr(self, name) for name in (*names, "request_kwh_max", "request_usd_max")}
            | {"price_date": None if self.price_date is None else self.price_date.isoformat()}
            | sides
            | {n.replace("j_per_token", "usd_per_mtok"): self._per_mtok(value) for n, value in sides.items()}
        )

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


_SIDES = ("input_j_per_token_min", "input_j_per_token_max", "output_j_per_token_min", "output_j_per_token_max")


def energy(
    prediction: Prediction,
    *,
    idle_fraction: Any,
    utilisation: Any = 1.0,
    tdp_w: Any = None,
    usd_per_kwh: Any = None,
    date: datetime.date | str | None = None,
) -> Energy:
    """Bounds on the joules of a token, and what they cost.

        most  = W · n · t · (1 + f · (1/u − 1)) / tokens        busy at W, the rated power; idle at f · W in between
        least = W · n · t · f / u               / tokens        never above f · W

    Parameters
    ----------
    prediction : Prediction
        t is its TTFT for input, (N − 1) · TPOT for output [s]; n its chips.
    idle_fraction : float or array, in [0, 1]
        f, power at idle over rated power [1]. No chip's datasheet gives it: it is yours to say, 0 where nothing is known.
    utilisation : float or array, in (0, 1]
        u, share of the time in which the machine does this work [1]; 1, the energy of the work alone, by default.
    tdp_w : float or array, optional
        W, rated power of a chip, or the cap it is held to [W]; the chip's own TDP by default.
    usd_per_kwh, date
        Price of electricity, and when it held [USD/kWh].

    Notes
    -----
    Assumes the chip alone: host, network, cooling and losses of supply are not in it. TDP bounds the mean over seconds, not
    a peak of microseconds.

    Examples
    --------
    An H100 that takes 1 s for a prompt of 10,000 tokens spends at most 700 J on it, 0.07 J a token.

    >>> from roofline.answers.prediction import predict
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> p = predict(d, prompt_tokens=1000, output_tokens=2, batch=10)
    >>> e = energy(p, idle_fraction=0.1)
    >>> round(e.input_j_per_token_max / (700 * p.ttft_s / 10_000), 6), round(e.request_j_max / e.request_j_min)
    (1.0, 10)
    """
    of_prediction(prediction, "energy")
    watts = _rated_w(prediction.deployment.hardware, tdp_w)
    idle = checked(idle_fraction, name="idle_fraction", low=0.0, high=1.0)
    busy = checked(utilisation, name="utilisation", low=0.0, high=1.0, above=True)
    usd, day = _electricity(usd_per_kwh, date)
    shapes = {"tdp_w": watts, "idle_fraction": idle, "utilisation": busy, "usd_per_kwh": 0.0 if usd is None else usd}
    common_shape(prediction=prediction.e2e_s, **shapes)
    most = watts * (1.0 + idle * (1.0 / busy - 1.0))
    least = watts * idle / busy
    chips_s = prediction.deployment.n_chips / prediction.batch  # chip-seconds of a sequence, a second of the batch
    n_out = prediction.output_tokens
    read_s = chips_s * prediction.ttft_s
    written_s = chips_s * (0.0 if prediction.tpot_s is None else (n_out - 1) * prediction.tpot_s)
    return Energy(
        prediction=prediction,
        tdp_w=watts,
        idle_fraction=idle,
        utilisation=busy,
        usd_per_kwh=usd,
        price_date=day,
        input_j_per_token_min=least * read_s / prediction.prompt_tokens,
        input_j_per_token_max=most * read_s / prediction.prompt_tokens,
        output_j_per_token_min=least * written_s / n_out if n_out else None,
        output_j_per_token_max=most * written_s / n_out if n_out else None,
        request_j_min=least * (read_s + written_s),
        request_j_max=most * (read_s + written_s),
    )


def _rated_w(chip: Hardware, tdp_w: Any) -> Num:
    if tdp_w is not None:
        return checked(tdp_w, name="tdp_w", low=0.0, above=True)
    if chip.power is None:
        raise SpecError(f"tdp_w: {chip.id} has no rated power on record; give tdp_w= [W]")
    return chip.power.tdp_w


def _electricity(usd_per_kwh: Any, date: Any) -> tuple[Num | None, datetime.date | None]:
    if (usd_per_kwh is None) != (date is None):
        raise SpecError("usd_per_kwh: expected a price and the date it held, or neither; give both")
    if usd_per_kwh is None:
        return None, None
    return checked(usd_per_kwh, name="usd_per_kwh", low=0.0), day_of(date, "date")


def throttled(hardware: Hardware, *, compute: float = 1.0, memory: float = 1.0) -> Hardware:
    """The chip held to a share of its ceilings, as under a power cap or heat.

    `compute` and `memory` are shares of every peak and of the memory bandwidth, in (0, 1] [1]; bounds move with them, so
    floors stay floors of the throttled chip. Its id carries a mark.

    >>> from roofline.specs.catalog import hardware
    >>> h100 = hardware("h100-sxm-80gb")
    >>> slow = throttled(h100, compute=0.5)
    >>> slow.id, slow.ridge("bf16") / h100.ridge("bf16")
    ('h100-sxm-80gb@compute=0.5', 0.5)
    """
    require(hardware, Hardware, "throttled(hardware)")
    shares = {"compute": compute, "memory": memory}
    for name, share in shares.items():
        if not isinstance(checked(share, name=name, low=0.0, high=1.0, above=True), float):
            raise SpecError(f"{name}: expected one number, got an array")
    held = ",".join(f"{name}={share:g}" for name, share in shares.items() if share != 1.0)
    if not held:
        return hardware
    chip = scaled(hardware, peak=compute, bandwidth=memory)
    return chip.model_copy(update={"id": f"{chip.id}@{held}", "name": f"{chip.name}, held to {held}"})
