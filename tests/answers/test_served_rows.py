"""The simulation against a table that another simulation of the same engine made, in which it drew its own requests."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from loaded_replica import LAW, Row, asked, replica, rows

from roofline.answers.serving.measured import Observed, observed, run
from roofline.answers.simulate import simulate
from roofline.specs.arrivals import Recorded
from roofline.specs.workload import Workload

ALL = os.environ.get("HYPOTHESIS_PROFILE") == "heavy"  # every row of the table, which takes a minute
N_TABLE = 20_400  # requests that count behind a row of the table
STATISTICS = {"ttft_mean_s": 0.02, "ttft_p95_s": 0.03, "tpot_mean_s": 0.02, "tpot_p95_s": 0.03}
"""What is compared, and the least σ of it: sampling in the table, and how the two draw."""


def _poisson(row: Row, seed: int) -> Observed:
    """Fewer requests where they are alike and hardly meet; three runs, that tell how far apart runs are, near saturation."""
    alike = row.workload.startswith(("fixed", "decode"))
    near = row.load >= 0.8 or (row.load >= 0.5 and row.workload == "lognorm_kv60k")
    n, n_runs = 2000 if alike and row.load <= 0.6 else 6000, 3 if near else 1
    requests = asked(row.workload)
    lengths = Workload(requests.prompt_tokens, requests.output_tokens)
    draws = [lengths.draw(n, rate_per_s=row.rate_per_s, seed=seed + i) for i in range(n_runs)]
    return observed([[run(LAW, replica(row.workload), drawn)] for drawn in draws])


def _chosen(arrivals: str) -> list[Row]:
    loads = (0.3, 0.7, 0.85) if arrivals == "poisson" else (0.3, 0.7, 0.9)
    return [row for row in rows(arrivals) if ALL or row.load in loads]


@pytest.mark.parametrize("row", _chosen("poisson"), ids=lambda r: f"{r.workload}-{r.load}")
def test_poisson_rows_agree_within_three_sigma(row: Row) -> None:
    """σ² = least² + (error of the table)² + (error of these runs)²: as they say themselves, or by how many requests less."""
    found = _poisson(row, seed=round(1000 * row.load))
    fewer = math.sqrt(N_TABLE / found.n_requests)
    for name, least in STATISTICS.items():
        own = found.errors.get(name, 0.0) / row.times[name]
        drawn = math.hypot(row.p95_error, max(own, row.p95_error * fewer))
        sigma = math.hypot(least, drawn if name.startswith("ttft") else own)
        assert found.times[name] == pytest.approx(row.times[name], rel=3.0 * sigma), name


def test_over_all_rows_it_is_neither_slower_nor_faster() -> None:
    """The signed errors of mean TPOT, which hardly scatter, over the rows: their median within 1 %."""
    off = [
        _poisson(row, seed=7 + i).times["tpot_mean_s"] / row.times["tpot_mean_s"] - 1.0
        for i, row in enumerate(rows("poisson"))
        if row.load == 0.5
    ]
    assert abs(float(np.median(off))) < 0.01


@pytest.mark.parametrize("row", _chosen("recorded"), ids=lambda r: f"{r.workload}-{r.load}")
def test_a_trace_is_served_as_it_was(row: Row) -> None:
    """The same 10,000 arrivals at the same places: all times within 1.5 %, where one rounding of a time moves a step."""
    whole = asked(row.workload)
    assert isinstance(whole.arrivals, Recorded)
    came = whole.arrivals.arrival_s[:10_000]
    n = len(came)
    served = simulate(
        (came - came[0]) * ((n - 1) / (came[-1] - came[0]) / row.rate_per_s), whole.prompt_tokens[:n],
        whole.output_tokens[:n], LAW, replica(row.workload),
    )  # fmt: skip
    found = observed([[served]])
    for name, seconds in row.times.items():
        assert found.times[name] == pytest.approx(seconds, rel=0.015), name
