"""What to change where something does not fit: each way is tried, none is a rule of thumb."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from roofline.answers.memory import Memory
from roofline.answers.tiers import host_tier
from roofline.dtypes import format_named
from roofline.errors import RooflineError, SpecError
from roofline.specs.deployment import Deployment
from roofline.specs.offload import Offload
from roofline.specs.precision import Precision

__all__ = ["narrower", "ways_to_fit"]

MOST_CHIPS = 64
FULLER = 0.95


def ways_to_fit(deployment: Deployment, holds: Callable[[Deployment], Memory]) -> tuple[str, ...]:
    """Single changes that make a request fit where it does not, as phrases. Empty where it fits.

    `holds` gives the memory of the same request on a changed deployment. Tried: a smaller batch, a shorter context, narrower
    formats, more chips by tensor parallelism, a larger fraction of the memory, weights in host memory.

    >>> from roofline.answers.memory import memory
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-70b"), hardware=hardware("h100-sxm-80gb"))
    >>> ways_to_fit(d, lambda x: memory(x, context_tokens=8192, batch=16))
    ('4-bit weights (awq)', 'tp 4 (4 chips)', '71 % of the weights in host memory')
    """
    held = holds(deployment)
    if held.fits:
        return ()
    found = [f"batch {held.max_batch:,.0f} at this context"] if held.max_batch >= 1 else []
    if held.max_context_tokens >= 1:
        found.append(f"at most {held.max_context_tokens:,.0f} tokens each at this batch")
    found += [label for label, changed in narrower(deployment) if holds(changed).fits]
    found += [label for label, changed in _wider(deployment) if holds(changed).fits][:1]
    found += [label for label, changed in _fuller(deployment) if holds(changed).fits]
    return (*found, *_elsewhere(deployment, holds))


def narrower(d: Deployment) -> Iterator[tuple[str, Deployment]]:
    """One format made narrower, the other held where it was; what the asked-for units cannot multiply is skipped."""
    fp8 = d.hardware.has("fp8")
    eight, four = _formats(d)
    now = {"weights": d.numerics.weights, "kv": d.numerics.kv}
    for label, field, name in (
        ("16-bit weights (bf16)", "weights", "bf16"),
        (f"8-bit weights ({eight})", "weights", eight),
        (f"4-bit weights ({four})", "weights", four),
        ("8-bit KV cache", "kv", "fp8" if fp8 else "q8_0"),
    ):
        if format_named(name).bits >= 0.9 * now[field].bits:  # as narrow already, give or take its scales
            continue
        asked = {"activations": d.precision.activations, "head": d.precision.head}
        formats = {f: current.name for f, current in now.items()} | {field: name}
        with suppress(SpecError):
            yield label, replace(d, precision=Precision(**asked, **formats))


def _formats(d: Deployment) -> tuple[str, str]:
    """The usual formats of eight and four bits: of the engine, else of the chip."""
    if d.engine.kind == "llama.cpp":
        return "q8_0", "q4_k_m"
    if d.hardware.kind == "soc":
        return "mlx-8bit", "mlx-4bit"
    return "fp8" if d.hardware.has("fp8") else "int8", "awq"


def _wider(d: Deployment) -> Iterator[tuple[str, Deployment]]:
    """More chips by tensor parallelism, twice as many each time, as far as the model and the links allow."""
    tp = d.plan.tp * 2
    while tp * d.plan.pp * d.plan.dp * d.plan.cp <= MOST_CHIPS:
        with suppress(RooflineError):
            changed = replace(d, plan=d.plan.model_copy(update={"tp": tp}))
            yield f"tp {tp} ({changed.n_chips} chips)", changed
        tp *= 2


def _fuller(d: Deployment) -> Iterator[tuple[str, Deployment]]:
    """A larger share of the memory for the engine."""
    if d.engine.memory.fraction is not None and d.engine.memory.fraction < FULLER and not d.engine.memory.shares:
        label = f"--memory-fraction {FULLER}"
        yield label, replace(d, engine=d.engine.varied(memory_fraction=FULLER))


def _elsewhere(d: Deployment, holds: Callable[[Deployment], Memory]) -> Iterator[str]:
    """As many weights in host memory as make room, in whole hundredths: the fewest, for more of them only leave more."""
    if d.offload is not None:
        return

    def fits(percent: int) -> bool:
        return bool(holds(replace(d, offload=Offload(to="host", fraction=percent / 100.0))).fits)

    with suppress(RooflineError):
        host_tier(d)
        if fits(100):
            yield f"{bisect_left(range(100), True, key=fits)} % of the weights in host memory"
