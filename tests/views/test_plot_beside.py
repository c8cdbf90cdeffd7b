"""What a roofline shows besides its phases: ops, other roads, what an engine reaches, measurements and clouds of them."""

from __future__ import annotations

from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from drawn import line_of, of

import roofline as rl

matplotlib.use("Agg")

pytestmark = pytest.mark.usefixtures("tidy_pictures")
TERA = 1e12


def labels_of(ax: Any) -> set[str]:
    return {str(line.get_label()) for line in ax.lines}


# ops


def test_every_op_that_multiplies_is_a_point_at_its_own_intensity_and_rate() -> None:
    d = of(engine="vllm")
    ax = rl.plot.roofline(d, ops=True)
    rows = [r for r in rl.decode(d, context_tokens=2175, batch=8).by_op() if r["executed_flops"]]
    for row in rows:
        x, y = line_of(ax, f"decode {row['name']}").get_data()
        assert (x[0], y[0]) == pytest.approx((row["intensity"], row["executed_flops"] / row["seconds"] / TERA))
    assert "decode elementwise" not in labels_of(ax)  # it moves bytes and multiplies nothing


def test_ops_are_larger_the_more_time_they_take_and_their_shares_are_of_the_phase() -> None:
    ax: Any = rl.plot.roofline(of(), ops=True)
    ops = ax.roofline_data.query("series == 'op' and phase == 'decode'").sort_values("share")
    sizes = [line_of(ax, f"decode {name}").get_markersize() for name in ops["label"]]
    assert sizes == sorted(sizes)
    assert ops["share"].sum() <= 1.0
    assert "op" not in set(rl.plot.roofline(of()).roofline_data["series"])  # type: ignore[attr-defined]


def test_no_op_lies_above_the_roof_of_its_dtype() -> None:
    ax: Any = rl.plot.roofline(of(engine="vllm"), ops=True)
    ops = ax.roofline_data.query("series == 'op'")
    roof = np.minimum(989.4e12, 3.35e12 * ops["intensity"])
    assert (ops["flops_per_s"] <= roof * (1 + 1e-9)).all()


# what the engine reaches


def test_what_an_engine_reaches_is_a_roof_under_the_roof() -> None:
    from roofline.answers.estimates import known_of

    d = of(engine="vllm")
    e = known_of(d).efficiency
    xs, ys = line_of(rl.plot.roofline(d), "achieved").get_data()
    assert max(ys) == pytest.approx(e.compute * 989.4)
    assert ys[0] / xs[0] == pytest.approx(e.memory * 3.35)
    assert "achieved" not in labels_of(rl.plot.roofline(of()))  # the machine itself


# other roads


def test_a_link_is_dotted_and_a_phase_stands_on_it_at_flop_per_byte_sent() -> None:
    d = of("llama-3.1-70b", plan=rl.Plan(tp=4))
    ax = rl.plot.roofline(d, tiers=["link"])
    slope = line_of(ax, "link")
    xs, ys = slope.get_data()
    # NVLink4: 450 GB/s one way
    assert ys[0] / xs[0] == pytest.approx(0.45)
    assert slope.get_linestyle() == ":"
    timing = rl.decode(d, context_tokens=2175, batch=8)
    (x,), (y,) = line_of(ax, "decode at link").get_data()
    assert x == pytest.approx(float(timing.executed_flops) / float(timing.link_bytes))
    assert y == pytest.approx(float(timing.executed_flops) / float(timing.seconds) / TERA)


def test_what_is_offloaded_stands_on_the_host_s_slope_and_under_it() -> None:
    d = of(chip="rtx-4090", weights="q4_k_m", offload="host:0.5")
    ax: Any = rl.plot.roofline(d, batch=1, tiers=["host"])
    xs, ys = line_of(ax, "host").get_data()
    assert ys[0] / xs[0] == pytest.approx(0.031508)  # PCIe 4.0 x16: 31.508 GB/s
    points = ax.roofline_data.query("series == 'tier'").dropna(subset=["intensity"])
    assert set(points["phase"]) == {"prefill", "decode"}
    assert (points["flops_per_s"] <= points["bytes_per_s"] * points["intensity"] * (1 + 1e-9)).all()


def test_a_road_of_one_s_own_is_a_slope_at_its_rate() -> None:
    ax: Any = rl.plot.roofline(of(), tiers={"l2": 5.5e12, "host": None})
    xs, ys = line_of(ax, "l2").get_data()
    assert ys[0] / xs[0] == pytest.approx(5.5)
    assert ys[1] == pytest.approx(989.4)  # up to the roof's top
    assert "l2 5.50 TB/s" in [text.get_text() for text in ax.texts]
    assert "decode at l2" not in labels_of(ax)  # nobody counted what crosses it


@pytest.mark.parametrize(
    ("chip", "tiers", "told"),
    [
        ("h100", ["l2"], "gives no bandwidth of its cache; give its rate"),
        ("h100", ["link"], "one chip sends nothing over a link; a Plan"),
        ("m5-max", ["host"], "share one memory.*leave it out, or give its rate"),
        ("h100", ["hots"], "got 'hots'; did you mean host"),
        ("h100", "host", 'expected names such as \\["host", "link"\\]'),
        ("h100", {"l2": -1.0}, "tiers l2: expected a number > 0"),
        ("h100", {str(i): 1e12 for i in range(5)}, "up to 4"),
    ],
)
def test_a_road_nobody_knows_is_refused_with_what_to_do(chip: str, tiers: Any, told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.roofline(of(chip=chip), tiers=tiers)
    assert not plt.get_fignums()


# measurements


def test_an_interval_is_drawn_from_its_low_to_its_high() -> None:
    ax: Any = rl.plot.roofline(of(), measured=[(1163.0, 603e12, "prefill", 550e12, 640e12)])
    xs, ys = line_of(ax, "prefill interval").get_data()
    assert list(xs) == [1163.0, 1163.0]
    assert list(ys) == pytest.approx([550.0, 640.0])
    row = ax.roofline_data.query("series == 'measured'").iloc[0]
    assert (row["low_flops_per_s"], row["high_flops_per_s"]) == (550e12, 640e12)


def test_a_hundred_thousand_measurements_are_one_image_without_names() -> None:
    rng = np.random.default_rng(0)
    x = 10.0 ** rng.uniform(0.0, 3.0, 100_000)
    frame = pd.DataFrame({"intensity": x, "flops_per_s": 0.5 * np.minimum(989.4e12, 3.35e12 * x)})
    ax: Any = rl.plot.roofline(of(), measured=frame)
    cloud = line_of(ax, "measured")
    assert cloud.get_rasterized()
    assert np.asarray(cloud.get_xdata()) == pytest.approx(x)
    assert "drop" not in labels_of(ax)
    assert (ax.roofline_data["series"] == "measured").sum() == 100_000
    assert "100,000 points are measured, 0 of them above the roof; half reach 50 % of it or more." in ax.roofline_alt


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        ([(1.0, 2.0, "x", 3.0, 4.0)], r"measured\[0\]: expected low <= flops_per_s <= high, got 3, 2, 4"),
        ([(1.0, 2.0, "x"), (1.0, "fast", "y")], r"measured\[1\] flops_per_s"),
        ([(1.0, [2.0], "x")], r"measured.* flops_per_s"),
        (pd.DataFrame({"intensity": [1.0]}), "expected the columns intensity and flops_per_s"),
    ],
)
def test_a_measurement_that_is_none_is_refused(measured: Any, told: str) -> None:
    with pytest.raises(rl.SpecError, match=told):
        rl.plot.roofline(of(), measured=measured)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_ops_is_true_or_false(value: Any) -> None:
    with pytest.raises(rl.SpecError, match="ops: expected True or False"):
        rl.plot.roofline(of(), ops=value)
