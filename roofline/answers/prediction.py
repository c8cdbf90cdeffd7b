"""A whole request: TTFT, TPOT, end to end, speed and memory of a static batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from roofline.answers.chunks import first_token, hit_tokens
from roofline.answers.decoding import Decoding
from roofline.answers.drafters import Drafting, beside, draft_of
from roofline.answers.estimates import Edges, Rates, known_of, request_s
from roofline.answers.inputs import IMAGE_SIZE, Request, request
from roofline.answers.memory import Memory, memory
from roofline.answers.phases import asked_for, decode, how_of
from roofline.answers.records import evidence_of
from roofline.errors import SpecError, require, shown
from roofline.num import Num, as_num, checked, same, whole
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.timing.clock import Timing
from roofline.units import format_si
from roofline.work.step import MAX_TOKENS

if TYPE_CHECKING:
    from roofline.answers.speculation import Speculation

__all__ = ["Comparison", "Prediction", "again", "predict"]

MAX_OUTPUT_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Prediction(Edges, Rates):
    """One static batch from its prompts to its last tokens.

    `prefill` is the pass over the prompts, or all of them; `decode` the pass at the mean context, to place decode on the
    roofline (none for one output token): with drafts, the pass that verifies them, of the round in `speculation`.
    A drafting model reads the prompts too, `draft_prefill_s` after the first pass and before the first token is out.
    `prefix_tokens` of each prompt came from a prefix cache, `shared_tokens` begin every prompt and are held once.
    Times in seconds, rates per second; fields broadcast as the arguments did.
    """

    deployment: Deployment
    prompt_tokens: Num
    output_tokens: int
    batch: Num
    images: Any
    image_size: tuple[int, int]
    prefix_tokens: Num
    shared_tokens: Num
    request: Request
    prefill: Timing
    decode: Timing | None
    drafting: Drafting | None
    speculation: Speculation | None
    draft_prefill_s: Num
    ttft_s: Num
    ttft_floor_s: Num
    ttft_bound: Any
    tpot_s: Num | None
    tpot_floor_s: Num | None
    tpot_bound: Any
    e2e_s: Num
    e2e_floor_s: Num
    memory: Memory

    def step_work(self, quantity: str) -> Num:
        """A quantity of the clock ("flops", "hbm_bytes") of one chip, for a token of every sequence, at the mean context.

        That of the decode pass; with drafts, of a round of k drafts and the pass that verifies them, over its tokens.
        """
        moved: Num = 0.0 if self.decode is None else getattr(self.decode, quantity)
        s = self.speculation
        if s is None:
            return moved
        draft = draft_of(s.drafter, self.deployment)
        if draft is not None:
            one = decode(draft, context_tokens=s.context_tokens, batch=self.batch)
            moved = moved + s.n_drafts * getattr(one, quantity) * (draft.n_chips / self.deployment.n_chips)
        return moved / s.tokens_per_round

    def __repr__(self) -> str:
        if isinstance(self.e2e_s, np.ndarray):
            return f"Prediction(grid of {self.e2e_s.shape}, {self.deployment!r})"
        tpot = "none" if self.tpot_s is None else format_si(float(self.tpot_s), "s")
        times = f"TTFT {format_si(float(self.ttft_s), 's')}, TPOT {tpot}, E2E {format_si(float(self.e2e_s), 's')}"
        return f"Prediction({times}, {self.deployment!r})"

    @property
    def exceeds_context(self) -> Any:
        """Whether the positions of prompt and output (the last token takes none) are more than the model is made for."""
        exceeds = np.greater(self.longest_tokens, self.deployment.model.max_context_tokens)
        return exceeds if isinstance(self.longest_tokens, np.ndarray) else bool(exceeds)

    @property
    def longest_tokens(self) -> Num:
        """Positions the request takes: prompt, its images and the answer; of a source and its translation the longer."""
        answered = self.request.n_new + max(self.output_tokens - 1, 0)
        source = self.prompt_tokens if self.deployment.model.reads_a_source else 0.0
        return same(np.maximum(answered, source), self.prompt_tokens, answered)

    def to_dict(self) -> dict[str, Any]:
        """Flat, SI, unit in the key: the JSON of the command line."""
        d, t = self.deployment, self.decode
        return (
            {
                "model": d.model.id,
                "hardware": d.hardware.id,
                "n_chips": d.n_chips,
                "engine": d.engine.id,
                "evidence": evidence_of(d),
                "evidence_regime": known_of(d).regime,
                "notes": list(d.said()),
                "weights": d.numerics.weights_name,
                "kv": d.numerics.kv.name,
                "head": d.numerics.store("head").name,
                "activations": d.precision.activations,
                "compute_dtype": self.prefill.dtype,
                "assumed": list(d.model.assumed),
                "prompt_tokens": whole(self.prompt_tokens),
                "images": whole(self.request.n_images),
                "image_height": self.image_size[0],
                "image_width": self.image_size[1],
                "prefix_tokens": whole(self.prefix_tokens),
                "shared_tokens": whole(self.shared_tokens),
                "prefill_passes": whole(getattr(self.prefill, "n_passes", 1.0)),
                "decoder_tokens": whole(self.request.n_new),
                "memory_tokens": whole(self.request.n_memory),
                "output_tokens": self.output_tokens,
                "batch": whole(self.batch),
                "exceeds_context": self.exceeds_context,
                "ttft_s": self.ttft_s,
                "ttft_floor_s": self.ttft_floor_s,
                "ttft_bound": self.ttft_bound,
                "tpot_s": self.tpot_s,
                "tpot_floor_s": self.tpot_floor_s,
                "tpot_bound": self.tpot_bound,
                "e2e_s": self.e2e_s,
                "e2e_floor_s": self.e2e_floor_s,
                "tokens_per_s_per_user": self.tokens_per_s_per_user,
                "tokens_per_s": self.tokens_per_s,
                "tokens_per_s_per_chip": self.tokens_per_s_per_chip,
                "prefill_flops": self.prefill.flops,
                "prefill_hbm_bytes": self.prefill.hbm_bytes,
                "prefill_intensity": self.prefill.intensity,
                "prefill_mfu": self.prefill.mfu,
                "prefill_mbu": self.prefill.mbu,
                "decode_flops": None if t is None else t.flops,
                "decode_hbm_bytes": None if t is None else t.hbm_bytes,
                "decode_weight_bytes": None if t is None else t.total("weight_bytes"),
                "decode_weight_bytes_min": None if t is None else t.total("weight_bytes_min"),
                "decode_weight_bytes_max": None if t is None else t.total("weight_bytes_max"),
                "decode_intensity": None if t is None else t.intensity,
                "decode_mfu": None if t is None else t.mfu,
                "decode_mbu": None if t is None else t.mbu,
                "ridge": self.prefill.ridge,
            }
            | self.edges()
            | self._drafts()
            | self.memory.to_dict()
        )

    def _drafts(self) -> dict[str, Any]:
        s = self.speculation
        if s is None:
            return {"drafter": None}
        draft = s.drafter.deployment
        return {
            "drafter": s.drafter.kind,
            "draft_model": None if draft is None else draft.model.id,
            "draft_prefill_s": self.draft_prefill_s,
            "n_drafts": whole(s.n_drafts),
            "acceptance": s.acceptance,
            "tokens_per_round": s.tokens_per_round,
            "draft_s": s.draft_s,
            "verify_s": s.verify_s,
            "plain_tpot_s": s.plain_tpot_s,
        }

    def to_frame(self) -> Any:
        """One row a point, as a pandas DataFrame."""
        return _frame([self])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions of several deployments for one request, side by side."""

    predictions: tuple[Prediction, ...]

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.predictions)

    def __len__(self) -> int:
        return len(self.predictions)

    def __getitem__(self, index: int) -> Prediction:
        return self.predictions[index]

    def to_frame(self) -> Any:
        """One row a deployment, as a pandas DataFrame."""
        return _frame(self.predictions)


def _frame(predictions: Sequence[Prediction]) -> Any:
    import pandas as pd

    frames = []
    for prediction in predictions:
        given = prediction.to_dict()
        given |= {key: "; ".join(given[key]) for key in ("notes", "assumed")}
        row = {k: np.asarray(v, dtype=object if v is None else None) for k, v in given.items()}
        columns = np.broadcast_arrays(*row.values())
        frames.append(pd.DataFrame({k: c.ravel() for k, c in zip(row, columns, strict=True)}))
    return pd.concat(frames, ignore_index=True)


@overload
def predict(
    deployment: Deployment, *, prompt_tokens: Any, output_tokens: int, batch: Any = 1, images: Any = 0,
    image_size: tuple[int, int] = IMAGE_SIZE, prefix_tokens: Any = 0, shared_tokens: Any = 0,
    drafting: Drafting | None = None,
) -> Prediction: ...  # fmt: skip
@overload
def predict(
    deployment: Sequence[Deployment], *, prompt_tokens: Any, output_tokens: int, batch: Any = 1, images: Any = 0,
    image_size: tuple[int, int] = IMAGE_SIZE, prefix_tokens: Any = 0, shared_tokens: Any = 0,
    drafting: Drafting | None = None,
) -> Comparison: ...  # fmt: skip
def predict(
    deployment: Deployment | Sequence[Deployment],
    *,
    prompt_tokens: Any,
    output_tokens: int,
    batch: Any = 1,
    images: Any = 0,
    image_size: tuple[int, int] = IMAGE_SIZE,
    prefix_tokens: Any = 0,
    shared_tokens: Any = 0,
    drafting: Drafting | None = None,
) -> Prediction | Comparison:
    """TTFT, TPOT, end-to-end time, speed and memory of a static batch.

        TTFT = the passes over all prompts, towers included: one, or as many as the engine's token budget makes of them
        TPOT = (1 / (N − 1)) · Σ_{i = 0..N−2} decode pass at n_past = prompt + i
        E2E  = TTFT + (N − 1) · TPOT

    N output tokens are one prefill and N − 1 decode passes; with N = 1 there is no TPOT (none). This is TPOT as vLLM,
    SGLang and AIPerf define it, (latency − TTFT) / (N − 1).

    Parameters
    ----------
    deployment : Deployment, or a sequence of them
        A sequence gives a `Comparison`, side by side.
    prompt_tokens, batch : int or array
        Prompt of each sequence, and sequences [token, 1].
    output_tokens : int
        N, tokens generated for each [token]; 0 for an encoder, which generates none.
    images, image_size : int or array, (height, width)
        Images of each prompt, and their size [1, pixel]; their tokens count as prompt.
    prefix_tokens, shared_tokens : int or array
        Of each prompt, what a prefix cache has of it, and what all prompts begin with [token]: see `first_token`.
    drafting : Drafting, optional
        Speculative decoding: TPOT is then the mean of a round over the tokens it gives, over all contexts (`speculate`).

    Returns
    -------
    Prediction or Comparison
        "Does not fit" is part of the answer (`memory.fits`, `memory.short_by_bytes`), not an error.

    Notes
    -----
    Assumes one batch that starts and ends together, nothing queueing, decodes that wait for the last prompt.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> p = predict(d, prompt_tokens=2048, output_tokens=256, batch=8)
    >>> round(p.ttft_floor_s * 1e3), round(p.tpot_floor_s * 1e3, 2), p.memory.fits
    (240, 5.16, True)
    """
    asked: dict[str, Any] = {
        "prompt_tokens": prompt_tokens, "output_tokens": output_tokens, "batch": batch, "images": images,
        "image_size": image_size, "prefix_tokens": prefix_tokens, "shared_tokens": shared_tokens, "drafting": drafting,
    }  # fmt: skip
    if isinstance(deployment, Deployment):
        return _predict(deployment, **asked)
    members = tuple(deployment) if isinstance(deployment, (list, tuple)) else (deployment,)
    for member in members:
        require(member, Deployment, "predict(deployment)")
    if not members:
        raise SpecError("predict: expected at least one deployment, got an empty list")
    return Comparison(tuple(_predict(d, **asked) for d in members))


def _predict(
    deployment: Deployment, *, prompt_tokens: Any, output_tokens: int, batch: Any, images: Any,
    image_size: tuple[int, int], prefix_tokens: Any, shared_tokens: Any, drafting: Drafting | None,
) -> Prediction:  # fmt: skip
    """Of one deployment."""
    if drafting is not None and not isinstance(drafting, Drafting):
        raise SpecError(f"drafting: expected a Drafting(drafter=…, n_drafts=…, acceptance=…), got {shown(drafting)}")
    n_out = _n_output(output_tokens, deployment.model)
    given = asked_for(prompt_tokens=prompt_tokens, batch=batch)
    _room_to_grow(given["prompt_tokens"], n_out)
    prompt, n_seq = given["prompt_tokens"], given["batch"]
    asks = request(deployment.model, prompt_tokens=prompt, images=images, image_size=image_size)
    first = first_token(
        deployment, prompt_tokens=prompt, batch=n_seq, images=images, image_size=image_size,
        prefix_tokens=prefix_tokens, shared_tokens=shared_tokens,
    )  # fmt: skip
    hit = hit_tokens(deployment, n_new=asks.n_new, prefix_tokens=as_num(prefix_tokens))
    decoding = Decoding(deployment, asks, n_seq, as_num(shared_tokens), drafting, max(n_out - 1, 0))
    tpot, tpot_floor = decoding.means() if decoding.n_steps else (None, None)
    mean, round_ = decoding.at_the_mean() if decoding.n_steps else (None, None)
    n_steps = decoding.n_steps
    reading_s, reading_floor_s = decoding.draft_reading(hit, prompt_shared=as_num(shared_tokens))
    ttft_s = first.seconds + reading_s + request_s(deployment, how_of(deployment))
    return Prediction(
        deployment=deployment,
        prompt_tokens=prompt,
        output_tokens=n_out,
        batch=n_seq,
        images=images,
        image_size=image_size,
        prefix_tokens=hit,
        shared_tokens=as_num(shared_tokens),
        request=asks,
        prefill=first,
        decode=mean,
        drafting=drafting,
        speculation=round_,
        draft_prefill_s=reading_s,
        ttft_s=ttft_s,
        ttft_floor_s=first.floor_s + reading_floor_s,
        ttft_bound=first.bound,
        tpot_s=tpot,
        tpot_floor_s=tpot_floor,
        tpot_bound=None if mean is None else mean.bound,
        e2e_s=ttft_s + (n_steps * tpot if tpot is not None else 0.0),
        e2e_floor_s=first.floor_s + reading_floor_s + (n_steps * tpot_floor if tpot_floor is not None else 0.0),
        memory=memory(
            deployment, context_tokens=asks.n_new + n_steps, batch=n_seq, memory_tokens=decoding.memory_tokens,
            shared_tokens=shared_tokens, beside=None if drafting is None else beside(drafting.drafter, deployment),
        ),
    )  # fmt: skip


def again(prediction: Prediction, deployment: Deployment | None = None, **changes: Any) -> Prediction:
    """The same request of another deployment, or a changed request.

    >>> from roofline.specs.catalog import hardware, model
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=hardware("h100-sxm-80gb"))
    >>> again(predict(d, prompt_tokens=512, output_tokens=8), batch=4).batch
    4.0
    """
    p = prediction
    asked = {
        name: getattr(p, name)
        for name in (
            "prompt_tokens", "output_tokens", "batch", "images", "image_size", "prefix_tokens", "shared_tokens", "drafting"
        )
    }  # fmt: skip
    return predict(deployment or p.deployment, **asked | changes)


def _n_output(value: Any, model: Model) -> int:
    if not model.generates:
        if value != 0 or isinstance(value, bool):
            raise SpecError(f"output_tokens: {model.id} is an encoder and generates none; use 0, got {shown(value)}")
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise SpecError(f"output_tokens: expected a whole number, got {shown(value)}")
    if not 1 <= value <= MAX_OUTPUT_TOKENS:
        raise SpecError(f"output_tokens: expected 1 to {MAX_OUTPUT_TOKENS:,}, got {shown(value)}")
    return int(value)


def _room_to_grow(prompt: Num, n_out: int) -> None:
    checked(prompt, name="prompt_tokens", low=1.0, high=MAX_TOKENS - n_out)
