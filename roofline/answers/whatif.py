"""What if: any record with something changed, and a chip with its ceilings moved."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from pydantic.fields import FieldInfo

from roofline.errors import SpecError, did_you_mean, require, shorten, shown
from roofline.num import checked
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware, Link
from roofline.specs.precision import Precision
from roofline.specs.record import ByteRate, Bytes, FlopRate, Record, Seconds, UsdPerHour, Watts
from roofline.work.step import Seqs

__all__ = ["CEILINGS", "Ceiling", "scaled", "vary"]

R = TypeVar("R", bound=Record)
Path: TypeAlias = tuple[str, ...]

Ceiling: TypeAlias = Literal["peak", "bandwidth", "link_bandwidth", "link_latency", "capacity"]
CEILINGS: tuple[Ceiling, ...] = get_args(Ceiling)
"""What of a chip can be moved by a factor: FLOP/s of all dtypes, memory B/s, B/s and s of links, B."""

_UNITS = tuple(
    (get_args(quantity)[1], unit)
    for quantity, unit in (
        (Bytes, "B"),
        (ByteRate, "B/s"),
        (FlopRate, "FLOP/s"),
        (Seconds, "s"),
        (Watts, "W"),
        (UsdPerHour, "USD/h"),
    )
)


def vary(record: Any, **changes: Any) -> Any:
    """The same record with fields changed, validated again as when it is read from a file.

    Parameters
    ----------
    record : Hardware, Model, Plan, Precision, Deployment, Efficiency, Seqs, …
        Any record of the library.
    **changes
        Field: value. A field inside another record is a dotted path, `**{"memory.bandwidth": "2 TB/s"}`; an item of a tuple
        goes by its number (`layers.0.repeat`). Fields are spelled as in a file (`bandwidth`: a text with a unit) or as the
        attribute (`bytes_per_s`: its name says the unit, so a plain number will do). A deployment takes `weights`, `kv`,
        `activations` and `head` too. A list of values gives a record for each; two lists, one for every pair (the last
        varies fastest); what is a list in a file is given as a tuple.

    Returns
    -------
    The kind of record that was given, or a tuple of them.

    Raises
    ------
    SpecError
        Unknown field, or a value that a file may not hold.

    Notes
    -----
    Nothing is inferred: a chip keeps its id and its `sources`, which are those of the original; give `id=` to tell them
    apart, and `sources={}` where a figure is taken away.

    Examples
    --------
    >>> from roofline.specs.catalog import hardware, model
    >>> chip = vary(hardware("h100-sxm-80gb"), **{"memory.bandwidth": "6.7 TB/s"})
    >>> chip.ridge("bf16") / hardware("h100-sxm-80gb").ridge("bf16")
    0.5
    >>> d = Deployment(model=model("llama-3.1-8b"), hardware=chip)
    >>> [x.numerics.weights.bits for x in vary(d, weights=["bf16", "fp8"])]
    [16.0, 8.0]
    """
    where = f"vary({type(record).__name__})"
    if not isinstance(record, (Record, Deployment, Seqs)):
        raise SpecError(
            f"{where}: expected a record such as a Hardware, a Model or a Deployment, got {shown(record)}; "
            "make one with roofline.hardware(name), roofline.model(name), roofline.Deployment(…)"
        )
    several = {path: value for path, value in changes.items() if isinstance(value, list)}
    points = (dict(zip(several, point, strict=True)) for point in itertools.product(*several.values()))
    made = tuple(_with(record, _paths(changes | point), where) for point in points)
    return made if several else made[0]


def scaled(
    hardware: Hardware,
    *,
    peak: float = 1.0,
    bandwidth: float = 1.0,
    link_bandwidth: float = 1.0,
    link_latency: float = 1.0,
    capacity: float = 1.0,
) -> Hardware:
    """The chip with its ceilings times factors: what a what-if changes, and a throttled chip lacks.

    `peak` moves every peak of every dtype, those that only bound included; `link_bandwidth` and `link_latency` every link
    (scale-up, scale-out and host, over which chips of a PCIe box meet); `capacity` the memory [1]. The record keeps its id
    and sources.

    >>> from roofline.specs.catalog import hardware
    >>> h100 = hardware("h100-sxm-80gb")
    >>> scaled(h100, bandwidth=2).hbm_bytes_per_s / h100.hbm_bytes_per_s
    2.0
    """
    require(hardware, Hardware, "scaled(hardware)")
    given = {"peak": peak, "bandwidth": bandwidth, "link_bandwidth": link_bandwidth, "link_latency": link_latency}
    for name, factor in (given | {"capacity": capacity}).items():
        checked(factor, name=name, low=0.0, above=True)
    matrix = {
        dtype: _times(p, peak, "peak_flops_per_s", "peak_acc16_flops_per_s", "peak_max_flops_per_s")
        for dtype, p in hardware.compute.matrix.items()
    }
    vector = {dtype: rate * peak for dtype, rate in hardware.compute.vector.items()}
    memory = _times(_times(hardware.memory, bandwidth, "bytes_per_s"), capacity, "capacity_bytes")
    sizes = {label: _times(size, bandwidth, "bytes_per_s") for label, size in memory.sizes.items()}
    links = {
        way: _moved(getattr(hardware.links, way), link_bandwidth, link_latency)
        for way in ("scale_up", "scale_out", "host")
    }
    return hardware.model_copy(
        update={
            "compute": hardware.compute.model_copy(update={"matrix": matrix, "vector": vector}),
            "memory": memory.model_copy(update={"sizes": sizes}),
            "links": hardware.links.model_copy(update=links),
        }
    )


def _moved(link: Link | None, bandwidth: float, latency: float) -> Link | None:
    if link is None:
        return None
    faster = _times(link, bandwidth, "bytes_per_s", "pair_bytes_per_s")
    declared = link.declared_latency_s if latency == 1.0 else link.latency_s * latency
    return faster.model_copy(update={"declared_latency_s": declared})


def _times(record: R, factor: float, *names: str) -> R:
    """Some fields times a factor, where they are given."""
    values = {name: getattr(record, name) for name in names}
    return record.model_copy(update={name: v * factor for name, v in values.items() if v is not None})


# How a path finds its field


def _paths(changes: Mapping[str, Any]) -> dict[Path, Any]:
    return {tuple(path.split(".")): value for path, value in changes.items()}


def _with(old: Any, changes: Mapping[Path, Any], where: str) -> Any:
    """A record, a mapping or a tuple with what lies at each path replaced."""
    if () in changes:
        if len(changes) > 1:
            raise SpecError(f"{where}: given both whole and in part; give one of the two")
        return changes[()]
    if isinstance(old, Record):
        return _record_with(old, _by_head(changes), where)
    if isinstance(old, (Deployment, Seqs)):
        return _dataclass_with(old, changes, where)
    if isinstance(old, dict):
        return old | {key: _with(old.get(key), rest, f"{where}.{key}") for key, rest in _by_head(changes).items()}
    if isinstance(old, tuple):
        return _tuple_with(old, _by_head(changes), where)
    field = next(iter(changes))[0]
    raise SpecError(f'{where}: there is no "{field}" in {shown(old)}; give {where.rpartition(".")[2]} as a whole')


def _by_head(changes: Mapping[Path, Any]) -> dict[str, dict[Path, Any]]:
    heads: dict[str, dict[Path, Any]] = {}
    for (head, *rest), value in changes.items():
        heads.setdefault(head, {})[tuple(rest)] = value
    return heads


def _record_with(record: Record, heads: Mapping[str, Mapping[Path, Any]], where: str) -> Record:
    """All fields as a file would hold them, the changed ones replaced, read again."""
    fields = type(record).model_fields
    data = {name: _written(field, getattr(record, name)) for name, field in fields.items()}
    name_of = {field.alias or name: name for name, field in fields.items()} | {name: name for name in fields}
    for head, rest in heads.items():
        if head not in name_of:
            raise _unknown(head, record, where)
        name = name_of[head]
        new = _with(data[name], rest, f"{where}.{head}")
        is_attribute = head == name != (fields[name].alias or name)
        data[name] = _written(fields[name], new) if is_attribute else new
    if "id" not in fields or "id" in heads:
        return type(record).read(_as_in_a_file(fields, data), where=where)
    kept = {"id": data["id"]}  # may carry a mark, as m5-max-40c:64GB does, which an id in a file may not
    return type(record).read(_as_in_a_file(fields, data | {"id": "varied"}), where=where).model_copy(update=kept)


def _as_in_a_file(fields: Mapping[str, FieldInfo], data: Mapping[str, Any]) -> dict[str, Any]:
    return {fields[name].alias or name: value for name, value in data.items()}


def _dataclass_with(record: Deployment | Seqs, changes: Mapping[Path, Any], where: str) -> Deployment | Seqs:
    if isinstance(record, Deployment):
        changes = {("precision", *p) if p[0] in Precision.model_fields else p: v for p, v in changes.items()}
    names = {field.name for field in dataclasses.fields(record)}
    heads = _by_head(changes)
    for head in heads:
        if head not in names:
            raise _unknown(head, record, where)
    return dataclasses.replace(
        record, **{head: _with(getattr(record, head), rest, f"{where}.{head}") for head, rest in heads.items()}
    )


def _tuple_with(old: tuple[Any, ...], heads: Mapping[str, Mapping[Path, Any]], where: str) -> tuple[Any, ...]:
    for head in heads:
        if not (head.isdecimal() and int(head) < len(old)):
            raise SpecError(f'{where}: expected the number of an item, 0 to {len(old) - 1}, got "{head}"')
    return tuple(_with(v, heads[str(i)], f"{where}.{i}") if str(i) in heads else v for i, v in enumerate(old))


def _unknown(head: str, record: Record | Deployment | Seqs, where: str) -> SpecError:
    """No such field; perhaps one with a name like it, or one of this name inside another."""
    known = _spellings(record)
    inside = list(_places(record, head))
    listed = did_you_mean(head, known) or f"; it has {', '.join(known)}"
    near = f"; did you mean {' or '.join(inside)}?" if inside else listed
    return SpecError(f'{where}: no field "{shorten(head)}"{near}')


def _places(record: Any, head: str) -> Iterator[str]:
    """Paths, through records only, at which there is a field of this name."""
    for name in _attributes(record):
        child = getattr(record, name)
        yield from [f"{name}.{head}"] if head in _spellings(child) else []
        yield from (f"{name}.{place}" for place in _places(child, head))


def _attributes(record: Any) -> list[str]:
    if isinstance(record, Record):
        return list(type(record).model_fields)
    return [f.name for f in dataclasses.fields(record)] if isinstance(record, (Deployment, Seqs)) else []


def _spellings(record: Any) -> list[str]:
    """The names of a record's fields, in a file and as attributes."""
    if isinstance(record, Record):
        return [word for n, f in type(record).model_fields.items() for word in dict.fromkeys((f.alias or n, n))]
    return _attributes(record)


# How a value is written in a file


def _written(field: FieldInfo, value: Any) -> Any:
    """A number with the unit of its field, as a file holds it: 3.35e12 of a byte rate is "3350000000000.0 B/s"."""
    unit = next((unit for marker in _markers(field) for known, unit in _UNITS if marker == known), None)
    return value if unit is None else _with_unit(value, unit)


def _with_unit(value: Any, unit: str) -> Any:
    if isinstance(value, dict):
        return {key: _with_unit(v, unit) for key, v in value.items()}
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{float(value)!r} {unit}" if is_number else value


def _markers(field: FieldInfo) -> list[Any]:
    """The annotations of a field and of what it is made of (`dict[str, ByteRate]`, `Bytes | None`)."""

    def inside(hint: Any) -> list[Any]:
        return [*getattr(hint, "__metadata__", ()), *(m for inner in get_args(hint) for m in inside(inner))]

    return [*field.metadata, *inside(field.annotation)]
