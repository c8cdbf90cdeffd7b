"""The dashboard as Grafana imports it: JSON of schema 39, for any data source, of no fixed id."""

from __future__ import annotations

import json
from typing import Any

from roofline.answers.checklist import Checklist
from roofline.errors import SpecError
from roofline.views.dashboard.panels import Panel, Row, rows_of
from roofline.views.dashboard.promql import Queries
from roofline.views.engine_names import NAMES

__all__ = ["dashboard", "written"]

SCHEMA = 39
WIDTH, HEIGHT = 24, 8
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
GREY, INK, FULL = "#8E8E8E", "text", "#C18B00"
COLOURS = ("#2187FC", "#D7642A", "#06A75C")
"""Of metrics, in the order of their queries: far from one another for every kind of colour vision, on both grounds."""


def dashboard(c: Checklist) -> dict[str, Any]:
    """The dashboard of a checklist, for its deployment's engine.

    Raises
    ------
    SpecError
        Of an engine whose metrics are not known here, and of a service that holds no request.
    """
    engine = c.deployment.engine.id
    names = NAMES.get(engine)
    if names is None:
        raise SpecError(f"dashboard: the metrics of {engine} are not known here; use --engine {' or '.join(NAMES)}")
    if not c.serving.fits:
        raise SpecError("dashboard: no request fits, so there is nothing to expect; roofline memory says what would")
    q, d = Queries(names), c.deployment
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "description": "", "type": "datasource",
                      "pluginId": "prometheus", "pluginName": "Prometheus"}],
        "__requires": [{"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
                       {"type": "panel", "id": "timeseries", "name": "Time series", "version": ""}],
        "id": None, "uid": None, "title": f"{d.model.id} on {d.hardware.id}: measured and predicted",
        "description": f"Lines predicted for {c.rate_per_s:g} requests a second on {c.n_replicas} × {d.n_chips} × "
        f"{d.hardware.id}, {c.mix.prompt_mean:,.0f} in and {c.mix.output_mean:,.0f} out in the mean. Metrics of "
        f"{d.engine.name} {names.version}.",
        "tags": ["roofline", engine], "editable": True, "schemaVersion": SCHEMA, "version": 1, "graphTooltip": 1,
        "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "templating": {"list": _variables(q)}, "annotations": {"list": []}, "links": [],
        "panels": _laid_out(rows_of(c, q)),
    }  # fmt: skip


def written(c: Checklist) -> str:
    """The JSON; ends in a line break."""
    return json.dumps(dashboard(c), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _variables(q: Queries) -> list[dict[str, Any]]:
    """The data source, and which servers; whatever has the engine's gauge of running requests is offered."""
    gauge = q.names.metrics["running"]
    found: list[dict[str, Any]] = [
        {"name": "DS_PROMETHEUS", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}
    ]
    narrowed = ""
    for name, label in (("job", "Job"), ("model_name", "Model"), ("instance", "Server")):
        query = f"label_values({gauge}{{{narrowed}}}, {name})" if narrowed else f"label_values({gauge}, {name})"
        found.append({
            "name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": query,
            "query": {"query": query, "refId": name}, "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "sort": 1, "hide": 0,
        })  # fmt: skip
        narrowed += f'{"," if narrowed else ""}{name}=~"${name}"'
    return found


def _laid_out(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """Rows one under another, the panels of one side by side."""
    found: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        found.append({"id": len(found) + 1, "type": "row", "title": row.title, "collapsed": False, "panels": [],
                      "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y}})  # fmt: skip
        y += 1
        width = WIDTH // len(row.panels)
        for i, panel in enumerate(row.panels):
            place = {"h": HEIGHT, "w": width, "x": i * width, "y": y}
            found.append(_panel(panel, len(found) + 1, place))
        y += HEIGHT
    return found


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": _letter(i), "datasource": SOURCE, "editorMode": "code", "expr": query, "legendFormat": legend,
         "range": True, "instant": False}
        for i, (legend, query) in enumerate(panel.targets)
    ]  # fmt: skip
    top = {} if panel.top is None else {"max": panel.top}
    return {
        "id": number, "type": "timeseries", "title": panel.title, "description": panel.description, "datasource": SOURCE,
        "gridPos": place, "targets": targets,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit, "min": 0, **top, "noValue": "no traffic",
                "color": {"mode": "palette-classic"},
                "custom": {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 0, "showPoints": "never", "spanNulls": False},
                "thresholds": {"mode": "absolute", "steps": [{"color": INK, "value": None}]},
            },
            "overrides": [*_of_metrics(panel), *_OF_LINES],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                    "tooltip": {"mode": "multi", "sort": "none"}},
    }  # fmt: skip


def _letter(i: int) -> str:
    return chr(ord("A") + i)


def _override(matcher: dict[str, str], colour: str, **custom: Any) -> dict[str, Any]:
    properties = [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}]
    properties += [{"id": f"custom.{name}", "value": value} for name, value in custom.items()]
    return {"matcher": matcher, "properties": properties}


def _of_metrics(panel: Panel) -> list[dict[str, Any]]:
    """A colour for each query of a metric; the one that is computed is dotted."""
    plain = [legend for legend, _ in panel.queries if legend != "expected now"]
    found = [
        _override({"id": "byName", "options": legend}, colour) for legend, colour in zip(plain, COLOURS, strict=False)
    ]
    if len(plain) < len(panel.queries):
        dots = {"fill": "dot", "dash": [2, 6]}
        found.append(_override({"id": "byName", "options": "expected now"}, "#6B0E75", lineStyle=dots))
    return found


_DASH = {"fill": "dash", "dash": [8, 6]}
_OF_LINES = [
    _override({"id": "byRegexp", "options": "/^predicted/"}, GREY, lineStyle=_DASH, lineWidth=1),
    _override({"id": "byRegexp", "options": "/^SLO/"}, INK, lineWidth=1),
    _override({"id": "byRegexp", "options": "/^capacity/"}, FULL, lineStyle=_DASH, lineWidth=1),
]
