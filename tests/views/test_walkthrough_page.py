"""The walkthrough page in a browser: keys, touch, address, languages, contrast, paper; nothing leaves it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium

from roofline import Deployment, decode, hardware, model, prefill
from roofline.units import format_si
from roofline.views.walkthrough import page
from roofline.views.walkthrough.phrases import sentences
from roofline.views.words import seconds

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SCREENS = {"wide": (1280, 800), "half": (820, 1180), "phone": (360, 740), "small": (320, 640)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("walkthrough") / "page.html"
    path.write_text(page(_example()), encoding="utf-8")
    return path.as_uri()


def _example() -> Deployment:
    return Deployment(model=model("llama-2-7b"), hardware=hardware("h100-sxm-80gb"))


Opened = Callable[..., "Page"]


@pytest.fixture
def opened(browser: Browser, address: str) -> Iterator[Opened]:
    """A page at an address; at the end nothing but the file was asked for, and nothing was complained of."""
    said: list[str] = []
    asked: list[str] = []
    contexts = []

    def open_at(place: str = "", *, screen: str = "wide", **options: Any) -> Page:
        width, height = SCREENS[screen]
        base: dict[str, Any] = {"locale": "en-US", "offline": True, "viewport": {"width": width, "height": height}}
        context = browser.new_context(**base | options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(address + place)
        return tab

    yield open_at
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(address)] == []


def visit(tab: Page, address: str, place: str) -> None:
    """The page anew, at a place."""
    tab.goto("about:blank")
    tab.goto(address + place)


def step_of(tab: Page) -> int:
    visible = tab.eval_on_selector_all("section.step", "all => all.map((e, i) => e.hidden ? 0 : i + 1).filter(x => x)")
    assert len(visible) == 1
    return int(visible[0])


def text(tab: Page, slot: str, step: int) -> str:
    """A figure in the language shown."""
    found: str = tab.evaluate(
        """([slot, step]) => [...document.querySelectorAll(`#step-${step} [data-v="${slot}"]`)]
           .filter(e => e.offsetParent !== null)[0].textContent""",
        [slot, step],
    )
    return found


# Moving


def test_keys_move_the_steps_and_stop_at_the_ends(opened: Opened) -> None:
    tab = opened()
    seen = [step_of(tab)]
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home", "ArrowLeft", "4", "9"):
        tab.keyboard.press(key)
        seen.append(step_of(tab))
    assert seen == [1, 2, 3, 2, 5, 5, 1, 1, 4, 4]
    assert tab.evaluate("document.activeElement.id") == "h4"


def test_keys_with_a_modifier_are_the_browser_s(opened: Opened) -> None:
    tab = opened()
    for chord in ("Shift+ArrowRight", "Control+ArrowRight", "Alt+End", "Meta+2"):
        tab.keyboard.press(chord)
    assert step_of(tab) == 1


def test_arrows_on_a_slider_or_a_choice_do_not_turn_the_page(opened: Opened) -> None:
    tab = opened("#step=5")
    tab.focus("#s5-c")
    before = text(tab, "c", 5)
    tab.keyboard.press("ArrowRight")
    assert step_of(tab) == 5
    assert text(tab, "c", 5) != before
    tab.focus("#step-5 input[type=radio][data-dim=h]:checked")
    tab.keyboard.press("ArrowRight")
    assert step_of(tab) == 5
    assert text(tab, "s5.token", 5) == "131,072"


def test_buttons_move_the_steps_and_back_goes_back(opened: Opened) -> None:
    tab = opened()
    tab.click("#next")
    tab.click("nav [data-step='4']")
    tab.click("#back")
    assert step_of(tab) == 3
    tab.go_back()
    assert step_of(tab) == 4
    tab.go_back()
    tab.go_back()
    assert step_of(tab) == 1
    assert tab.is_disabled("#back")
    tab.keyboard.press("End")
    assert tab.is_disabled("#next")


def test_an_address_leads_to_its_step_and_a_wrong_one_to_the_nearest(opened: Opened, address: str) -> None:
    tab, seen = opened(), {}
    for place in ("#step=3", "#step=0", "#step=99", "#step=two", "#nonsense", "#%", "#step=3&step=4", ""):
        visit(tab, address, place)
        seen[place] = step_of(tab)
    assert seen == {"#step=3": 3, "#step=0": 1, "#step=99": 5, "#step=two": 1, "#nonsense": 1, "#%": 1,
                    "#step=3&step=4": 3, "": 1}  # fmt: skip


def test_an_address_holds_every_setting(opened: Opened) -> None:
    tab = opened("#step=5&lang=en&n=2048&b=8&ctx=32768&heads=8&kv=8&weights=4")
    said = tab.eval_on_selector_all(
        "#step-5 input", "all => all.filter(e => e.type == 'range' || e.checked).map(e => [e.dataset.dim, +e.value])"
    )
    stops = json.loads(tab.inner_text("#answers"))["stops"]
    assert {dim: stops[dim][i] for dim, i in said} == {"c": 32768, "b": 8, "h": 8, "k": 8, "w": 4}
    tab.keyboard.press("2")
    assert text(tab, "n.tokens", 2) == "2,048 tokens"
    assert "n=2048" in tab.url
    assert "ctx=32768" in tab.url


def test_wrong_settings_in_an_address_do_no_harm(opened: Opened, address: str) -> None:
    tab = opened()
    for wrong in (
        "n=-5",
        "n=0",
        "n=abc",
        "n=NaN",
        "n=1e999",
        "n=-1e308",
        "b=",
        "ctx=%00",
        "kv=16,8",
        "heads=<b>",
        "__proto__=1",
    ):
        visit(tab, address, f"#step=2&{wrong}")
        assert (step_of(tab), text(tab, "n.tokens", 2)) == (2, "4 tokens"), wrong


def test_a_setting_between_two_stops_takes_the_nearer(opened: Opened) -> None:
    tab = opened("#step=1&n=2500")
    assert text(tab, "n.tokens", 1) == "2,048 tokens"  # 2500/2048 < 4096/2500
    for asked, taken in (("3500", "4,096"), ("999999", "8,192"), ("1e300", "8,192")):
        tab.evaluate("hash => { location.hash = hash }", f"#step=1&n={asked}")
        tab.wait_for_function("n => document.querySelector('#step-1 .chosen').innerText.startsWith(n)", arg=taken)


def test_a_storm_of_steps_and_settings_leaves_one_step_and_its_figures(opened: Opened) -> None:
    tab = opened()
    for key in "5432154321":
        tab.keyboard.press(key)
    tab.evaluate("""() => { for (const e of document.querySelectorAll("#step-1 input, #step-5 input"))
        for (const v of [e.max || e.value, 0, e.max || e.value]) { e.value = v; e.dispatchEvent(new Event("input")) } }""")
    for go in ("back", "back", "back", "forward", "back", "forward", "forward"):
        tab.evaluate(f"history.{go}()")
    tab.evaluate("history.go(-99)")
    tab.wait_for_timeout(100)
    tab.keyboard.press("End")
    assert step_of(tab) == 5
    asked = dict(x.split("=") for x in tab.url.partition("#")[2].split("&"))
    assert text(tab, "c.tokens", 5) == f"{int(asked.get('ctx', '4096')):,} tokens"


@pytest.mark.parametrize(("by_x", "by_y", "step"), [(-120, 10, 3), (120, -10, 1), (-40, 0, 2), (-120, 100, 2)])
def test_a_swipe_turns_the_page_and_a_scroll_does_not(opened: Opened, by_x: int, by_y: int, step: int) -> None:
    tab = opened("#step=2", screen="phone", has_touch=True, is_mobile=True)
    _swipe(tab, "#step-2 .said", by_x, by_y)
    assert step_of(tab) == step


def test_a_swipe_on_a_slider_moves_no_page(opened: Opened) -> None:
    tab = opened("#step=2", screen="phone", has_touch=True, is_mobile=True)
    tab.locator("#s2-n").scroll_into_view_if_needed()
    _swipe(tab, "#s2-n", -120, 0)
    assert step_of(tab) == 2


def _swipe(tab: Page, selector: str, by_x: int, by_y: int) -> None:
    box = tab.locator(selector).bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    wire = tab.context.new_cdp_session(tab)
    wire.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for part in (0.5, 1.0):
        point = {"x": x + by_x * part, "y": y + by_y * part}
        wire.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    wire.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    tab.wait_for_timeout(50)


# Figures


def test_the_figures_of_twelve_settings_are_the_library_s(opened: Opened) -> None:
    d, tab = _example(), opened()
    for n, b in ((4, 1), (8, 2), (16, 256), (64, 4), (128, 1), (256, 16), (512, 64), (1024, 8), (2048, 1), (4096, 32),
                 (8192, 128), (8192, 1)):  # fmt: skip
        read, step = prefill(d, prompt_tokens=n), decode(d, context_tokens=n, batch=b)
        tab.evaluate("hash => { location.hash = hash }", f"#step=1&lang=en&n={n}&b={b}")
        tab.wait_for_function("n => document.querySelector('#step-1 .chosen').innerText === n", arg=f"{n:,} tokens")
        assert text(tab, "s1.q_proj.flops", 1) == f"{2 * n * 4096 * 4096:,}"
        tab.keyboard.press("2")
        assert text(tab, "s2.flops", 2) == format_si(float(read.executed_flops), "FLOP")
        assert text(tab, "s2.s", 2) == seconds(read.seconds)
        assert text(tab, "s2.bound", 2) == read.bound
        tab.keyboard.press("3")
        assert text(tab, "s3.layer", 3) == f"{n * 2 * 4096 * 2:,}"
        tab.keyboard.press("4")
        assert text(tab, "s4.s", 4) == seconds(step.seconds)
        assert text(tab, "s4.flops", 4) == format_si(float(step.executed_flops), "FLOP")


def test_the_script_changes_nothing_that_the_file_said_before_it_ran(
    opened: Opened, browser: Browser, address: str
) -> None:
    tab = opened("#lang=en")
    without = browser.new_context(java_script_enabled=False, offline=True)
    plain = without.new_page()
    plain.goto(address)
    words = "all => all.map(e => e.textContent)"
    before, after = plain.content(), tab.eval_on_selector_all("[data-v]", words)
    without.close()
    raw = re.findall(r'<b data-v="[\w.]+">([^<]*)</b>', before)
    assert [x.replace("&nbsp;", " ") for x in raw] == after
    assert len(after) > 200


# Words


@pytest.mark.parametrize(("locale", "lang"), [("zh-CN", "zh-Hans"), ("en-US", "en"), ("fr-FR", "en")])
def test_it_opens_in_the_reader_s_language(opened: Opened, locale: str, lang: str) -> None:
    tab = opened(locale=locale)
    assert tab.get_attribute("html", "lang") == lang


def test_the_switch_changes_every_word_of_every_step(opened: Opened) -> None:
    tab = opened("#step=1&lang=zh")
    assert tab.get_attribute("html", "lang") == "zh-Hans"
    for step in range(1, 6):
        tab.keyboard.press(str(step))
        shown = tab.inner_text("body")
        for key in (f"s{step}.title", "page.next"):
            assert sentences()[key]["zh"] in shown
            assert sentences()[key]["en"] not in shown
        # what is left in Latin letters are names, units and figures, no sentence
        assert re.findall(r"[a-z]+ [a-z]+ [a-z]+ [a-z]+", shown) == []
        assert re.findall(r"[\u4e00-\u9fff]", tab.get_attribute("nav", "aria-label") or "") != []
    tab.click("#language")
    assert tab.get_attribute("html", "lang") == "en"
    assert "lang=en" in tab.url
    tab.wait_for_function("document.getElementById('live').textContent.startsWith('Step')")
    assert re.findall(r"[\u4e00-\u9fff]", tab.inner_text("main")) == []


# For everyone


def test_no_step_is_wider_than_its_screen(opened: Opened) -> None:
    tab = opened("#step=1&lang=en")
    for width, height in SCREENS.values():
        tab.set_viewport_size({"width": width, "height": height})
        assert tab.evaluate(OVERFLOWS) == []


def test_on_a_narrow_screen_a_control_stands_before_what_it_moves(opened: Opened) -> None:
    tab = opened(screen="phone")
    for step in range(1, 6):
        tab.keyboard.press(str(step))
        tops = [
            tab.locator(f"#step-{step} {what}").first.bounding_box()
            for what in (".said", ".controls", ".mats", ".roof")
        ]
        heights = [box["y"] for box in tops if box is not None]
        assert len(heights) == 4
        assert heights == sorted(heights)


def test_letters_of_the_roofline_do_not_overlap(opened: Opened) -> None:
    tab = opened("#step=1&lang=en")
    for lang in ("en", "zh"):
        boxes = tab.eval_on_selector_all(
            "#step-1 .roof svg text:not([transform])",
            "all => all.filter(e => e.checkVisibility()).map(e => [e.textContent, e.getBBox()])"
            ".map(([t, b]) => [t, b.x, b.y, b.x + b.width, b.y + b.height])",
        )
        assert len(boxes) >= 12
        for i, (one, x0, y0, x1, y1) in enumerate(boxes):
            for other, u0, v0, u1, v1 in boxes[i + 1 :]:
                assert x1 <= u0 or u1 <= x0 or y1 <= v0 + 2 or v1 <= y0 + 2, (lang, one, other)
        tab.click("#language")


def test_fingers_may_zoom_in_and_the_bar_below_hides_no_focus(opened: Opened) -> None:
    tab = opened("#step=5", screen="phone", has_touch=True)
    assert "pinch-zoom" in tab.evaluate("getComputedStyle(document.body).touchAction")
    for _ in range(16):
        tab.keyboard.press("Tab")
        hidden = tab.evaluate(
            """() => { const e = document.activeElement, bar = document.querySelector(".turn").getBoundingClientRect();
                return !e.closest(".turn") && e !== document.body && e.getBoundingClientRect().top >= bar.top
                    && bar.bottom >= innerHeight ? e.outerHTML.slice(0, 80) : "" }"""
        )
        assert hidden == ""
    tab.set_viewport_size({"width": 320, "height": 200})  # 400 % of 1280 × 800
    assert tab.evaluate("getComputedStyle(document.querySelector('.turn')).position") == "static"


def test_in_forced_colours_the_roofline_and_the_choice_can_be_seen(opened: Opened) -> None:
    for scheme in ("light", "dark"):
        tab = opened("#step=5", forced_colors="active", color_scheme=scheme)
        ground, line = tab.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                      getComputedStyle(document.querySelector("#step-5 .roof .line")).stroke]"""
        )
        assert {ground, line} == {"rgb(255, 255, 255)", "rgb(0, 0, 0)"}
        borders = tab.eval_on_selector_all(
            "#step-5 .pill", "all => all.map(e => [e.firstChild.checked, getComputedStyle(e.lastChild).borderTopWidth])"
        )
        assert all((width == "3px") == chosen for chosen, width in borders)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_stands_out_from_its_ground(opened: Opened, scheme: str) -> None:
    """WCAG 2.2: 4.5 : 1 for text, worked out from the colours as drawn."""
    tab = opened("#step=1", color_scheme=scheme, reduced_motion="reduce")
    for step in range(1, 6):
        tab.keyboard.press(str(step))
        faint = tab.evaluate(CONTRAST)
        assert faint == []


OVERFLOWS = """() => { const found = [], prompt = document.querySelector("input[data-dim=n]");
  for (let twice = 0; twice < 2; twice++) {
    document.getElementById("language").click();
    for (const step of document.querySelectorAll("nav button")) for (const n of [0, 11, prompt.max]) {
      step.click(); prompt.value = n; prompt.dispatchEvent(new Event("input"));
      if (document.documentElement.scrollWidth > innerWidth) found.push([innerWidth, step.textContent, n]);
    } } return found }"""
CONTRAST = """() => {
  const parse = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const linear = x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.map(x => linear(x / 255));
    return .2126 * r + .7152 * g + .0722 * b };
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length && (c.length < 4 || c[3] > 0)) return c.slice(0, 3) } return [255, 255, 255] };
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode, e = text.parentElement;
    if (!text.data.trim() || e.closest("script, style, [hidden], [disabled]") || !e.checkVisibility()) continue;
    const style = getComputedStyle(e), ink = parse(e.closest("svg") ? style.fill : style.color).slice(0, 3);
    const a = light(ink), b = light(ground(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) found.push([text.data.trim(), ratio]);
  }
  return found }"""


def test_every_control_is_large_enough_for_a_finger(opened: Opened) -> None:
    tab = opened("#step=5", screen="phone", has_touch=True)
    small = tab.eval_on_selector_all(
        "button, .pill, input[type=range]",
        "all => all.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect()).filter(r => r.height < 44)",
    )
    assert small == []


def test_the_focus_can_be_seen(opened: Opened) -> None:
    tab = opened("#step=5")
    for _ in range(12):
        tab.keyboard.press("Tab")
        drawn = tab.evaluate(
            """() => { const e = document.activeElement, of = e.matches("input[type=radio]") ? e.nextElementSibling : e;
                const s = getComputedStyle(of); return [e.tagName, s.outlineStyle, parseFloat(s.outlineWidth)] }"""
        )
        assert drawn[1] != "none", drawn
        assert drawn[2] >= 2, drawn


def test_a_reader_of_the_screen_is_told_what_every_step_says(opened: Opened) -> None:
    tab = opened("#step=1&lang=en")
    tab.keyboard.press("4")
    tab.wait_for_function("document.getElementById('live').textContent !== ''")
    said = tab.inner_text("#live")
    assert said.startswith("Step 4 / 5: Decode one token. The pass reads 13.2 GB of weights")
    assert tab.get_attribute("nav [data-step='4']", "aria-current") == "step"
    assert tab.get_attribute("#s4-b", "aria-valuetext") == "1 sequence"
    tree = tab.locator("#step-4").aria_snapshot()
    assert 'heading "Decode one token" [level=2]' in tree
    assert 'slider "Batch"' in tree
    assert "table" in tree
    assert tree.count("img ") >= 2


def test_without_motion_nothing_moves(opened: Opened) -> None:
    tab = opened("#step=1", reduced_motion="reduce")
    moving = tab.eval_on_selector_all(
        "*", "all => all.filter(e => getComputedStyle(e).transitionDuration !== '0s').length"
    )
    assert moving == 0


def test_the_theme_follows_the_system_and_the_button_overrides_it(opened: Opened) -> None:
    tab = opened(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(ground)
    tab.click("#theme")
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"
    assert dark == "rgb(20, 22, 26)"


# Without a script, and on paper


def test_without_a_script_all_steps_stand_there(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True, viewport={"width": 1280, "height": 800})
    tab = context.new_page()
    tab.goto(address)
    assert [tab.locator(f"#step-{n}").is_visible() for n in range(1, 6)] == [True] * 5
    assert [tab.locator(f"#s{n}-n").is_visible() for n in (1, 2)] == [False, False]
    assert not tab.locator("#next").is_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_every_step_has_its_page(opened: Opened, scheme: str) -> None:
    tab = opened("#step=3&n=2048", color_scheme=scheme)
    pdf = tab.pdf(prefer_css_page_size=True)
    assert 5 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 6
    tab.emulate_media(media="print")
    assert [tab.locator(f"#step-{n}").is_visible() for n in range(1, 6)] == [True] * 5
    assert not tab.locator("#next").is_visible()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert text(tab, "n.tokens", 1) == "2,048 tokens"


def test_a_wide_model_with_a_name_of_markup_opens_without_complaint(browser: Browser, tmp_path: Path) -> None:
    """A folder and a model that would break out of text, attributes, JSON or script."""
    said: list[str] = []
    tab = browser.new_context(offline=True).new_page()
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    wild = """</script><script>document.title='x'</script>"><img src=x onerror=alert(1)>'{n}{{ 7*7 }}"""
    d = Deployment(model=model("qwen3-next-80b-a3b").model_copy(update={"id": wild}), hardware=hardware("m5-max"))
    folder = tmp_path / 'it\'s a "folder" 文件夹 #1 %41'
    folder.mkdir()
    path = folder / "page.html"
    path.write_text(page(d, prompt_tokens=1), encoding="utf-8")
    tab.goto(path.as_uri())
    assert tab.title() == f"From prompt to tokens: {wild} on {d.hardware.id}"
    assert tab.inner_text("h1") == tab.title()
    assert tab.locator("#step-1 .token:visible").all_inner_texts() == ["France"]
    for key in "2345":
        tab.keyboard.press(key)
    assert step_of(tab) == 5
    tab.context.close()
    assert said == []
