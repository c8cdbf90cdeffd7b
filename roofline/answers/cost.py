"""What a token costs on rented chips.

Prices are inputs: given with the day they held, or taken from the chip's own record when asked for by name. None is a
default, and every answer says which price it used. So is utilisation: the share of the hours paid for in which the
machine does this work is stated, or follows from a rate of requests; a calculator that assumes 100 % is low by its
inverse.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roofline.answers.prediction import Prediction
from roofline.answers.records import as_frame
from roofline.errors import SpecError, shown
from roofline.num import Num, checked, common_shape, whole
from roofline.specs.hardware import Hardware

__all__ = ["Cost", "cost", "day_of", "of_prediction", "request_of"]

PriceRecord = Literal["low", "high"]

HOUR_S = 3600.0
LEAST = 1e-9  # of a utilisation [1] or a rate [1/s]: less is no use of a machine
MTOK = 1e6
SPLIT = "input pays for TTFT, output for (N − 1) · TPOT"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cost:
    """What the tokens of a prediction cost. USD per million tokens, input and output apart; fields broadcast.

    Each side pays for the time it holds the machine: input tokens for the prefill (TTFT), output tokens for the N − 1 decode
    passes. All N are billed, and the first of them, which the prefill makes, is paid for by the input: so
    P · input + N · output is what a request costs. `blended` is that over all its tokens, P + N. With no output tokens (an
    encoder) there is no output price.
    """

    prediction: Prediction
    usd_per_chip_h: Num
    price_date: datetime.date
    price_from: str
    utilisation: Num
    request_usd: Num
    input_usd_per_mtok: Num
    output_usd_per_mtok: Num | None
    blended_usd_per_mtok: Num

    @property
    def input_tokens_per_s(self) -> Num:
        """B · P / TTFT: prompt tokens of all sequences while they are read [1/s]."""
        return self.prediction.batch * self.prediction.prompt_tokens / self.prediction.ttft_s

    @property
    def output_tokens_per_s(self) -> Num | None:
        """B / TPOT: output tokens of all sequences while decoding [1/s]."""
        return self.prediction.tokens_per_s

    @property
    def input_share(self) -> Num:
        """Share of the machine's time, and so of the cost, that goes to input [1]."""
        return self.prediction.ttft_s / _held_s(self.prediction)

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI and USD, unit in the key."""
        return request_of(self.prediction) | {
            "price_date": self.price_date.isoformat(),
            "price_from": self.price_from,
            "split": SPLIT,
            "usd_per_chip_h": self.usd_per_chip_h,
            "utilisation": self.utilisation,
            "input_tokens_per_s": self.input_tokens_per_s,
            "output_tokens_per_s": self.output_tokens_per_s,
            "input_share": self.input_share,
            "request_usd": self.request_usd,
            "input_usd_per_mtok": self.input_usd_per_mtok,
            "output_usd_per_mtok": self.output_usd_per_mtok,
            "blended_usd_per_mtok": self.blended_usd_per_mtok,
        }

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def cost(
    prediction: Prediction,
    *,
    utilisation: Any = None,
    rate_per_s: Any = None,
    usd_per_chip_h: Any = None,
    date: datetime.date | str | None = None,
    price: PriceRecord | None = None,
) -> Cost:
    """USD per million tokens of a prediction, input and output apart.

        input  = c · n · TTFT           / (u · B · P)
        output = c · n · (N − 1) · TPOT / (u · B · N)        c [USD/s], n chips, u utilisation
        u      = λ · E2E / B                                 of a rate λ, by Little's law: λ · E2E requests are under way

    Parameters
    ----------
    prediction : Prediction
    utilisation : float or array, in (0, 1]
        Share of the paid time in which the machine does this work [1].
    rate_per_s : float or array
        In place of it, the requests that arrive at this replica [1/s].
    usd_per_chip_h, date : float or array; date, or text such as "2026-11-09"
        The price of one chip for an hour, and when it held [USD/h].
    price : "low" or "high"
        In place of both, the price in the chip's own record.

    Returns
    -------
    Cost
        Shape: broadcast of the prediction and the arguments.

    Raises
    ------
    SpecError
        No price, a chip without one on record, or more requests a second than the replica can do.

    Notes
    -----
    Assumes chips are paid for whether busy or not, every batch is full when it runs, and prompts pay alike (a prefix hit
    is cheaper, and belongs into the prediction). Of a rate, a request costs c · n / λ whatever the batch; a rate too low to
    fill this one would run smaller ones, which moves the split between input and output, not the sum. Images of a prompt
    are paid for by its text tokens.

    References
    ----------
    Little 1961, doi:10.1287/opre.9.3.383. arXiv:2606.11690: 0.21 to 15.25 USD/Mtok on one H100, by load alone.

    Examples
    --------
    An 8B model on an H100 at 2.50 USD/h, a third of the time idle.

    >>> from roofline.answers.prediction import predict
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> p = predict(d, prompt_tokens=1024, output_tokens=256, batch=32)
    >>> c = cost(p, usd_per_chip_h=2.5, date="2026-11-09", utilisation=2 / 3)
    >>> full = cost(p, usd_per_chip_h=2.5, date="2026-11-09", utilisation=1)
    >>> round(c.output_usd_per_mtok / full.output_usd_per_mtok, 6)
    1.5
    """
    of_prediction(prediction, "cost")
    usd, day, origin = _price(prediction.deployment.hardware, usd_per_chip_h, date, price)
    busy = _utilisation(prediction, utilisation, rate_per_s)
    common_shape(prediction=prediction.e2e_s, usd_per_chip_h=usd, utilisation=busy)
    n_out = prediction.output_tokens
    usd_per_s = usd * prediction.deployment.n_chips / HOUR_S / (busy * prediction.batch)
    read, written = usd_per_s * prediction.ttft_s, usd_per_s * _decode_s(prediction)
    return Cost(
        prediction=prediction,
        usd_per_chip_h=usd,
        price_date=day,
        price_from=origin,
        utilisation=busy,
        request_usd=read + written,
        input_usd_per_mtok=read / prediction.prompt_tokens * MTOK,
        output_usd_per_mtok=written / n_out * MTOK if n_out else None,
        blended_usd_per_mtok=(read + written) / (prediction.prompt_tokens + n_out) * MTOK,
    )


# Time, price, utilisation


def _decode_s(p: Prediction) -> Num:
    """(N − 1) · TPOT  [s]."""
    return 0.0 if p.tpot_s is None else (p.output_tokens - 1) * p.tpot_s


def _held_s(p: Prediction) -> Num:
    """How long a batch holds the machine  [s]."""
    return p.ttft_s + _decode_s(p)


def _price(chip: Hardware, usd_per_chip_h: Any, date: Any, price: PriceRecord | None) -> tuple[Num, datetime.date, str]:
    """(USD/h, its date, where it is from): given, or the chip's own record, never both and never neither."""
    own = "" if chip.price is None else f', or price="low" or "high" for the record of {chip.id}'
    give = f'give usd_per_chip_h= with date="YYYY-MM-DD"{own}'
    if usd_per_chip_h is None and price is None:
        raise SpecError(f"cost: no price; {give}")
    if usd_per_chip_h is not None:
        if price is not None or date is None:
            raise SpecError(f"usd_per_chip_h: {'a price twice' if price is not None else 'a price of no date'}; {give}")
        return checked(usd_per_chip_h, name="usd_per_chip_h", low=0.0), day_of(date, "date"), "given"
    if chip.price is None:
        raise SpecError(f"price: {chip.id} has none on record; {give}")
    if date is not None:
        raise SpecError(f"date: the record of {chip.id} has its own, {chip.price.date}; leave it out")
    records = {"low": chip.price.low_usd_per_h, "high": chip.price.high_usd_per_h}
    if not isinstance(price, str) or price not in records:
        raise SpecError(f'price: expected "low" or "high", got {shown(price)}; {give}')
    return records[price], chip.price.date, f"{chip.id}, {price}"


def day_of(date: Any, name: str) -> datetime.date:
    """A date, or the date a text names."""
    if isinstance(date, datetime.datetime):
        return date.date()
    if isinstance(date, datetime.date):
        return date
    try:
        return datetime.date.fromisoformat(date)
    except (TypeError, ValueError):
        raise SpecError(f'{name}: expected a date such as "2026-11-09", got {shown(date)}') from None


def _utilisation(p: Prediction, utilisation: Any, rate_per_s: Any) -> Num:
    if (utilisation is None) == (rate_per_s is None):
        raise SpecError(
            "utilisation: expected either utilisation=, in (0, 1], or rate_per_s=, the requests that arrive"
        )
    if utilisation is not None:
        return checked(utilisation, name="utilisation", low=LEAST, high=1.0)
    rate = checked(rate_per_s, name="rate_per_s", low=LEAST)
    common_shape(prediction=p.e2e_s, rate_per_s=rate)
    busy = rate * _held_s(p) / p.batch
    if np.any(np.greater(busy, 1.0)):
        most = float(np.min(p.batch / _held_s(p)))
        raise SpecError(
            f"rate_per_s: more than this replica does; expected at most {most:.4g}: spread the rest over more of them"
        )
    return busy


# Shared with the other answers about a prediction


def of_prediction(value: object, where: str) -> None:
    """Raise unless it is one prediction."""
    if not isinstance(value, Prediction):
        raise SpecError(
            f"{where}(prediction): expected a Prediction, got {shown(value)}; make one with roofline.predict(…)"
        )


def request_of(p: Prediction) -> dict[str, Any]:
    """What a prediction was asked, as the first columns of an answer about it."""
    d = p.deployment
    asked = {"prompt_tokens": whole(p.prompt_tokens), "output_tokens": p.output_tokens, "batch": whole(p.batch)}
    return {"model": d.model.id, "hardware": d.hardware.id, "n_chips": d.n_chips} | asked
