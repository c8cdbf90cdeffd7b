"""`roofline verify`: what it says, what it gives programs, and how it leaves where something is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.evidence.reference import bench
from roofline.evidence.reference.cache import Cache
from roofline.evidence.reference.counter import Array
from roofline.evidence.reference.kinds import KIND_NAMES
from roofline.ledger import Ledger
from roofline.views.cli import run


def test_by_default_every_kind_is_proven_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    kinds = {line.split()[0]: line.split() for line in lines if line.rstrip().endswith(" OK")}
    assert tuple(kinds) == KIND_NAMES
    for _, _, _, _, flops, ledger_flops, n_bytes, ledger_bytes, _ in kinds.values():
        assert flops == ledger_flops
        assert n_bytes == ledger_bytes
    assert lines[-1].startswith("All ")
    assert lines[-1].endswith(" passes hold; FLOPs and bytes are equal, op by op.")


def test_it_shows_what_a_cache_saves_and_how_the_work_grows(capsys: pytest.CaptureFixture[str]) -> None:
    """MHA: 34,816 FLOP of products a token, 256 a pair, 2·32·50 = 3,200 of the head; 4 tokens afresh, and on the cache one
    that sees 4: 4·34,816 + 10·256 + 3,200 = 145,024 and 34,816 + 4·256 + 3,200 = 39,040. 4 in all: products 4 and 10."""
    assert run(["verify", "--kind", "mha", "--tokens", "1"]) == 0
    out = capsys.readouterr().out
    assert ["4", "39,040", "145,024", "73", "%"] in [line.split() for line in out.splitlines()]
    said = " ".join(out.split())
    assert "Twice the tokens (2 to 4): products with weights × 2 on the cache, O(n), and × 3.33 afresh, O(n²)" in said
    assert "no bit of a cached entry changed" in said
    assert "Without the causal mask they would move by up to" in said
    assert "experts" not in said


def test_json_is_one_object_with_the_numbers_of_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "--kind", "moe", "--kind", "mla", "--tokens", "2", "--seed", "3", "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    body = json.loads(out)
    assert (body["schema"], body["passed"], body["seed"], body["failed"]) == ("roofline/verify/1", True, 3, [])
    assert [kind["kind"] for kind in body["kinds"]] == ["moe", "mla"]
    for kind in body["kinds"]:
        assert kind["counted_flops"] == kind["ledger_flops"] > 0
        assert kind["counted_bytes"] == kind["ledger_bytes"] > 0
        assert 0 <= kind["logit_difference"] <= kind["logit_bound"] < 1e-10
    assert [step["context_tokens"] for step in body["steps"]] == list(range(1, 9))
    assert all(step["saved_flops"] == step["uncached_flops"] - step["cached_flops"] for step in body["steps"])
    assert "passes" not in body


def test_verbose_prints_the_shapes_of_every_product_of_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    """GQA, two sequences of 4, two layers: 16 queries of 2 groups of 2 heads over 1 to 4 keys; 2·16·2·2·8·2.5 FLOP."""
    assert run(["verify", "--kind", "gqa", "--tokens", "2", "-v"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    text = [" ".join(words) for words in lines]
    first = text[: text.index("step 1 afresh cache: 0 B read, 1,024 B written")]
    assert "step 1 on the cache cache: 0 B read, 1,024 B written" in first  # 8 tokens · 2 layers · 2·2·8 elements · 2 B
    assert "q_proj 2 of (8, 32) × (32, 32) → (8, 32) 32,768 4,224" in first  # 2·(32·32 + 32) elements of 2 B
    assert "attention: scores 16 of (2, 2, 8) × (2, 8, 1–4) → (2, 2, 1–4) 2,560 0" in first
    assert "step 2 on the cache cache: 1,024 B read, 256 B written" in text
    assert "attention: values 4 of (2, 2, 5) × (2, 5, 8) → (2, 2, 8) 1,280 0" in text
    assert run(["verify", "--kind", "gqa", "--tokens", "1", "-v", "--json"]) == 0
    passes = json.loads(capsys.readouterr().out)["passes"]
    assert passes[0]["pass"] == "step 1 on the cache"
    assert {"op": "q_proj", "left": "(8, 32)"}.items() <= passes[0]["products"][0].items()


def test_a_ledger_that_is_one_flop_off_fails_with_kind_op_and_both_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: Any, **how: Any) -> Ledger:
        ledger = rl.count(*args, **how)
        rows = (replace(row, flops=row.flops + 1.0) if row.name == "lm_head" else row for row in ledger.rows)
        return replace(ledger, rows=tuple(rows))

    monkeypatch.setattr(bench, "count", wrong)
    assert run(["verify", "--kind", "mqa", "--tokens", "1"]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert captured.err == ""
    assert any(line.startswith("mqa ") and line.rstrip().endswith(" FAIL") for line in lines)
    assert "FAIL mqa: step 1 on the cache: lm_head: flops: counted 6,400, in the ledger 6,401" in lines
    assert lines[-1].endswith("checks failed.")
    assert run(["verify", "--kind", "mqa", "--tokens", "1", "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert body["passed"] is False
    assert body["failed"][0] == "mqa: step 1 on the cache: lm_head: flops: counted 6,400, in the ledger 6,401"


def test_a_corrupted_cache_fails_by_its_logits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    extended = Cache.extended

    def noisy(self: Cache, *new: Array) -> Cache:
        return extended(self, new[0] * (1.0 + 1e-6 * bool(len(self.numbers))), *new[1:])

    monkeypatch.setattr(Cache, "extended", noisy)
    assert run(["verify", "--kind", "mha", "--tokens", "3"]) == 1
    out = capsys.readouterr().out
    assert "FAIL mha: step 2: logits differ by" in out
    assert "Old keys and values stay" not in out
    assert np.isfinite(float(out.split("logits differ by ")[2].split(",")[0]))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--kind mlaa", "no kind named 'mlaa'"),
        ("--tokens 0", "--tokens: expected 1 to 64, got 0"),
        ("--tokens 65", "--tokens: expected 1 to 64, got 65"),
        ("--tokens many", "--tokens: expected a whole number"),
        ("--seed -1", "--seed: expected a whole number"),
        ("llama-3.1-8b", "unexpected extra argument"),
    ],
)
def test_bad_values_leave_with_2_and_one_line(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", *words.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err
