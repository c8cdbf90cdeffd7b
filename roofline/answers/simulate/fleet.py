"""Several replicas behind one door: who gets a request, where that depends on what each is doing when it comes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roofline.answers.simulate.asked import never_held, tokens_in_order
from roofline.answers.simulate.coming import Coming
from roofline.answers.simulate.replica import Replica
from roofline.answers.simulate.run import Run
from roofline.specs.workload import Requests
from roofline.timing.steplaw import StepLaw

__all__ = ["least_loaded"]


def least_loaded(requests: Requests, law: StepLaw, replica: Replica, n: int) -> NDArray[np.int64]:
    """For every request the replica, of n alike, that has the fewest prompt tokens to read when it comes.

    Of equal ones the first after the one chosen last. Each replica is simulated up to that moment, in whole steps: what it
    does in a step that has begun is not known before it ends.

    >>> from roofline.timing.steplaw import PlainLaw
    >>> law = PlainLaw(matmul_params=7.5e9, weight_bytes=16.06e9, kv_bytes_per_token=131072, n_layers=32, heads_dim=4096,
    ...                peak_flops_per_s=593.4e12, hbm_bytes_per_s=2.68e12, step_s=3e-3)
    >>> four = Requests(arrival_s=np.array([0.0, 0.1, 0.101, 0.102]), prompt_tokens=np.array([10, 9000, 10, 10]),
    ...                 output_tokens=np.ones(4, dtype=int))
    >>> least_loaded(four, law, Replica(kv_tokens=430000), 2).tolist()
    [0, 1, 0, 0]
    """
    arrivals, prompts, outputs = tokens_in_order(requests.arrival_s, requests.prompt_tokens, requests.output_tokens)
    rejected = never_held(prompts, outputs, [-1] * len(arrivals), replica).tolist()
    size = len(arrivals)
    alone = (arrivals.tolist(), prompts.tolist(), outputs.tolist())
    runs = [
        Run(Coming(list(alone[0]), [-1] * size, [0.0] * size, [True] * size), alone[1], alone[2], law, replica, None)
        for _ in range(n)
    ]
    to = np.zeros(size, dtype=np.int64)
    last = n - 1
    for i, (at, never) in enumerate(zip(alone[0], rejected, strict=True)):
        for run in runs:
            run.serve(at)
        waits = [run.to_read + sum(prompts[j] for j in run.coming.order[run.coming.come :]) for run in runs]
        last = min(range(n), key=lambda k: (waits[k], (k - last - 1) % n))
        to[i] = last
        if not never:
            runs[last].coming.add(i)
    return to
