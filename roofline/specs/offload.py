"""What of a model lives outside the chips' own memory, and where: weights, experts or cache in host memory or on a drive."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from roofline.errors import SpecError, did_you_mean, shorten, shown
from roofline.specs.hardware import Hardware
from roofline.specs.record import ByteRate, FlopRate, Record

__all__ = ["DRIVES", "ONE_MEMORY", "Offload", "OffloadTier", "require_host"]

OffloadTier = Literal["host", "nvme-gen4-x4", "nvme-gen5-x4"]
What = Literal["weights", "experts", "kv"]

DRIVES: dict[str, float] = {"nvme-gen4-x4": 7.877e9, "nvme-gen5-x4": 15.754e9}
"""What the link of a drive lets through [B/s], so an upper bound: drives are sold as 7.0–7.45 and 14.0–14.8 GB/s.

Source: PCI Express 4.0 and 5.0, four lanes of 16 and 32 GT/s after 128b/130b.
"""


ONE_MEMORY = ("unified", "socket")  # kinds of host link with the same memory at both ends


def require_host(chip: Hardware) -> None:
    """Raise where CPU and chip share one memory: there is nowhere to move anything."""
    link = chip.links.host
    if chip.kind == "cpu" or (link is not None and link.kind in ONE_MEMORY):
        raise SpecError(
            f"host: {chip.id} and its CPU share one memory, so there is no host tier to offload to; use an NVMe drive"
        )


class Offload(Record):
    """A share of the layers' weights, experts or cache, in another memory than the chips'.

    `what` of every layer alike: "weights" (each matrix and the head; tables that are looked up stay), "experts" (the routed
    ones) or "kv". `compute`: "chip" copies them over the link each pass; "host" multiplies them where they lie (llama.cpp's
    `--n-cpu-moe`, ktransformers), so bytes cross the host's memory bus and never the link. `overlap`: whether tier and chip
    work at the same time. `bytes_per_s`: of the host's memory or of the drive, where its owner knows [B/s];
    `host_flops_per_s`: what the host multiplies at [FLOP/s].

    >>> Offload.parse("host:0.5:experts")
    Offload(to='host', fraction=0.5, what='experts', compute='chip', overlap=False, bytes_per_s=None, host_flops_per_s=None)
    """

    to: OffloadTier = "host"
    fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    what: What = "weights"
    compute: Literal["chip", "host"] = "chip"
    overlap: bool = False
    bytes_per_s: ByteRate | None = Field(default=None, alias="bandwidth")
    host_flops_per_s: FlopRate | None = Field(default=None, alias="host_peak")

    @classmethod
    def parse(cls, text: str) -> Self:
        """From TIER:SHARE or TIER:SHARE:WHAT, such as host:0.5 (of the weights), host:1:experts, nvme-gen5-x4:0.25:kv."""
        if not isinstance(text, str):
            raise SpecError(f"offload: expected a text such as host:0.5, got {shown(text)}")
        to, _, rest = text.partition(":")
        share, _, what = rest.partition(":")
        wanted = (
            f"offload: expected TIER:SHARE or TIER:SHARE:WHAT such as host:0.5 or host:1:experts, got {shorten(text)!r}"
        )
        if to not in get_args(OffloadTier):
            raise SpecError(
                f"{wanted}; tiers: {', '.join(get_args(OffloadTier))}{did_you_mean(to, get_args(OffloadTier))}"
            )
        if what not in ("", *get_args(What)):
            raise SpecError(f"{wanted}; what: {', '.join(get_args(What))}{did_you_mean(what, get_args(What))}")
        try:
            fraction = float(share)
        except ValueError:
            raise SpecError(wanted) from None
        if not 0.0 <= fraction <= 1.0:
            raise SpecError(f"{wanted}; the share is from 0 to 1")
        given: dict[str, object] = {"to": to, "fraction": fraction, "what": what or "weights"}
        return cls.read(given, where="offload")

    @model_validator(mode="after")
    def _a_drive_computes_nothing(self) -> Self:
        if self.compute == "host" and self.to != "host":
            raise SpecError(f'offload: nothing computes on {self.to}; use compute="chip", or to="host"')
        return self
