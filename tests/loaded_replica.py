"""The replica of `data/served_under_load.csv`: its law, its workloads, and what was measured of it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import roofline as rl
from roofline.answers.serving.closed import Closed, closed_form
from roofline.answers.serving.lengths import Lengths
from roofline.answers.serving.steady import Rules
from roofline.answers.simulate import Replica
from roofline.timing.steplaw import PlainLaw

TABLE = Path(__file__).parent / "data" / "served_under_load.csv"
LAW = PlainLaw(
    matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=0.003,
)  # fmt: skip
WORKLOADS = ("fixed_1024_128", "azure_conv", "azure_code", "fixed_4096_512", "decode_200_400", "lognorm_kv60k")
SEQS, BUDGET = 256, 2048


@dataclass(frozen=True)
class Row:
    """One line of the table: times by name [s]."""

    workload: str
    arrivals: str
    load: float
    rate_per_s: float
    saturation_per_s: float
    p95_error: float
    times: dict[str, float]


def rows(arrivals: str) -> list[Row]:
    """The lines of one kind of arrivals."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        found = [r for r in csv.DictReader(stream) if r["arrivals"] == arrivals]
    return [
        Row(
            r["workload"], arrivals, float(r["load"]), float(r["rate_per_s"]), float(r["saturation_per_s"]),
            float(r["ttft_p95_error"] or 0.0), {n: float(v) for n, v in r.items() if n.endswith("_s") and n[0] == "t"},
        )
        for r in found
    ]  # fmt: skip


def asked(workload: str) -> rl.Workload:
    """The lengths of a workload, by its name in the table."""
    if workload.startswith("azure"):
        return rl.workload(workload.replace("_", "-"))
    if workload == "lognorm_kv60k":
        drawn = rl.Workload.lognormal(prompt_mean=2000, output_mean=300)
        return rl.Workload(np.clip(drawn.prompt_tokens, 16, 16000), np.clip(drawn.output_tokens, 2, 4000))
    _, prompt, output = workload.split("_")
    return rl.Workload.fixed(prompt_tokens=int(prompt), output_tokens=int(output))


def replica(workload: str) -> Replica:
    """The replica that served it."""
    kv_tokens = 60_000 if workload == "lognorm_kv60k" else 430_000
    return Replica(kv_tokens=kv_tokens, batch_tokens=BUDGET, max_seqs=SEQS)


def closed(workload: str, rates: list[float]) -> Closed:
    """What the closed form says of it."""
    w = asked(workload)
    rules = Rules.of(batch_tokens=BUDGET, max_seqs=SEQS, kv_tokens=replica(workload).kv_tokens)
    return closed_form(LAW, Lengths.of(w.prompt_tokens, w.output_tokens), rules, np.array(rates))
