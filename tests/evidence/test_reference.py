"""The reference itself: that it counts what it does, that a cache changes nothing but the work, and that a wrong count or a
stale cache does not pass."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zoo import of_layers

import roofline as rl
from roofline.evidence import reference
from roofline.evidence.reference import bench, decoder, proof
from roofline.evidence.reference.attention import visible
from roofline.evidence.reference.cache import Cache
from roofline.evidence.reference.counter import Array, Counter, Weight
from roofline.evidence.reference.decoder import Chunk, Decoder
from roofline.evidence.reference.kinds import KIND_NAMES, kind_named, kinds
from roofline.evidence.reference.latent import Form
from roofline.ledger import Ledger
from roofline.specs.mixers import Attention

FORMS: tuple[Form, ...] = ("absorbed", "expanded")
ASKS_THE_LEDGER = {"checks", "bench", "proof"}
names = pytest.mark.parametrize("name", KIND_NAMES)


# It counts what it does


def test_what_is_counted_are_the_multiplications_that_are_performed() -> None:
    """NumPy multiplies objects that count themselves; every product begins a multiply-add, which is 2 FLOP."""
    done = []

    class Number:
        def __mul__(self, other: object) -> Number:
            done.append(other)
            return self

        def __add__(self, other: object) -> Number:
            return self

    def numbers(*shape: int) -> Any:
        made = np.empty(shape, dtype=object)
        made[...] = Number()
        return made

    for left, right in (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 1)), ((1, 7), (7, 1))):
        done.clear()
        counter = Counter(kv_element_bytes=2.0)
        counter.matmul("op", numbers(*left), numbers(*right))
        assert counter.work["op"].flops == 2 * len(done) > 0


def test_a_weight_is_read_once_a_pass_and_a_row_whenever_it_is_looked_up() -> None:
    """3 · 4 elements of 2 B and a bias of 4 of 2 B; 3 rows of 4 elements of 2 B."""
    counter, table = Counter(kv_element_bytes=2.0), np.ones((3, 4))
    weight = Weight(table, 2.0, bias=np.ones(4), bias_bytes=2.0)
    for _ in range(5):
        counter.linear("op", np.ones((2, 3)), weight)
    counter.rows("rows", Weight(table, 2.0), np.array([1, 1, 0]))
    assert counter.work["op"].weight_bytes == 2 * (12 + 4)
    assert counter.work["rows"].weight_bytes == 2 * 3 * 4


def test_an_entry_is_read_by_every_sequence_and_held_once() -> None:
    """Two sequences after 5 shared tokens, one of them with 1 of its own; 3 elements an entry, half a byte each."""
    beginning = Cache.empty((3,)).extended(np.ones((5, 3)))
    counter = Counter(kv_element_bytes=0.5)
    for cache in (beginning, beginning.extended(np.ones((1, 3)))):
        counter.kv_read("attention", cache, np.ones(len(cache.numbers), dtype=bool))
    assert counter.work["attention"].kv_read_bytes == (5 + 6) * 3 * 0.5
    assert counter.work["attention"].kv_read_bytes_min == (5 + 1) * 3 * 0.5


def test_a_cache_does_not_give_what_it_dropped() -> None:
    cache = Cache.empty((1,)).extended(np.arange(6.0)[:, None]).tail(2)
    assert cache.between(4, 6)[0].ravel().tolist() == [4.0, 5.0]
    with pytest.raises(LookupError, match="token 3 was dropped: the oldest kept is 4"):
        cache.between(3, 6)


def test_the_arithmetic_knows_nothing_of_how_work_is_counted() -> None:
    folder = Path(reference.__file__).parent
    for path in folder.glob("*.py"):
        imported = {
            node.module or ""
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom)
        }
        asks = any(name.startswith(("roofline.work", "roofline.ledger")) for name in imported)
        assert not asks or path.stem in ASKS_THE_LEDGER, path.name


@names
def test_a_kind_has_the_parameters_of_its_record(name: str) -> None:
    model = kind_named(name).model
    assert Decoder(model).weights.n_params == model.n_params


def test_the_names_of_kinds_are_those_of_the_kinds() -> None:
    assert tuple(kinds()) == KIND_NAMES


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("window", "chunked"), [(None, False), (1, False), (4, False), (5, False), (3, True)])
def test_a_query_sees_what_the_mask_of_its_kind_lets_it_see(window: int | None, chunked: bool, causal: bool) -> None:
    """Pair by pair, as the record's docstring says it."""

    def sees(query: int, key: int) -> bool:
        if window is None:
            near = True
        elif chunked:
            near = query // window == key // window
        else:
            near = query - key < window if causal else abs(query - key) <= window // 2
        return near and (key <= query or not causal)

    x = Attention(n_heads=1, n_kv_heads=1, d_head=1, window=window, chunked=chunked, causal=causal)
    for query in range(11):
        low, high = visible(x, query, 11)
        assert [low <= key < high for key in range(11)] == [sees(query, key) for key in range(11)]


# A cache changes nothing but the work


@names
def test_every_check_of_a_kind_holds(name: str) -> None:
    found = proof.proven(kind_named(name), n_tokens=2, seed=5)
    assert found.failed == ()
    for what in (
        "logits",
        "keys and values",
        "old cache entries",
        "old keys and values",
        "flops",
        "weight_bytes",
        "kv_read_bytes",
        "kv_write_bytes",
    ):
        assert any(check.what == what for check in found.checks), what
    assert found.total("flops") == found.total("flops", side="expected") > 0


def test_latent_attention_is_one_function_in_two_forms() -> None:
    """The same logits, by as many FLOPs as the forms' products have: 2 layers of N = 4, R = 16, r = 4, p = v = 8, 6 tokens.

    absorbed   2·6·4·16·(8 + 8) + 2·21·4·(2·16 + 4)      expanded   2·6·16·4·(8 + 8) + 2·21·4·(8 + 4 + 8)
    """
    model, tokens = kind_named("mla").model, np.arange(6)
    decoders = [Decoder(model, latent=form) for form in FORMS]
    runs = [made.run(Chunk(made.start(), tokens)) for made in decoders]
    absorbed, expanded = (
        sum(run.counter.work[op].flops for op in ("k_b_proj", "v_b_proj", "attention")) for run in runs
    )
    assert absorbed == 2 * (2 * 6 * 4 * 16 * 16 + 2 * 21 * 4 * 36)
    assert expanded == 2 * (2 * 6 * 4 * 16 * 16 + 2 * 21 * 4 * 20)
    np.testing.assert_allclose(runs[0].logits[0], runs[1].logits[0], rtol=0, atol=1e-12)


def test_a_decode_absorbed_leaves_the_cached_latents_alone() -> None:
    """A 7th token: k_b and v_b for one token absorbed, for seven expanded; 2 layers."""
    model = kind_named("mla").model
    for form, n_made in zip(FORMS, (1, 7), strict=True):
        made = Decoder(model, latent=form)
        context = made.start()
        made.run(Chunk(context, np.arange(6)))
        counter = made.run(Chunk(context, np.array([7]))).counter
        assert counter.work["k_b_proj"].flops == counter.work["v_b_proj"].flops == 2 * 2 * n_made * 4 * 16 * 8


@names
def test_a_token_changes_nothing_before_it(name: str) -> None:
    made = Decoder(kind_named(name).model)
    text = bench.Text.of(bench.Bench(kind_named(name), seed=0), 0, n_tokens=7)
    changed = text.tokens.copy()
    changed[4] = (changed[4] + 1) % 50
    before, after = (made.run(Chunk(made.start(), t, 7, text.inputs)).logits[0] for t in (text.tokens, changed))
    np.testing.assert_allclose(before[:4], after[:4], rtol=0, atol=1e-12)
    assert np.abs(before[4:] - after[4:]).max() > 1e-6


def test_what_is_written_grows_as_the_closed_forms_say() -> None:
    """MHA, 2 layers: 2·2·(4·32² + 3·32·48) = 34,816 FLOP a token in products, 2·4·4·8 = 256 a pair in attention.

    On the cache n tokens and n·(n + 1)/2 pairs; afresh n·(n + 1)/2 tokens and n·(n + 1)·(n + 2)/6 pairs.
    """
    found = reference.verify("mha", n_tokens=2)
    assert [growth.n_tokens for growth in found.growth()] == [2, 4, 8]
    for growth in found.growth():
        n = growth.n_tokens
        assert growth.cached_product_flops == 34_816 * n
        assert growth.uncached_product_flops == 34_816 * n * (n + 1) // 2
        assert growth.cached_attention_flops == 256 * n * (n + 1) // 2
        assert growth.uncached_attention_flops == 256 * n * (n + 1) * (n + 2) // 6
    last = found.growth()[-1]
    assert (last.cached_products_grew, last.uncached_products_grew) == (2.0, 36 / 10)
    assert (last.cached_attention_grew, last.uncached_attention_grew) == (36 / 10, 120 / 20)


def test_the_bytes_of_experts_over_all_routings_are_those_of_two_to_four_experts() -> None:
    """An expert is 3 · 32 · 16 · 2 B = 3,072 B. Two tokens with 2 of 4 each touch 2 to 4, in the mean 4·(1 − 1/4) = 3."""
    found = {c.what: c for c in proof.proven(kind_named("moe"), n_tokens=1).checks if c.op == "experts"}
    assert found["weight_bytes_min of experts"].found == found["weight_bytes_min of experts"].expected == 2 * 3072
    assert found["weight_bytes_max of experts"].found == found["weight_bytes_max of experts"].expected == 4 * 3072
    assert found["weight_bytes of experts"].found == 3 * 3072


def test_without_the_mask_a_token_moves_the_keys_and_values_before_it() -> None:
    found = proof.proven(kind_named("mha"), n_tokens=1)
    assert found.worst("old keys and values").found == 0.0
    assert found.unmasked_change is not None
    assert found.unmasked_change > 0.01


# What is wrong does not pass


def one_more(field: str, op: str = "q_proj") -> Callable[..., Ledger]:
    """A count of work that gives one op one more of one count."""

    def wrong(*args: Any, **how: Any) -> Ledger:
        ledger = rl.count(*args, **how)
        rows = (replace(r, **{field: getattr(r, field) + 1.0}) if r.name.endswith(op) else r for r in ledger.rows)
        return replace(ledger, rows=tuple(rows))

    return wrong


@pytest.mark.parametrize(
    ("field", "op", "what"),
    [
        ("flops", "q_proj", "flops"),
        ("extra_flops", "attention", "flops"),
        ("weight_bytes", "elementwise", "weight_bytes"),
        ("weight_bytes", "embedding", "weight_bytes"),
        ("kv_read_bytes", "attention", "kv_read_bytes"),
        ("kv_read_bytes_min", "attention", "kv_read_bytes_min"),
        ("kv_write_bytes", "attention", "kv_write_bytes"),
        ("flops", "lm_head", "flops"),
    ],
)
def test_one_more_in_the_ledger_fails_and_is_named(
    field: str, op: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "count", one_more(field, op))
    found = proof.proven(kind_named("gqa"), n_tokens=1)
    assert {(check.op, check.what) for check in found.failed} - {("", "flops")} == {(op, what)}
    step = next(check for check in found.failed if check.op == op)
    assert step.expected == step.found + (1 if op in ("embedding", "lm_head") else 2)  # once, or in each of two layers
    assert f"{op}: {what}: counted {step.found:,.0f}, in the ledger {step.expected:,.0f}" in step.said()
    assert not any(check.passed for check in found.checks if (check.op, check.what) == (op, what))


def test_one_more_byte_of_experts_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in ("weight_bytes_min", "weight_bytes", "weight_bytes_max"):
        monkeypatch.setattr(proof, "count", one_more(field, "expert_up_proj"))
        failed = proof.proven(kind_named("moe"), n_tokens=1).failed
        assert [check.what for check in failed] == [f"{field} of experts"]


def test_a_cheaper_form_that_is_not_the_cheaper_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "count", lambda *args, **how: rl.count(*args, **how, latent="absorbed"))
    assert proof.proven(
        kind_named("mla"), n_tokens=1
    ).passed  # the model's own FLOPs are the cheaper form's, whatever runs
    monkeypatch.setattr(proof, "count", one_more("flops", "k_b_proj"))
    assert {check.what for check in proof.proven(kind_named("mla"), n_tokens=1).failed} == {"flops"}


@pytest.mark.parametrize("name", ["mha", "window", "mla", "moe", "encoder-decoder", "cross"])
def test_a_stale_key_shows_in_the_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a token is added to a cache, its first part (keys, latents) is that of the token before it."""
    extended = Cache.extended

    def stale(self: Cache, *new: Array) -> Cache:
        first = self.rows[0][-1:] if len(self.numbers) and len(new[0]) == 1 else new[0]
        return extended(self, first, *new[1:])

    monkeypatch.setattr(Cache, "extended", stale)
    failed = proof.proven(kind_named(name), n_tokens=2).failed
    assert {"logits", "keys and values"} <= {check.what for check in failed}
    worst = max(failed, key=lambda check: check.found / (check.limit or 1e-300))
    assert worst.found > 1e6 * worst.limit


def test_an_entry_that_is_written_over_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    extended = Cache.extended

    def overwriting(self: Cache, *new: Array) -> Cache:
        longer = extended(self, *new)
        longer.rows[1][:1] += 1e-300 if len(self.numbers) else 0.0
        longer.rows[1][:1] *= -1.0 if len(self.numbers) else 1.0
        return longer

    monkeypatch.setattr(Cache, "extended", overwriting)
    found = proof.proven(kind_named("mha"), n_tokens=2)
    assert any(check.what == "old cache entries" and not check.passed for check in found.checks)


def test_a_window_that_drops_a_token_too_many_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    window = decoder._window
    monkeypatch.setattr(decoder, "_window", lambda layer: None if window(layer) is None else (window(layer) or 0) - 1)
    with pytest.raises(LookupError, match="was dropped"):
        proof.proven(kind_named("window"), n_tokens=6)


def test_what_is_no_number_agrees_with_nothing() -> None:
    assert not reference.Check(run="r", what="logits", found=float("nan"), expected=0.0, limit=1.0).passed
    assert bench.difference(np.array([np.nan]), np.array([np.nan])) == float("inf")
    assert bench.difference(np.zeros(2), np.zeros(3)) == float("inf")


# Its face


def test_verify_proves_the_kinds_that_are_asked_for_and_models_of_ones_own() -> None:
    own = of_layers({"mixer": {"n_heads": 2, "n_kv_heads": 1, "d_head": 4}, "ffn": None}, d_model=8)
    found = reference.verify("mqa", own, n_tokens=1)
    assert found.passed
    assert found.failed() == ()
    assert [p.kind for p in found.proofs] == ["mqa", "small"]
    frame = found.to_frame()
    assert frame["counted_flops"].tolist() == frame["ledger_flops"].tolist()
    steps = found.steps_frame()
    assert steps["saved_flops"].tolist() == (steps["uncached_flops"] - steps["cached_flops"]).tolist()
    assert found.to_dict()["n_checks"] == found.n_checks > 100


def test_models_of_ones_own_need_neither_attention_nor_few_experts() -> None:
    """No cache at all; 32 experts, more than can be tried two tokens at a time; a tower without a stem."""
    many = {"kind": "moe", "n_experts": 32, "n_active_experts": 3, "d_ff": 4}
    cross = {"kind": "cross_attention", "n_heads": 1, "n_kv_heads": 1, "d_head": 4, "d_memory": 8}
    tower = {"kind": "audio", "d_model": 8, "feeds": "memory"}
    own: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"mixer": None, "ffn": many}, {}),
        ({"mixer": None, "cross": cross, "ffn": None}, {"towers": (tower,)}),
    ]
    for layer, outside in own:
        found = reference.verify(of_layers(layer, **outside), n_tokens=1)
        assert found.failed() == ()
        assert not found.holds("weight_bytes of experts")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_tokens": 0}, "n_tokens: expected 1 to 64 tokens to generate, got 0"),
        ({"n_tokens": True}, "n_tokens: expected 1 to 64 tokens to generate, got True"),
        ({"n_tokens": 65}, "got 65"),
        ({"seed": -1}, "seed: expected a whole number from 0 on, got -1"),
        ({"seed": 0.5}, "seed: expected a whole number from 0 on, got 0.5"),
    ],
)
def test_bad_numbers_are_refused_in_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.SpecError, match=said):
        reference.verify("mha", **given)


def test_models_it_cannot_run_are_refused_in_words() -> None:
    with pytest.raises(rl.UnknownName, match=r"no kind named 'gqqa'.*did you mean"):
        reference.verify("gqqa")
    with pytest.raises(rl.SpecError, match=r"8,030,261,248 parameters.*the same layers, narrower"):
        reference.verify(rl.model("llama-3.1-8b"))
    with pytest.raises(rl.SpecError, match=r"expected the name of a kind or a Model, got 3"):
        reference.verify(3)  # type: ignore[arg-type]
    short = {"kind": "short_conv", "d_inner": 8, "d_conv": 3}
    indexed = {"n_heads": 2, "n_kv_heads": 1, "d_head": 4, "indexer": {"n_heads": 1, "d_head": 4, "top_k": 2}}
    for mixer, said in ((short, "short_conv"), (indexed, "attention with an indexer")):
        with pytest.raises(rl.Unsupported, match=f"does not run a mixer of kind {said}"):
            reference.verify(of_layers({"mixer": mixer, "ffn": None}))
    plain = {"mixer": {"n_heads": 2, "n_kv_heads": 1, "d_head": 4}, "ffn": None}
    for outside, said in (
        ({"head": None}, "an encoder"),
        ({"vectors": {"table": 3}}, "loose vectors"),
        ({"residual_streams": 2}, "several residual streams"),
        ({"positions": {"kind": "relative"}}, "positions by distance"),
    ):
        with pytest.raises(rl.Unsupported, match=said):
            reference.verify(of_layers(plain, **outside))
    with pytest.raises(rl.Unsupported, match="loose vectors"):
        reference.verify(of_layers(plain | {"vectors": 3}))
