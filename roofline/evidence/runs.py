"""What a benchmark measured, in one form whichever tool wrote it: SI units, one definition a quantity, gaps said.

`tpot_s` is (latency − TTFT)/(N − 1), the mean gap after the first token; tools that divide the whole latency by N are
converted where the file allows it and refused where it does not. None is "not measured", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Load", "Log", "Run", "Statistic", "Tool"]

Load = Literal["static", "closed-loop", "open-loop"]
Statistic = Literal["median", "mean"]
Tool = Literal["vllm bench serve", "sglang bench_serving", "aiperf", "llama-bench", "inferencex", "csv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured run.

    Parameters
    ----------
    tool, where : str
        Which format it was read from; file and line, as messages name them.
    model, hardware : str or None
        As the file spells them; no catalogue was asked.
    engine : str or None
        One of ours: vllm, sglang, trtllm, llama.cpp, mlx, gpt-fast.
    n_chips, tp, pp, ep : int or None
        Chips in all, and ways of tensor, pipeline and expert parallelism [1].
    weights, kv : str or None
        Number formats, by the names of `roofline.dtypes`.
    load : str
        "static": `batch` sequences start together. "closed-loop": `batch` users, each asks again when answered.
        "open-loop": requests arrive at `rate_per_s`; `batch` is then the cap on those in flight, if there was one.
    batch, rate_per_s : float or None
        Sequences or users [1]; requests [1/s].
    prompt_tokens, past_tokens, output_tokens : float or None
        Mean a request [token]. `past_tokens` were cached before the prompt. Without a prompt (a decode test),
        `output_tokens` counts decode passes; with one, the prompt's own pass gives the first of them.
    ttft_s, tpot_s, e2e_s : float or None
        First token, mean gap after it, whole request [s]; the `statistic` over requests.
    output_tokens_per_s, total_tokens_per_s, request_per_s : float or None
        Of the whole deployment [1/s].
    percentiles : mapping
        Such as {"ttft_p99_s": 0.031}; "itl" is a single gap.
    statistic : str
        "median" where every latency has one, else "mean".
    model_bytes, model_params : float or None
        Size of the weights [B] and their number [1], where the tool says.
    doubtful : tuple of str
        Fields of this record that contradict others of the file: to be shown, not to be fitted to.
    ignored, warnings : tuple of str
        Keys that were there and not used; what looks wrong, each with its place.
    """

    tool: Tool
    where: str
    load: Load
    model: str | None = None
    hardware: str | None = None
    engine: str | None = None
    n_chips: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    weights: str | None = None
    kv: str | None = None
    batch: float | None = None
    rate_per_s: float | None = None
    prompt_tokens: float | None = None
    past_tokens: float | None = None
    output_tokens: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    request_per_s: float | None = None
    percentiles: Mapping[str, float] = field(default_factory=dict, hash=False)
    statistic: Statistic = "mean"
    model_bytes: float | None = None
    model_params: float | None = None
    doubtful: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def n_decodes(self) -> float | None:
        """Decode passes of a request [1]: N − 1 after a prompt, N where no prompt was run."""
        if self.output_tokens is None:
            return None
        return self.output_tokens - 1.0 if self.prompt_tokens else self.output_tokens

    @property
    def context_tokens(self) -> float | None:
        """Tokens cached at a decode pass, mean over the passes [token]:  past + prompt + (passes − 1)/2.

        None where nothing was decoded.
        """
        if self.tpot_s is None and self.output_tokens is None:
            return None
        if self.prompt_tokens is None and self.past_tokens is None:
            return None
        at_first = (self.past_tokens or 0.0) + (self.prompt_tokens or 0.0)
        return at_first + max((self.n_decodes or 1.0) - 1.0, 0.0) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What an engine's log says of its memory.

    Bytes are of one chip where each rank logs its own (vLLM, SGLang, TensorRT-LLM), and of all devices where one process
    holds them (llama.cpp). "GB" in the logs of vLLM and SGLang is GiB.

    Parameters
    ----------
    where, engine : str
        File; one of vllm, sglang, trtllm, llama.cpp.
    weight_bytes, kv_bytes, compute_buffer_bytes, state_bytes : float or None
        Weights, KV cache, scratch of a pass, recurrent states [B].
    kv_tokens, n_blocks : float or None
        Tokens the cache holds [token]; its blocks [1].
    max_concurrency, context_tokens_of_concurrency : float or None
        Requests of so many tokens that fit at once [1, token].
    warnings : tuple of str
        Where the log says one thing in several ways.
    """

    where: str
    engine: str
    weight_bytes: float | None = None
    kv_bytes: float | None = None
    kv_tokens: float | None = None
    max_concurrency: float | None = None
    context_tokens_of_concurrency: float | None = None
    compute_buffer_bytes: float | None = None
    n_blocks: float | None = None
    state_bytes: float | None = None
    warnings: tuple[str, ...] = ()
