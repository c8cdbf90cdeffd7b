"""The API price, or the utilisation, at which renting chips costs what an API does."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.answers.cost import MTOK, Cost, day_of
from roofline.answers.records import as_frame
from roofline.errors import SpecError, shown
from roofline.num import Num, checked, common_shape

__all__ = ["BreakEven", "break_even_price", "break_even_utilisation"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BreakEven:
    """Where renting chips costs what an API does for the same request.

    `needed_utilisation` is the share of the paid hours that must be filled; above 1 renting cannot match the price
    (`reachable`). `api_request_usd` is what the API takes for the request.
    """

    cost: Cost
    input_usd_per_mtok: Num
    output_usd_per_mtok: Num
    price_date: datetime.date | None
    api_request_usd: Num
    needed_utilisation: Num

    @property
    def reachable(self) -> Any:
        """Whether any utilisation will do."""
        below = np.less_equal(self.needed_utilisation, 1.0)
        return below if isinstance(self.needed_utilisation, np.ndarray) else bool(below)

    def to_dict(self) -> dict[str, Any]:
        """What the chips cost, then the API's prices under `api_…`."""
        return self.cost.to_dict() | {
            "api_price_date": None if self.price_date is None else self.price_date.isoformat(),
            "api_input_usd_per_mtok": self.input_usd_per_mtok,
            "api_output_usd_per_mtok": self.output_usd_per_mtok,
            "api_request_usd": self.api_request_usd,
            "needed_utilisation": self.needed_utilisation,
            "reachable": self.reachable,
        }

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def break_even_price(cost: Cost, *, output_to_input: Any) -> BreakEven:
    """The API price at which renting the chips breaks even, at the stated utilisation, for this mix of tokens.

        x · P + r · x · N = what the request costs        x for input, r · x for output [USD/token]

    Parameters
    ----------
    cost : Cost
    output_to_input : float or array
        r, how many times an input token's price an output token costs; 1 for a single price [1].

    Examples
    --------
    >>> from roofline.answers.cost import cost as cost_of
    >>> from roofline.answers.prediction import predict
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> p = predict(d, prompt_tokens=1000, output_tokens=250, batch=32)
    >>> c = cost_of(p, usd_per_chip_h=2.5, date="2026-11-09", utilisation=0.5)
    >>> even = break_even_price(c, output_to_input=4)
    >>> even.api_request_usd == c.request_usd, even.needed_utilisation, even.output_usd_per_mtok / even.input_usd_per_mtok
    (True, 0.5, 4.0)
    """
    _of_cost(cost, "break_even_price")
    ratio = checked(output_to_input, name="output_to_input", low=0.0)
    common_shape(cost=cost.request_usd, output_to_input=ratio)
    p = cost.prediction
    each = cost.request_usd / (p.prompt_tokens + ratio * p.output_tokens) * MTOK
    return BreakEven(
        cost=cost,
        input_usd_per_mtok=each,
        output_usd_per_mtok=ratio * each,
        price_date=None,
        api_request_usd=cost.request_usd,
        needed_utilisation=cost.utilisation,
    )


def break_even_utilisation(
    cost: Cost, *, input_usd_per_mtok: Any, output_usd_per_mtok: Any, date: datetime.date | str
) -> BreakEven:
    """The share of paid time that must be busy for the chips to cost no more than an API; above 1 they cannot.

        u = what the request costs at full utilisation / (P · input + N · output)

    Parameters
    ----------
    cost : Cost
        At any utilisation.
    input_usd_per_mtok, output_usd_per_mtok : float or array
        The API's prices [USD/Mtok].
    date : date, or text such as "2026-11-09"
        When they held.
    """
    _of_cost(cost, "break_even_utilisation")
    given = {"input_usd_per_mtok": input_usd_per_mtok, "output_usd_per_mtok": output_usd_per_mtok}
    prices = {name: checked(value, name=name, low=0.0) for name, value in given.items()}
    common_shape(cost=cost.request_usd, **prices)
    p = cost.prediction
    taken = (p.prompt_tokens * prices["input_usd_per_mtok"] + p.output_tokens * prices["output_usd_per_mtok"]) / MTOK
    if np.any(np.less(taken, 1e-15)):
        raise SpecError("input_usd_per_mtok, output_usd_per_mtok: expected an API that takes money for this request")
    return BreakEven(
        cost=cost,
        **prices,
        price_date=day_of(date, "date"),
        api_request_usd=taken,
        needed_utilisation=cost.request_usd * cost.utilisation / taken,
    )


def _of_cost(value: object, where: str) -> None:
    if not isinstance(value, Cost):
        raise SpecError(f"{where}(cost): expected a Cost, got {shown(value)}; make one with cost(prediction, …)")
