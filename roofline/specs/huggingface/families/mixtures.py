"""What adapters of mixtures of experts share: which layers have experts, how many, how wide; a choice a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from roofline.errors import SpecError, did_you_mean, shown
from roofline.specs.ffns import Ffn, Moe
from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.families.common import Shape, attention, dense, grouped, over
from roofline.specs.layers import Group, Layer
from roofline.specs.mixers import Attention, Mixer
from roofline.specs.model import Mtp

__all__ = [
    "ACTIVE", "EXPERTS", "attentions", "biased", "blocks", "by_word", "experts", "filled", "headed", "listed", "mtp",
    "shared_width", "sparse_from", "stacked",
]  # fmt: skip

T = TypeVar("T")

EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts")
ACTIVE = ("num_experts_per_tok",)


def filled(c: Config, **defaults: Any) -> Config:
    """The same level with what the family's class takes for the keys it lacks; each is put on record."""
    lacking = {key: value for key, value in defaults.items() if not c.has(key)}
    for key, value in lacking.items():
        c.assume(key, value)
    return over(c, lacking)


def listed(c: Config, key: str, *, kind: type = int, length: int | None = None) -> list[Any] | None:
    """The list under the key; none where it is absent or null, which is no default taken: another key says."""
    return list(c.items(key, kind=kind, length=length)) if c.given(key) else None


def by_word(c: Config, key: str, meaning: Mapping[str, T], *, n_layers: int, absent: Sequence[T], said: str) -> list[T]:
    """What the word of each layer means; where the list is absent or null, `absent`, put on record as `said`."""
    words = c.items(key, kind=str, absent=said, null=said, length=n_layers)
    if words is said:
        return list(absent)
    for word in words:
        if word not in meaning:
            near = did_you_mean(word, meaning)
            raise SpecError(f"{c.place(key)}: expected one of {', '.join(meaning)}, got {shown(word)}{near}")
    return [meaning[word] for word in words]


def sparse_from(c: Config, n_layers: int, *, first: int, key: str = "first_k_dense_replace") -> list[bool]:
    """Which layers have experts: as `mlp_layer_types` says, else all but the first so many (`first` where no key says)."""
    if c.given("mlp_layer_types"):
        words = {"dense": False, "sparse": True}
        return by_word(c, "mlp_layer_types", words, n_layers=n_layers, absent=(), said="")
    n_dense = c.whole(key, absent=first, null=first, least=0)
    return [i >= n_dense for i in range(n_layers)]


def experts(
    c: Config, *, count: Sequence[str] = EXPERTS, active: Sequence[str] = ACTIVE, n_absent: Any = REQUIRED,
    k_absent: Any = REQUIRED, width: str = "moe_intermediate_size", learnt_balance: bool = False, **more: Any,
) -> Moe:  # fmt: skip
    """The mixture of the keys most configs use.  `n_absent`, `k_absent`: how many, how many active, where no key says.

    `learnt_balance`: the bias that balances the router's load is among the parameters, where most keep it in a buffer.
    """
    n = c.whole(*count, absent=n_absent, most=100_000)
    k = c.whole(*active, absent=k_absent, most=100_000)
    if k > n:
        raise c.wrong(active[0], f"at most the {n:,} experts there are", k)
    return Moe(n_experts=n, n_active_experts=k, d_ff=c.whole(width), scales=n if learnt_balance else 0, **more)


def blocks(c: Config, sparse: Sequence[bool], moe: Moe, **more: Any) -> list[Ffn]:
    """The mixture where a layer has experts, elsewhere a dense block as `intermediate_size` says."""
    narrow = moe if all(sparse) else dense(c, **more)
    return [moe if has_experts else narrow for has_experts in sparse]


def attentions(c: Config, windows: Sequence[int | None], **more: Any) -> list[Attention]:
    """Plain attention, layer by layer, each with its window."""
    kinds = {window: attention(c, window=window, **more) for window in dict.fromkeys(windows)}
    return [kinds[window] for window in windows]


def shared_width(c: Config, *keys: str, absent: int) -> int | None:
    """Width of the shared block: so many experts' (`absent` where no key says; zero or null: there is none)."""
    keys = keys or ("n_shared_experts",)
    n = c.whole(*keys, absent=absent, null=0, least=0, most=10_000)
    width = n * c.whole("moe_intermediate_size")
    if width > 10_000_000:
        raise c.wrong(keys[0], "a shared block at most 10,000,000 wide", width)
    return width or None


def biased(shape: Shape, bias: bool) -> Shape:
    """With a bias on the head, if there is a head."""
    head = shape["head"]
    return shape | {"head": None if head is None else head | {"bias": bias}}


def mtp(c: Config, layer: Layer, *keys: str, absent: int = 0, own_tables: bool = False) -> Mtp | None:
    """The modules that guess further tokens, each with a layer of the model's; none where the key is absent, null or 0."""
    n = c.whole(*(keys or ("num_nextn_predict_layers", "num_mtp_layers")), absent=absent, null=0, least=0, most=1000)
    return Mtp(n_modules=n, layer=layer, own_tables=own_tables) if n else None


def stacked(mixers: Sequence[Mixer], ffns: Sequence[Ffn], **more: Any) -> tuple[Group, ...]:
    """One layer for each mixer and FFN, as groups."""
    pairs = list(zip(mixers, ffns, strict=True))
    kinds = {pair: Layer(mixer=pair[0], ffn=pair[1], **more) for pair in set(pairs)}
    return grouped([kinds[pair] for pair in pairs])


def headed(
    c: Config, n_heads: Sequence[int], windows: Sequence[int | None], *, key: str, gated: Literal["apart", "head"]
) -> list[Attention]:
    """Attention with query heads and a window layer by layer; norms on the heads."""
    bias, n_kv = (
        c.flag("attention_bias", absent=False),
        c.whole("num_attention_groups", "num_key_value_heads", absent=8, most=100_000),
    )
    d_head = c.whole("head_dim")
    if not all(1 <= n <= 100_000 and n % n_kv == 0 for n in n_heads):
        raise c.wrong(key, f"multiples of the {n_kv} KV heads, at most 100,000", list(n_heads)[:8])
    pairs = list(zip(n_heads, windows, strict=True))
    kinds = {
        (n, window): Attention(
            n_heads=n, n_kv_heads=n_kv, d_head=d_head, window=window, gated=gated, qk_norm="head",
            qkv_bias=bias, out_bias=bias,
        )
        for n, window in set(pairs)
    }  # fmt: skip
    return [kinds[pair] for pair in pairs]
