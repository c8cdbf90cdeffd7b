"""Every lever on one request, each turned by itself against the same baseline: what it buys in bytes, TTFT and TPOT.

A lever is a change to a deployment or to a request, and its row is the prediction with that change: never a rule of thumb.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from roofline.answers.chunks import Passes
from roofline.answers.cost import of_prediction
from roofline.answers.disaggregation import split
from roofline.answers.drafters import Drafter, Drafting
from roofline.answers.eager import without_flash
from roofline.answers.fitting import narrower
from roofline.answers.ladder import as_mha
from roofline.answers.phases import decode
from roofline.answers.prediction import Prediction, again
from roofline.answers.records import as_frame
from roofline.errors import RooflineError, SpecError
from roofline.specs.mixers import Latent
from roofline.specs.offload import Offload

__all__ = ["LeverRow", "Subject", "lever_table"]

Subject: TypeAlias = Literal["now", "model", "formats", "cache", "batching", "chips", "memory", "drafts", "kernels"]

CHUNK = 2048
MANY = 8.0
WIDER = (2, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverRow:
    """One lever turned by itself.

    Attributes
    ----------
    lever, subject : str
        What was changed; what it is about.
    assumes : str
        What the row takes for granted, such as an acceptance; empty where nothing is.
    n_chips : int
    bytes_per_token : float or None
        What all chips together stream for one output token of one sequence, weights shared by the batch [B].
    resident_bytes : float
        What all chips together set aside for the request: weights, cache in whole pages, what the engine reserves [B].
    ttft_s, tpot_s : float, float or None
        [s].
    served_tokens_per_s_per_chip : float
        Output tokens of the batch over its whole time, prefill included, and over all chips [1/s].
    max_batch : float
        Sequences of this context that fit [1].
    fits : bool
    """

    lever: str
    subject: Subject
    assumes: str = ""
    n_chips: int
    bytes_per_token: float | None
    resident_bytes: float
    ttft_s: float
    tpot_s: float | None
    served_tokens_per_s_per_chip: float
    max_batch: float
    fits: bool

    @property
    def figures(self) -> tuple[Any, ...]:
        """All that a lever may move."""
        return tuple(getattr(self, name) for name in self.__slots__ if name not in ("lever", "subject", "assumes"))

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key; `max_batch` is none where nothing is kept."""
        said = {name: getattr(self, name) for name in self.__slots__}
        return said | {"max_batch": None if np.isinf(self.max_batch) else int(self.max_batch)}

    def to_frame(self) -> Any:
        """One row, as a pandas DataFrame."""
        return as_frame(self.to_dict())


def lever_table(prediction: Prediction) -> tuple[LeverRow, ...]:
    """The baseline, then one row a lever that this model and chip have; those that cannot be turned, or move nothing, are
    left out.

    | lever                 | what it attacks                                       |
    |-----------------------|-------------------------------------------------------|
    | as if MHA             | what fewer KV heads, or a latent, already buy         |
    | weight formats        | weights read for each token                           |
    | cache format          | cache read for each token                             |
    | whole reservations    | what pages buy: room for sequences                    |
    | prefix hit            | prompt tokens computed again                          |
    | chunks                | how long decodes wait beside a prompt                 |
    | batch                 | weights read for each token, shared                   |
    | tp, dp with ep        | bytes a chip reads; for a latent also its copies      |
    | offload               | room, paid for with link time                         |
    | split                 | prompts that hold up decodes                          |
    | drafts                | passes for each token                                 |
    | eager attention       | what a fused kernel buys: scores that never move      |

    Parameters
    ----------
    prediction : Prediction
        The baseline, of one request shape.

    Examples
    --------
    >>> from roofline.answers.prediction import predict
    >>> from roofline.specs.catalog import hardware, model
    >>> from roofline.specs.deployment import Deployment
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> rows = {row.lever: row for row in lever_table(predict(d, prompt_tokens=2048, output_tokens=256, batch=8))}
    >>> round(rows["as if MHA"].bytes_per_token / rows["baseline"].bytes_per_token, 2)
    1.49
    """
    of_prediction(prediction, "lever_table")
    if isinstance(prediction.e2e_s, np.ndarray):
        raise SpecError("levers: expected the prediction of one request shape, got a grid")
    rows = [_row("baseline", "now", prediction)]
    for made in (_model, _formats, _cache, _batching, _chips, _offload, _split, _drafts, _kernels):
        rows.extend(row for row in made(prediction) if row.figures != rows[0].figures)
    return tuple(rows)


def _row(lever: str, subject: Subject, p: Prediction, *, assumes: str = "", **other: Any) -> LeverRow:
    d, held, n_chips = p.deployment, p.memory, p.deployment.n_chips
    found: dict[str, Any] = {
        "lever": lever,
        "subject": subject,
        "assumes": assumes,
        "n_chips": n_chips,
        "bytes_per_token": None if p.decode is None else float(p.step_work("hbm_bytes")) * n_chips / float(p.batch),
        "resident_bytes": float(held.allocated_bytes_per_chip) * n_chips,
        "ttft_s": float(p.ttft_s),
        "tpot_s": None if p.tpot_s is None else float(p.tpot_s),
        "served_tokens_per_s_per_chip": float(p.batch) * p.output_tokens / float(p.e2e_s) / d.n_chips,
        "max_batch": float(held.max_batch),
        "fits": bool(held.fits),
    }
    return LeverRow(**found | other)


def _model(p: Prediction) -> Iterator[LeverRow]:
    full = as_mha(p.deployment.model)
    if full != p.deployment.model:
        yield _row("as if MHA", "model", again(p, replace(p.deployment, model=full)))


def _formats(p: Prediction) -> Iterator[LeverRow]:
    for label, changed in narrower(p.deployment):
        yield _row(label, "formats", again(p, changed))


def _cache(p: Prediction) -> Iterator[LeverRow]:
    d, model = p.deployment, p.deployment.model
    if not model.generates or model.reads_a_source:
        return
    if not d.engine.pages.contiguous:
        longest = max(model.max_context_tokens, int(p.longest_tokens))
        whole = replace(d, engine=d.engine.varied(page_tokens=longest))
        yield _row("whole contexts reserved, no pages", "cache", again(p, whole, prefix_tokens=0))
    half = float(np.floor(np.minimum(p.prompt_tokens, p.request.n_new) / 2.0))
    if half > p.prefix_tokens:
        yield _row("half of the prompt in a prefix cache", "cache", again(p, prefix_tokens=half))


def _batching(p: Prediction) -> Iterator[LeverRow]:
    most = min(MANY * float(p.batch), float(p.memory.max_batch))
    if most > p.batch:
        yield _row(f"batch {most:,.0f}", "batching", again(p, batch=most))
    if p.request.n_new * p.batch > CHUNK and p.deployment.model.generates:
        cut = replace(p.deployment, engine=p.deployment.engine.varied(batch_tokens=CHUNK))
        with suppress(RooflineError):  # too many passes
            yield _row(f"prompts in chunks of {CHUNK:,}", "batching", again(p, cut))


def _chips(p: Prediction) -> Iterator[LeverRow]:
    d, plan = p.deployment, p.deployment.plan
    mixers = [mixer for _, layer in d.model.layer_kinds() for mixer in layer.mixers]
    plans = [(f"tp {plan.tp * n}", {"tp": plan.tp * n}) for n in WIDER]
    if plan.n_chips == 1 and any(isinstance(mixer, Latent) for mixer in mixers):
        plans += [(f"dp {n} for attention, ep {n}", {"dp": n, "ep": n}) for n in WIDER]
    for label, ways in plans:
        with suppress(RooflineError):
            yield _row(label, "chips", again(p, replace(d, plan=plan.model_copy(update=ways))))


def _offload(p: Prediction) -> Iterator[LeverRow]:
    d = p.deployment
    if d.offload is not None:
        return
    ways = [("half of the weights in host memory", Offload(to="host", fraction=0.5))]
    if d.model.n_active_params != d.model.n_params:
        ways.append(("all experts in host memory", Offload(to="host", fraction=1.0, what="experts")))
    if d.model.generates:
        ways.append(("half of the KV cache in host memory", Offload(to="host", fraction=0.5, what="kv")))
    for label, way in ways:
        with suppress(RooflineError):
            yield _row(label, "memory", again(p, replace(d, offload=way)))


def _split(p: Prediction) -> Iterator[LeverRow]:
    """Two pools of the same chips, as many of each as keep both busy."""
    d = p.deployment
    if p.output_tokens < 2 or d.model.reads_a_source or p.images or p.shared_tokens:
        return
    with suppress(RooflineError):
        pools = split(
            prefill=d, decode=d, prompt_tokens=p.prompt_tokens, output_tokens=p.output_tokens, decode_batch=p.batch,
            prefix_tokens=p.prefix_tokens, drafting=p.drafting,
        )  # fmt: skip
        ratio = float(pools.prefill_per_decode)
        served = float(pools.decode_requests_per_s) * p.output_tokens / (d.n_chips * (1.0 + ratio))
        held = sum(float(pool.memory.allocated_bytes_per_chip) for pool in (pools.prefill, pools.decode))
        yield _row(
            "prefill on chips of its own", "chips", pools.decode, ttft_s=float(pools.ttft_s), n_chips=2 * d.n_chips,
            served_tokens_per_s_per_chip=served, assumes=f"one prompt alone; {ratio:.2g} prefill replicas to a decode one",
            resident_bytes=held * d.n_chips, fits=bool(pools.fits),
        )  # fmt: skip


def _drafts(p: Prediction) -> Iterator[LeverRow]:
    if p.decode is None or p.drafting is not None or p.deployment.model.reads_a_source or p.images:
        return
    ways = [("4 drafts from the prompt (n-gram)", Drafting(drafter=Drafter(kind="ngram"), n_drafts=4, acceptance=0.5))]
    if p.deployment.model.mtp is not None:
        module = Drafting(drafter=Drafter(kind="mtp"), n_drafts=1, acceptance=0.8)
        ways.append(("1 draft by its own module (mtp)", module))
    for label, drafting in ways:
        with suppress(RooflineError):
            assumed = f"{100 * drafting.acceptance:.0f} % accepted"
            yield _row(label, "drafts", again(p, drafting=drafting), assumes=assumed)


def _kernels(p: Prediction) -> Iterator[LeverRow]:
    """Attention whose scores go through memory, in place of a fused kernel."""
    d, step = p.deployment, p.decode
    if step is None or p.drafting is not None or d.model.towers or d.offload is not None:
        return
    if p.prefix_tokens or p.shared_tokens:
        return
    with suppress(RooflineError):
        first = without_flash(d, prompt_tokens=p.prompt_tokens, batch=p.batch)
        context = float(p.request.n_new) + (p.output_tokens - 2) / 2.0
        eager = decode(d, context_tokens=context, batch=p.batch, attention="eager")
        ttft_s, tpot_s = float(first.eager_prefill_s), float(eager.seconds)
        e2e_s = ttft_s + (p.output_tokens - 1) * tpot_s
        yield _row(
            "without FlashAttention (eager)", "kernels", p, ttft_s=ttft_s, tpot_s=tpot_s,
            bytes_per_token=float(eager.hbm_bytes) * d.n_chips / float(p.batch),
            served_tokens_per_s_per_chip=float(p.batch) * p.output_tokens / e2e_s / d.n_chips,
            assumes="prompts in one pass" if isinstance(p.prefill, Passes) else "",
        )  # fmt: skip
