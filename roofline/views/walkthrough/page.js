(() => {
  "use strict";
  // Nothing is computed here: `answers` holds the text of every figure at every setting, and this looks it up.
  const root = document.documentElement;
  const { stops, keys, start, slots } = JSON.parse(document.getElementById("answers").textContent);
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const all = (selector) => [...document.querySelectorAll(selector)];
  const steps = all("section.step"), sliders = all("input[type=range]"), radios = all("input[type=radio]");
  const at = { ...start };
  let step = 1, spoken = 0;
  const isChinese = () => root.lang.startsWith("zh");
  const kept = { get: (k) => { try { return localStorage.getItem(k); } catch { return null; } },
                 set: (k, v) => { try { localStorage.setItem(k, v); } catch { /* a page may do without */ } } };

  const text = (name, chinese) => {
    const [dims, texts, codes] = slots[name];
    let i = 0;
    for (const dim of dims) i = i * stops[dim].length + at[dim];
    const two = texts.length > 64, at64 = (k) => digits.indexOf(codes[k]);
    const found = texts[two ? at64(2 * i) * 64 + at64(2 * i + 1) : at64(i)];
    return typeof found === "string" ? found : found[chinese ? 1 : 0];
  };
  const figures = all("[data-v]").map((e) => [e, e.dataset.v, e.closest("[lang]") === root ? null : e.closest("[lang]").lang.startsWith("zh")]);
  const settings = all("[data-set]").flatMap((e) => e.dataset.set.split(";").map((x) => [e, ...x.split(":")])).filter((x) => x[2] in slots);

  const fill = () => {
    for (const [e, name, chinese] of figures) e.textContent = text(name, chinese ?? isChinese());
    for (const [e, attribute, name] of settings) {
      if (attribute.startsWith("--")) e.style.setProperty(attribute, text(name));
      else e.setAttribute(attribute, text(name));
    }
    for (const e of sliders) {
      e.value = at[e.dataset.dim];
      e.setAttribute("aria-valuetext", visible(e.parentElement.querySelector(".chosen")));
    }
    for (const e of radios) e.checked = Number(e.value) === at[e.dataset.dim];
    for (const e of all("[data-choice]")) e.dataset[e.dataset.choice] = at[e.dataset.choice];
  };
  const visible = (e) => {
    const hidden = isChinese() ? "en" : "zh-Hans", copy = e.cloneNode(true);
    copy.querySelectorAll(`[lang="${hidden}"]`).forEach((x) => x.remove());
    return copy.textContent.trim().replace(/\s+/g, " ");
  };

  const words = () => {
    const found = [`step=${step}`, `lang=${isChinese() ? "zh" : "en"}`];
    for (const dim of Object.keys(keys)) if (at[dim] !== start[dim]) found.push(`${keys[dim]}=${stops[dim][at[dim]]}`);
    return "#" + found.join("&");
  };
  const nearest = (dim, value) => {
    const wanted = Number(value);
    if (value === "" || !Number.isFinite(wanted)) return start[dim];
    const apart = stops[dim].map((x) => Math.abs(Math.log((x + 1) / (Math.max(wanted, 0) + 1))));
    return apart.indexOf(Math.min(...apart));
  };
  const readAddress = () => {
    const asked = new URLSearchParams(location.hash.slice(1)), n = Number.parseInt(asked.get("step"), 10);
    step = Number.isNaN(n) ? 1 : Math.min(Math.max(n, 1), steps.length);
    for (const dim of Object.keys(keys)) at[dim] = asked.has(keys[dim]) ? nearest(dim, asked.get(keys[dim])) : start[dim];
    const language = asked.get("lang") ?? kept.get("roofline-lang") ?? ("asked" in root.dataset ? root.lang : navigator.language);
    speakIn(String(language).toLowerCase().startsWith("zh"));
  };
  const note = (how) => { try { history[how]({}, "", words()); } catch { location.replace(words()); } };

  const speakIn = (chinese) => {
    root.lang = chinese ? "zh-Hans" : "en";
    for (const e of all("[data-en]")) e.setAttribute("aria-label", chinese ? e.dataset.zh : e.dataset.en);
    document.title = visible(document.querySelector("h1"));
  };
  const show = ({ focus = false } = {}) => {
    steps.forEach((e, i) => { e.hidden = i + 1 !== step; });
    all("nav [data-step]").forEach((e) => { if (Number(e.dataset.step) === step) e.setAttribute("aria-current", "step"); else e.removeAttribute("aria-current"); });
    document.getElementById("back").disabled = step === 1;
    document.getElementById("next").disabled = step === steps.length;
    fill();
    if (focus) document.getElementById(`h${step}`).focus({ preventScroll: true });
    if (focus) window.scrollTo({ top: Math.min(window.scrollY, document.querySelector("main").offsetTop) });
  };
  const announce = (wait) => {
    clearTimeout(spoken);
    spoken = setTimeout(() => {
      const section = steps[step - 1];
      document.getElementById("live").textContent = `${visible(section.querySelector(".eyebrow"))}: ${visible(section.querySelector("h2"))}. ${visible(section.querySelector(".said"))}`;
    }, wait);
  };
  const go = (n, focus = true) => {
    const wanted = Math.min(Math.max(n, 1), steps.length);
    if (wanted === step) return;
    step = wanted;
    note("pushState"); show({ focus }); announce(0);
  };
  const choose = (dim, value) => { at[dim] = Number(value); note("replaceState"); fill(); announce(300); };

  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.isComposing || e.keyCode === 229 || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
    if (e.target.closest("input, select, textarea, [contenteditable]")) return;
    const wide = e.target.closest(".wide");
    if (wide && wide.scrollWidth > wide.clientWidth && e.key.startsWith("Arrow")) return;
    const to = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 1, End: steps.length }[e.key] ?? (/^[1-5]$/.test(e.key) ? Number(e.key) : null);
    if (to === null) return;
    e.preventDefault(); go(to);
  });
  all("nav [data-step]").forEach((e) => e.addEventListener("click", () => go(Number(e.dataset.step))));
  document.getElementById("back").addEventListener("click", () => go(step - 1));
  document.getElementById("next").addEventListener("click", () => go(step + 1));
  for (const e of [...sliders, ...radios]) e.addEventListener("input", () => choose(e.dataset.dim, e.value));
  document.getElementById("language").addEventListener("click", () => { speakIn(!isChinese()); kept.set("roofline-lang", root.lang); note("replaceState"); fill(); announce(0); });
  document.getElementById("theme").addEventListener("click", () => { dark(!root.classList.contains("dark")); kept.set("roofline-theme", root.classList.contains("dark") ? "dark" : "light"); });
  window.addEventListener("popstate", () => { readAddress(); show(); announce(0); });
  window.addEventListener("hashchange", () => { if (location.hash !== words()) { readAddress(); show(); announce(0); } });

  let touch = null;
  document.addEventListener("touchstart", (e) => {
    const wide = e.target.closest(".wide");
    const own = e.target.closest("input, button, summary") || (wide && wide.scrollWidth > wide.clientWidth);
    touch = e.touches.length === 1 && !own ? e.touches[0] : null;
  }, { passive: true });
  document.addEventListener("touchend", (e) => {
    if (!touch || (window.visualViewport?.scale ?? 1) > 1.01) return;
    const x = e.changedTouches[0].clientX - touch.clientX, y = e.changedTouches[0].clientY - touch.clientY;
    touch = null;
    if (Math.abs(x) >= 50 && Math.abs(x) > 1.5 * Math.abs(y)) go(step + (x < 0 ? 1 : -1));
  }, { passive: true });

  const dark = (on) => root.classList.toggle("dark", on);
  const theme = kept.get("roofline-theme"), scheme = matchMedia("(prefers-color-scheme: dark)");
  dark(theme ? theme === "dark" : scheme.matches);
  scheme.addEventListener("change", () => { if (!kept.get("roofline-theme")) dark(scheme.matches); });
  root.classList.add("live");
  readAddress(); show();
})();
