"""Memory behind the chip's own: a cache fetched or made anew, sessions kept warm, weights that stream from the host.

Everything here is one of two times: the pass as the clock has it, and bytes over the rate of a tier. A tier's rate is a fact
of this machine (its host link) or something its owner says; none is borrowed from another.
"""

from roofline.answers.offload.cached import (
    RecomputeOrLoad,
    WarmSessions,
    recompute_or_load,
    sequence_bytes,
    warm_sessions,
)
from roofline.answers.offload.streamed import OffloadedPass, offloaded_pass
from roofline.answers.records import Answer
from roofline.answers.tiers import NVME_BYTES_PER_S, Tier, exposed_seconds, host_tier, nvme_tier

__all__ = [
    "NVME_BYTES_PER_S",
    "Answer",
    "OffloadedPass",
    "RecomputeOrLoad",
    "Tier",
    "WarmSessions",
    "exposed_seconds",
    "host_tier",
    "nvme_tier",
    "offloaded_pass",
    "recompute_or_load",
    "sequence_bytes",
    "warm_sessions",
]
