"""A report as Markdown."""

from __future__ import annotations

from roofline.views.report.blocks import Block, Code, Report, Section, Shares, Table, Text
from roofline.views.words import percent

__all__ = ["markdown"]


def markdown(report: Report) -> str:
    """The report as GitHub and CommonMark with tables have it; ends in a line break."""
    parts = [f"# {report.title}", f"**{report.state}**: {report.verdict}", _block(report.head)]
    for section in report.sections:
        parts.extend([_title(section), *(_block(block) for block in section.blocks)])
    return "\n\n".join([*parts, "---", report.foot]) + "\n"


def _title(section: Section) -> str:
    return f"## {section.title}" + (f" — {section.state}" if section.state else "")


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return text
        case Table(head, rows):
            lines = [head, ["---" if words else "---:" for words in block.prose], *rows]
            return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        case Shares(name, parts):
            return f"{name}: " + ", ".join(f"{label} {percent(share)}" for label, share in parts) + "."
        case Code(text):
            return f"```sh\n{text}\n```"
