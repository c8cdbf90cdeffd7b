"""An inference engine's habits as data: what share of the memory it takes, how it cuts the cache, what it sets aside.

None of it is a property of a model or a chip, all of it changes with a version; a YAML file in `roofline/engines/` is one
engine as one version ships it, every value with a source, and those that are estimates named in `priors`:

    id: vllm
    name: vLLM
    version: 0.33.0
    memory: {fraction_of: total, fraction: 0.92, context: 0.25 GiB}
    pages: {tokens: 16, windows: groups, in_flight: 2}
    scheduler:
      - {below: 70 GiB, batch_tokens: 2048, max_seqs: 256}
      - {batch_tokens: 8192, max_seqs: 1024}
    sources:
      memory.fraction: vllm/config/cache.py, gpu_memory_utilization
"""

import math
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from roofline.errors import SpecError, did_you_mean, shown
from roofline.num import checked
from roofline.specs.hardware import Id
from roofline.specs.record import Bytes, Names, Record

__all__ = ["IDEAL_ENGINE", "Activations", "Engine", "EngineMemory", "Headroom", "Kernels", "Paging", "Share", "Tier"]

Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
Tokens = Annotated[int, Field(ge=1, le=2**40)]
ENDLESS = 2**40
"""More tokens, or sequences, than any pass has: a scheduler that limits nothing."""


class Share(Record):
    """The share of a memory of at most `up_to` bytes."""

    up_to_bytes: Bytes = Field(alias="up_to")
    fraction: Fraction


class Headroom(Record):
    """What is left outside a static pool, of which the fraction is made (SGLang):

    fixed + per_token · tokens of a pass + per_graph_seq · sequences of the largest graph + per_chip · chips
    + per_graph · graphs of prompts, and no less than `least` on a chip of more than `least_above`.
    """

    fixed_bytes: Bytes = Field(alias="fixed")
    token_bytes: Bytes = Field(alias="per_token")
    graph_seq_bytes: Bytes = Field(alias="per_graph_seq")
    chip_bytes: Bytes = Field(alias="per_chip")
    graph_bytes: Bytes = Field(alias="per_graph")
    least_bytes: Bytes = Field(alias="least")
    least_above_bytes: Bytes = Field(alias="least_above")

    def bytes_of(self, total_bytes: float, *, tier: "Tier", n_chips: int = 1) -> float:
        """The headroom on a chip of `total_bytes` [B]."""
        asked = self.fixed_bytes + self.token_bytes * tier.batch_tokens + self.chip_bytes * n_chips
        asked += self.graph_seq_bytes * tier.graph_seqs + self.graph_bytes * tier.prompt_graphs
        return max(asked, self.least_bytes) if total_bytes > self.least_above_bytes else asked


class EngineMemory(Record):
    """The share of a chip's memory that an engine takes, and what it is a share of.

    `fraction_of`

    | total  | of all the chip's memory: weights, activations, runtime and cache share it (vLLM)                |
    | free   | of what is free once weights and activations are there: the cache alone (TensorRT-LLM)            |
    | static | of what is free at the start: weights and cache; activations and graphs live outside (SGLang)     |
    | wired  | of a unified memory: what the system lets the GPU wire; weights, activations, cache share it (MLX) |
    | none   | nothing is taken beyond what is asked for: all of it may be (llama.cpp)                           |

    The fraction itself is a number, or by size of memory (`shares`), or what a `headroom` leaves; `wired_shares`: on a Mac,
    where the system limits what a GPU may wire, in place of an engine's own. `context`: what the
    runtime takes on a chip by itself (CUDA context, libraries), `sharded_context` with collectives besides; `graphs`:
    captured graphs; `driver`: what the driver keeps of the memory it prints.
    """

    fraction_of: Literal["total", "free", "static", "wired", "none"]
    fraction: Fraction | None = None
    shares: Annotated[tuple[Share, ...], Field(strict=False)] = ()
    headroom: Headroom | None = None
    wired_shares: Annotated[tuple[Share, ...], Field(strict=False)] = ()
    context_bytes: Bytes = Field(default=0.0, alias="context")
    sharded_context_bytes: Bytes | None = Field(default=None, alias="sharded_context")
    graph_bytes: Bytes = Field(default=0.0, alias="graphs")
    driver_bytes: Bytes = Field(default=0.0, alias="driver")

    @model_validator(mode="after")
    def _one_fraction(self) -> Self:
        given = [self.fraction is not None, bool(self.shares), self.headroom is not None]
        if sum(given) != 1:
            raise SpecError("memory: expected one of fraction, shares and headroom; keep the one this engine goes by")
        for name in ("shares", "wired_shares"):
            sizes = [share.up_to_bytes for share in getattr(self, name)]
            if sizes != sorted(set(sizes)):
                raise SpecError(f"memory.{name}: expected sizes that rise; put them in order")
        return self


class Paging(Record):
    """How the cache is cut into pages.

    `tokens` of a page: every sequence holds whole pages. `contiguous`: no pages; a sequence's longest context is reserved
    at the start, rounded up to `tokens`. `windows` says what layers with a sliding window keep:

    | allocated | every token, as full layers do                                                                   |
    | window    | the last W tokens, and `in_flight` passes of tokens shared by all sequences                      |
    | groups    | as many layers to a group as the scarcer kind has; groups draw equal blocks from one pool, and a  |
    |           | sequence's window holds W − 1 tokens and `in_flight` passes, and a page (vLLM)                    |
    | pool      | a pool of their own, `pool_ratio` as many tokens as the full layers' (SGLang)                     |

    `state_pages`: pages that a sequence holds for each group of recurrent layers, one of them live.
    """

    tokens: Tokens
    windows: Literal["allocated", "window", "groups", "pool"]
    contiguous: bool = False
    in_flight: Annotated[int, Field(ge=0, le=1024)] = 0
    pool_ratio: Fraction = 1.0
    state_pages: Annotated[int, Field(ge=1, le=1024)] = 1


class Activations(Record):
    """What an engine keeps live in a pass.

    `element_bytes`: of one activation, where it is not the model's. `logit_bytes`: of one sequence's one vocabulary entry
    while it samples, all copies together. `expert_tokens`: tokens a fused expert kernel takes at once, where limited.
    """

    element_bytes: Annotated[float, Field(gt=0.0, le=16.0)] | None = None
    logit_bytes: Annotated[float, Field(ge=0.0, le=1024.0)]
    expert_tokens: Tokens | None = None


class Tier(Record):
    """Scheduler defaults on a chip of less than `below` bytes; the last tier has no limit.

    `batch_tokens` of one pass, which prompts are cut into; `max_seqs` that decode together; `graph_seqs` of the largest
    captured graph, `prompt_graphs` captured for prompts.
    """

    below_bytes: Bytes | None = Field(default=None, alias="below")
    batch_tokens: Tokens
    max_seqs: Tokens
    graph_seqs: Annotated[int, Field(ge=0, le=2**20)] = 0
    prompt_graphs: Annotated[int, Field(ge=0, le=2**20)] = 0


class Kernels(Record):
    """Which form of a thing an engine runs by default, where that is known.

    `attention`: whether scores are kept out of memory. `latent`: the form of MLA; "auto" expands prompts, absorbs decodes.
    `chunked`: whether a prompt longer than a pass is cut into several. `routing_exponent`: how real routing spreads tokens
    over experts, γ of the expected number of distinct ones; 1 is uniform. `unpacks_from`: how many rows a product must have
    for quantised weights to be written out in 16 bit first. `accumulates`: what products of 16-bit matrices add up in, where
    it matters to the peak they may reach. `skips_shared`: whether prompts skip the layers that read an
    earlier layer's cache. `direct_all_reduce`: whether chips add up over their links in one kernel of the engine's own.
    """

    attention: Literal["flash", "eager"] | None = None
    latent: Literal["auto", "absorbed", "expanded"] | None = None
    chunked: bool | None = None
    routing_exponent: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    unpacks_from: Tokens | None = None
    accumulates: Literal["fp16", "fp32"] | None = None
    skips_shared: bool = False
    direct_all_reduce: bool | None = None


class Engine(Record):
    """One engine, one version. See the module's docstring for the file form.

    `kind`: how its kernels are made and launched, which says what its efficiency is like where nothing of it was measured:
    fused and captured in graphs; without graphs, or not fused; llama.cpp; MLX. `parameters_from`: engines whose measured
    efficiency on a machine stands in for its own, where there is none: earlier versions of it.
    """

    id: Id
    name: str
    version: str
    aliases: Names = ()
    kind: Literal["fused", "unfused", "llama.cpp", "mlx"] | None = None
    parameters_from: Names = ()
    memory: EngineMemory
    pages: Paging
    activations: Activations | None = None
    scheduler: Annotated[tuple[Tier, ...], Field(strict=False)] = ()
    lowest_tier: Names = ()
    kernels: Kernels = Field(default_factory=Kernels)
    priors: Names = ()
    sources: dict[str, str] = {}
    notes: str = ""

    def tier(self, memory_bytes: float, *, chip: str = "") -> Tier:
        """The scheduler's defaults on a chip of so much memory; some `chip` ids get those of the smallest (vLLM: A100).

        >>> from roofline.specs.catalog import engine
        >>> [engine("vllm").tier(gib * 2**30).batch_tokens for gib in (24, 80, 180)]
        [2048, 8192, 16384]
        """
        if not self.scheduler:
            raise SpecError(f"{self.id} has no scheduler defaults; give batch_tokens and max_seqs yourself")
        if any(name in chip.lower() for name in self.lowest_tier):
            return self.scheduler[0]
        return next(t for t in self.scheduler if t.below_bytes is None or memory_bytes < t.below_bytes)

    def fraction(self, memory_bytes: float, *, chip: str = "", n_chips: int = 1, on_a_mac: bool = False) -> float:
        """The default fraction on a chip of so much memory, `n_chips` of which hold a replica [1].

        >>> from roofline.specs.catalog import engine
        >>> engine("vllm").fraction(80e9), engine("mlx").fraction(128 * 2**30)
        (0.92, 0.84)
        """
        memory = self.memory
        if memory.headroom is not None:
            left = memory.headroom.bytes_of(memory_bytes, tier=self.tier(memory_bytes, chip=chip), n_chips=n_chips)
            return max(round((memory_bytes - left) / memory_bytes, 3), 0.0)
        shares = (memory.wired_shares if on_a_mac else ()) or memory.shares
        if shares:
            fitting = (s.fraction for s in shares if memory_bytes <= s.up_to_bytes)
            return next(fitting, shares[-1].fraction)
        return memory.fraction or 1.0

    def varied(
        self,
        *,
        memory_fraction: float | None = None,
        page_tokens: int | None = None,
        batch_tokens: int | None = None,
        max_seqs: int | None = None,
    ) -> "Engine":
        """The engine with some of its settings changed, as its own flags do; what is none stays as it is.

        | here            | vLLM                     | SGLang                 | TensorRT-LLM              | llama.cpp   |
        |-----------------|--------------------------|------------------------|---------------------------|-------------|
        | memory_fraction | --gpu-memory-utilization | --mem-fraction-static  | free_gpu_memory_fraction  | –           |
        | page_tokens     | --block-size             | --page-size            | tokens_per_block          | –           |
        | batch_tokens    | --max-num-batched-tokens | --chunked-prefill-size | max_num_tokens            | --ubatch-size |
        | max_seqs        | --max-num-seqs           | --max-running-requests | max_batch_size            | --parallel  |

        Asking for `batch_tokens` has prompts cut into passes of so many, whatever the engine's default.

        >>> from roofline.specs.catalog import engine
        >>> engine("vllm").varied(memory_fraction=0.85, batch_tokens=4096).tier(80e9).batch_tokens
        4096
        """
        changes: dict[str, Any] = {}
        if memory_fraction is not None:
            share = checked(memory_fraction, name="memory_fraction", low=0.0, high=1.0, above=True)
            if not isinstance(share, float):
                raise SpecError("memory_fraction: expected one number, got an array")
            other: dict[str, Any] = {"shares": (), "headroom": None, "wired_shares": ()}
            changes["memory"] = self.memory.model_copy(update=other | {"fraction": share})
        if page_tokens is not None:
            changes["pages"] = self.pages.model_copy(update={"tokens": _count(page_tokens, "page_tokens")})
        asked = {"batch_tokens": batch_tokens, "max_seqs": max_seqs}
        wanted = {name: _count(value, name) for name, value in asked.items() if value is not None}
        if wanted:
            usual = self.scheduler or (Tier(batch_tokens=ENDLESS, max_seqs=ENDLESS),)
            changes["scheduler"] = tuple(tier.model_copy(update=wanted) for tier in usual)
        if batch_tokens is not None:
            changes["kernels"] = self.kernels.model_copy(update={"chunked": True})
        return self.model_copy(update=changes)

    def budget_tokens(self, memory_bytes: float, *, chip: str = "") -> float:
        """Tokens that a pass reads at most: what prompts are cut into; no limit where they are not cut [token].

        >>> from roofline.specs.catalog import engine
        >>> engine("vllm").budget_tokens(80e9), engine("trtllm").budget_tokens(80e9)
        (8192.0, inf)
        """
        cuts = self.scheduler and self.kernels.chunked
        return float(self.tier(memory_bytes, chip=chip).batch_tokens) if cuts else math.inf

    def context_bytes(self, *, n_chips: int = 1) -> float:
        """What the runtime takes on a chip, one of so many that work together [B]."""
        sharded = self.memory.sharded_context_bytes
        return self.memory.context_bytes if n_chips == 1 or sharded is None else sharded

    def visible_bytes(self, memory_bytes: float) -> float:
        """What the engine sees of the memory a driver prints [B]."""
        return memory_bytes - self.memory.driver_bytes

    def unsourced(self) -> tuple[str, ...]:
        """Dotted paths of the values that no entry of `sources` covers (a prefix covers all below it)."""
        return tuple(path for path in self._facts() if not _covered(path, self.sources))

    def _facts(self) -> Iterator[str]:
        for name in ("memory", "pages", "activations", "kernels"):
            value = getattr(self, name)
            if value is not None:
                yield from (f"{name}.{key}" for key in value.plain())
        yield from ("scheduler",) if self.scheduler else ()
        yield from ("lowest_tier",) if self.lowest_tier else ()

    @model_validator(mode="after")
    def _names_point_somewhere(self) -> Self:
        facts = tuple(self._facts())
        for where, keys in (("sources", tuple(self.sources)), ("priors", self.priors)):
            for key in keys:
                if not any(_covered(path, (key,)) for path in facts):
                    raise SpecError(f"{where}: {key} names no value of this file{did_you_mean(key, facts)}")
        return self

    @model_validator(mode="after")
    def _tiers_rise_to_one_without_a_limit(self) -> Self:
        limits = [tier.below_bytes for tier in self.scheduler]
        sizes = [limit for limit in limits if limit is not None]
        if limits and (limits[-1] is not None or None in limits[:-1] or sizes != sorted(set(sizes))):
            raise SpecError("scheduler: expected tiers whose below: rises, and a last one without")
        if self.memory.headroom is not None and not self.scheduler:
            raise SpecError("scheduler: expected tiers, which memory.headroom is counted from")
        return self


def _count(value: Any, name: str) -> int:
    number = checked(value, name=name, low=1.0, high=float(ENDLESS))
    if not isinstance(number, float) or number != int(number):
        raise SpecError(f"{name}: expected one whole number, got {shown(value)}")
    return int(number)


def _covered(path: str, keys: Iterable[str]) -> bool:
    return any(path == key or path.startswith(f"{key}.") for key in keys)


IDEAL_ENGINE = Engine.model_construct(
    id="ideal",
    name="the machine itself",
    version="1",
    memory=EngineMemory.model_construct(fraction_of="none", fraction=1.0),
    pages=Paging.model_construct(tokens=1, windows="window"),
    kernels=Kernels.model_construct(),
    sources={"memory": "by definition, all of it", "pages": "by definition, a token is held where it is read"},
    notes="No engine; nothing is set aside and nothing is rounded up.",
)
"""No engine: full efficiency, all of the memory, a page a token, a prompt in one pass. `engines/ideal.yaml` is the same."""
