"""What figures say: titles that are findings, second lines that name the subject, alt text. All from the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofline.answers.records import evidence_of
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.specs.precision import run_dtype
from roofline.units import format_bytes, format_si
from roofline.views.plot.latency_points import ContextLine, TpotLines, TtftCurve
from roofline.views.plot.lettering import pick, sig, times
from roofline.views.plot.roof_points import Path, Roof

__all__ = [
    "TRUST",
    "footer",
    "intensity_name",
    "latency_title",
    "panel_titles",
    "roof_alt",
    "roof_title",
    "roofs_subject",
    "roofs_title",
    "sentence",
    "subject",
    "tpot_alt",
    "tpot_title",
    "trust_of",
    "ttft_alt",
    "ttft_title",
]

TRUST = "ideal machine, uncalibrated"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def trust_of(*deployments: Deployment) -> str:
    """What stands behind the times of a figure."""
    said = dict.fromkeys(
        TRUST if d.engine.id == "ideal" and d.efficiency is None else evidence_of(d) for d in deployments
    )
    return "; ".join(said)


def footer(trust: str = TRUST) -> str:
    """Version, and what evidence stands behind the figure."""
    from roofline import __version__

    return f"roofline {__version__} · {trust}"


def subject(deployment: Deployment, shape: str, short_by_bytes: float = 0.0) -> str:
    """Model, hardware, formats, shape; and by how much it does not fit."""
    d = deployment
    who = f"{d.model.id} on {d.n_chips} × {d.hardware.id}"
    return " · ".join(part for part in (who, formats(d), shape, machinery(d), fit(short_by_bytes)) if part)


def machinery(deployment: Deployment) -> str:
    """The engine, and what is offloaded; nothing of the machine itself."""
    engine, offload = deployment.engine, deployment.offload
    said = [engine.name] if engine.id != "ideal" else []
    if offload is not None:
        said.append(f"{100 * offload.fraction:.0f} % of the {offload.what} on {offload.to}")
    return ", ".join(said)


def fit(short_by_bytes: float) -> str:
    """Nothing where it fits."""
    return f"does not fit, {format_bytes(short_by_bytes)} over" if short_by_bytes > 0.0 else ""


def formats(deployment: Deployment) -> str:
    """Formats of weights and cache, and the dtype of the arithmetic where the chip runs another."""
    numerics = deployment.numerics
    weights, kv = numerics.weights_name, numerics.kv.name
    wanted = numerics.compute("q")
    used = run_dtype(wanted, deployment.hardware)
    said = f", computed in {used}" if used != wanted else ""
    return (f"{weights} weights and KV" if weights == kv else f"{weights} weights, {kv} KV") + said


def bound_as(bound: str) -> str:
    """What binds, as a word before a noun; what is offloaded binds through another memory.

    >>> bound_as("memory"), bound_as("tier")
    ('memory-bound', 'offload-bound')
    """
    return f"{'offload' if bound == 'tier' else bound}-bound"


def memory_word(chip: Hardware) -> str:
    """What the device memory is called on an axis: HBM where it is HBM."""
    return "HBM" if chip.memory.type.upper().startswith("HBM") else "memory"


def intensity_name(roofs: Sequence[Roof]) -> str:
    """The x axis of a roofline."""
    words = {memory_word(roof.deployment.hardware) for roof in roofs}
    return f"Arithmetic intensity (FLOP per byte of {words.pop() if len(words) == 1 else 'memory'} traffic)"


# the roofline


def roof_title(roof: Roof) -> str:
    """The finding: which resource binds the phase that matters, and by how much."""
    path = _lead(roof)
    point, ridge = path.asked, roof.ridge
    head = f"{path.phase.capitalize()} is {bound_as(point.bound)} on {roof.deployment.hardware.id}"
    numbers = f"{sig(point.intensity)} FLOP/B, ridge {sig(ridge)}"
    return pick(f"{head}: {numbers}{_by(point.bound, point.intensity, ridge)}", f"{head}: {numbers}", head)


def _lead(roof: Roof) -> Path:
    return roof.path("decode") or roof.paths[0]


def _by(bound: str, intensity: float, ridge: float) -> str:
    """How far from the ridge, where that is what the bound is about."""
    if bound == "memory" and intensity < ridge:
        return f" ({times(ridge / intensity)})"
    if bound == "compute" and intensity > ridge:
        return f" ({times(intensity / ridge)} past)"
    return ""


_PARTS: tuple[Callable[[Roof], str], ...] = (
    lambda roof: roof.deployment.hardware.id,
    lambda roof: roof.deployment.model.id,
    lambda roof: formats(roof.deployment),
    lambda roof: roof.request.said,
    lambda roof: fit(roof.short_by_bytes),
)


def panel_titles(roofs: Sequence[Roof]) -> list[str]:
    """The finding of each of several panels: what sets it apart, and what binds."""
    apart = [part for part in _PARTS if len({part(r) for r in roofs}) > 1] or [_PARTS[0]]
    titles = []
    for roof in roofs:
        path = _lead(roof)
        by = _by(path.asked.bound, path.asked.intensity, roof.ridge)
        titles.append(
            f"{', '.join(filter(None, (part(roof) for part in apart)))}: {path.phase} {bound_as(path.asked.bound)}{by}"
        )
    return titles


def roofs_title(roofs: Sequence[Roof]) -> str:
    """The finding across panels."""
    paths = [_lead(r) for r in roofs]
    bounds, phases = {p.asked.bound for p in paths}, {p.phase for p in paths}
    what = "chips" if len({r.deployment.hardware.id for r in roofs}) == len(roofs) else "deployments"
    every = "both" if len(roofs) == 2 else f"all {len(roofs)}"
    if len(bounds) == len(phases) == 1:
        head = f"{phases.pop().capitalize()} is {bound_as(bounds.pop())} on {every} {what}"
    else:
        n_memory = sum(p.asked.bound == "memory" for p in paths)
        head = f"Memory binds on {n_memory} of {len(roofs)} {what}"
    intensities, ridges = [p.asked.intensity for p in paths], [r.ridge for r in roofs]
    told = f"{head}: {_span(intensities)} FLOP/B"
    return pick(f"{told}, ridge {_span(ridges)}", told, head)


def _span(values: list[float]) -> str:
    low, high = sig(min(values)), sig(max(values))
    return low if low == high else f"{low} to {high}"


def roofs_subject(roofs: Sequence[Roof]) -> str:
    """What all panels have in common."""
    return " · ".join(part(roofs[0]) for part in _PARTS if len({part(r) for r in roofs}) == 1 and part(roofs[0]))


def roof_alt(roof: Roof) -> str:
    """A paragraph that says what the figure shows."""
    d, chip = roof.deployment, roof.deployment.hardware
    top = roof.ceilings[0]
    said = [
        f"Roofline of {d.model.id} on {d.n_chips} × {chip.id}, {formats(d)}; {roof.request.said}. Log-log, arithmetic "
        f"intensity against throughput. The roof rises with {format_si(roof.bytes_per_s, 'B/s')} of {memory_word(chip)} "
        f"bandwidth to {format_si(top.flops_per_s, 'FLOP/s')} ({'/'.join(top.dtypes)}) and bends at the ridge, "
        f"{sig(top.ridge)} FLOP/B."
    ]
    said += [_path_alt(path) for path in roof.paths]
    said += [
        f"Measured: {s.label}, {sig(s.intensity)} FLOP/B at {format_si(s.flops_per_s, 'FLOP/s')}, "
        f"{100.0 * s.flops_per_s / roof.at(s.intensity):.0f} % of the roof."
        for s in roof.measured
    ]
    return " ".join([*said, sentence(trust_of(d))])


def _path_alt(path: Path) -> str:
    p, first, last = path.asked, path.points[0], path.points[-1]
    said = (
        f"{path.phase.capitalize()} at {path.swept} {p.value:.0f} is {bound_as(p.bound)}: {sig(p.intensity)} FLOP/B, "
        f"{format_si(p.flops_per_s, 'FLOP/s')}"
    )
    if first is not last:
        said += (
            f"; from {path.swept} {first.value:.0f} to {last.value:.0f} it moves from {sig(first.intensity)} to "
            f"{sig(last.intensity)} FLOP/B"
        )
    if path.limit is not None:
        said += f"; no batch at this context passes {sig(path.limit)} FLOP/B"
    return said + "."


# latency


def latency_title(ttft: TtftCurve, tpot: TpotLines) -> str:
    """The answer for the point asked about."""
    d = ttft.deployment
    if tpot.lines[0].full_at < tpot.asked:
        return pick(f"{d.model.id} does not fit on {d.hardware.id} at batch {tpot.asked:.0f}", "Does not fit")
    answer = f"first token after {format_si(ttft.asked_s, 's')}, then one every {format_si(tpot.asked_s, 's')}"
    return pick(
        f"{d.model.id} on {d.hardware.id}: {answer}", f"{d.hardware.id}: {answer}", f"{answer[0].upper()}{answer[1:]}"
    )


def ttft_title(curve: TtftCurve) -> str:
    """Where prefill turns from waiting for memory to waiting for arithmetic."""
    if curve.knee is None:
        return f"Prefill is {bound_as(str(curve.bound[0]))} up to {curve.prompts[-1]:,.0f} prompt tokens"
    if curve.knee <= 1.0:
        return "Prefill is compute-bound at any prompt length"
    each = " each" if curve.batch > 1.0 else ""
    return f"Prefill turns compute-bound at {curve.knee:,.0f} prompt tokens{each}"


def tpot_title(tpot: TpotLines) -> str:
    """What the whole memory costs: from one sequence to as many as fit."""
    line = tpot.lines[0]
    if line.full_at < 1.0:
        return does_not_fit(tpot.deployment, line)
    first, last = format_si(float(line.seconds[0]), "s"), format_si(_at_full(line), "s")
    if line.full_at == 1.0:
        return f"TPOT is {first}, and one sequence is all that fits"
    return f"TPOT goes from {first} alone to {last} at batch {line.full_at:,.0f}, all that fits"


def _at_full(line: ContextLine) -> float:
    return float(line.seconds[line.batches <= line.full_at][-1])


def does_not_fit(deployment: Deployment, line: ContextLine) -> str:
    """By how much one sequence overruns the memory."""
    from roofline.answers.memory import memory

    short = memory(deployment, context_tokens=line.context, batch=1.0).short_by_bytes
    return f"Does not fit: {format_bytes(float(short))} over for one sequence of {line.context:,.0f}"


def ttft_alt(curve: TtftCurve) -> str:
    """A paragraph that says what the TTFT panel shows."""
    return (
        f"Time to first token against prompt length, log-log, batch {curve.batch:.0f}, from "
        f"{format_si(float(curve.seconds[0]), 's')} at {curve.prompts[0]:,.0f} tokens to "
        f"{format_si(float(curve.seconds[-1]), 's')} at {curve.prompts[-1]:,.0f}; "
        f"{format_si(curve.asked_s, 's')} at {curve.asked:,.0f}. {ttft_title(curve)}. {sentence(trust_of(curve.deployment))}"
    )


def tpot_alt(tpot: TpotLines) -> str:
    """A paragraph that says what the TPOT panel shows."""
    full = "; ".join(f"context {line.context:,.0f} is full at batch {line.full_at:,.0f}" for line in tpot.lines)
    return (
        f"Time per output token against batch, one line a context; {full}. {tpot_title(tpot)}. At batch "
        f"{tpot.asked:.0f} a token takes {format_si(tpot.asked_s, 's')}. "
        f"{sentence(trust_of(tpot.deployment))}"
    )
