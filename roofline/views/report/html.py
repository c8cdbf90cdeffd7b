"""A report as one HTML file that asks nothing of any other: light and dark, narrow and wide, on paper."""

from __future__ import annotations

import re
from html import escape

from roofline.views.report.blocks import Block, Code, Report, Section, Shares, Table, Text
from roofline.views.words import percent

__all__ = ["page"]

# Colours: those of the figures (phases), each at least 3:1 on its ground; text at least 7:1.
STYLE = """
:root{--ground:#fff;--ink:#111;--dim:#4a4a4a;--line:#c9c9c9;--panel:#f4f5f7;--first:#035ac0;--second:#b33201;
--ok:#00613f;--note:#6b4b00;--fail:#9c1c00;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--ground:#14161a;--ink:#f5f5f5;--dim:#c2c5cb;--line:#4a4e57;--panel:#1f2228;
--first:#2187fc;--second:#d7642a;--ok:#5fe0a8;--note:#fcc51c;--fail:#ff9a80}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--ground);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC",sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0;overflow-wrap:anywhere}
h2{font-size:1.15rem;line-height:1.3;margin:2rem 0 .5rem;border-top:1px solid var(--line);padding-top:1rem}
.verdict{border-left:.4rem solid var(--dim);background:var(--panel);padding:.6rem .8rem;margin:.5rem 0 1rem}
.verdict.ok{border-color:var(--ok)}.verdict.note{border-color:var(--note)}.verdict.fail{border-color:var(--fail)}
.state{font-weight:700;white-space:nowrap}.ok .state,.state.ok{color:var(--ok)}
.note .state,.state.note{color:var(--note)}.fail .state,.state.fail{color:var(--fail)}
.wide{overflow-x:auto;margin:.75rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9375rem}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left;padding-left:0}
thead th{color:var(--dim);font-weight:600}
td.words,th.words{text-align:left;min-width:12rem}
.bar{display:flex;height:1.1rem;border:1px solid var(--line);margin:.25rem 0}
.bar i{display:block;background:var(--first)}
.bar i:nth-child(2){background:repeating-linear-gradient(135deg,var(--second) 0 6px,var(--ground) 6px 8px)}
figure{margin:.75rem 0}figcaption{color:var(--dim);font-size:.9375rem}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{background:var(--panel);padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere;margin:.75rem 0}
footer{color:var(--dim);font-size:.875rem;border-top:1px solid var(--line);margin-top:2rem;padding-top:.75rem}
@media (max-width:30rem){body{padding:.75rem}h1{font-size:1.25rem}td.words,th.words{min-width:9rem}}
@media print{:root{--ground:#fff;--ink:#000;--dim:#333;--line:#999;--panel:#fff;--first:#035ac0;--second:#b33201;
--ok:#00613f;--note:#6b4b00;--fail:#9c1c00}body{max-width:none;padding:0;font-size:10pt}.wide{overflow:visible}
h2,thead{break-after:avoid}tr,figure,pre,.verdict{break-inside:avoid}*{print-color-adjust:exact}}
""".strip()
STATES = {"READY": "ok", "OK": "ok", "READY WITH NOTES": "note", "NOTE": "note"}


def page(report: Report) -> str:
    """The report as a page; nothing in it is fetched, and a policy in its head says so."""
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(report.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n"
    )
    verdict = f'<p class="verdict {_class(report.state)}">{_state(report.state)}: {_inline(report.verdict)}</p>'
    parts = [f"<h1>{escape(report.title)}</h1>", verdict, _block(report.head)]
    for section in report.sections:
        blocks = "\n".join(_block(block) for block in section.blocks)
        parts.append(f"<section>\n{_title(section)}\n{blocks}\n</section>")
    body = "\n".join(parts)
    return f"{head}<body>\n<main>\n{body}\n</main>\n<footer>{_inline(report.foot)}</footer>\n</body>\n</html>\n"


def _class(state: str) -> str:
    return STATES.get(state, "fail")


def _state(state: str) -> str:
    return f'<span class="state {_class(state)}">{escape(state)}</span>'


def _title(section: Section) -> str:
    return f"<h2>{escape(section.title)}" + (f" {_state(section.state)}" if section.state else "") + "</h2>"


def _inline(text: str) -> str:
    """Names and what stands out, of a text that is escaped first."""
    named = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", named)


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Table():
            return _table(block)
        case Shares(name, parts):
            bars = "".join(f'<i style="width:{100.0 * min(max(share, 0.0), 1.0):.2f}%"></i>' for _, share in parts)
            said = ", ".join(f"{label} {percent(share)}" for label, share in parts)
            caption = f"<figcaption>{_inline(f'{name}: {said}')}</figcaption>"
            return f'<figure><div class="bar" aria-hidden="true">{bars}</div>{caption}</figure>'
        case Code(text):
            return f"<pre><code>{escape(text, quote=False)}</code></pre>"


def _table(table: Table) -> str:
    """Prose to the left, figures to the right; scrolls within itself where it is wider than the page."""
    prose = table.prose

    def cells(tag: str, row: list[str]) -> str:
        marks = [' class="words"' if prose[i] and i else "" for i in range(len(row))]
        return "".join(f"<{tag}{mark}>{_inline(cell)}</{tag}>" for mark, cell in zip(marks, row, strict=True))

    head = f"<thead><tr>{cells('th', list(table.head))}</tr></thead>" if any(table.head) else ""
    rows = "".join(f"<tr>{cells('td', list(row))}</tr>" for row in table.rows)
    return f'<div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>'
