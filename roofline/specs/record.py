"""The base of every record that crosses a file, and the one place where its errors become sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from roofline.errors import RooflineError, SpecError, did_you_mean, shorten, shown
from roofline.units import BYTES, BYTES_PER_S, FLOPS_PER_S, SECONDS, USD_PER_HOUR, WATTS, parse

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

__all__ = [
    "ByteRate",
    "Bytes",
    "FlopRate",
    "Names",
    "Record",
    "Seconds",
    "UsdPerHour",
    "Watts",
    "explain_validation",
]

Bytes = Annotated[float, BeforeValidator(lambda v: parse(v, BYTES))]
ByteRate = Annotated[float, BeforeValidator(lambda v: parse(v, BYTES_PER_S))]
FlopRate = Annotated[float, BeforeValidator(lambda v: parse(v, FLOPS_PER_S))]
Seconds = Annotated[float, BeforeValidator(lambda v: parse(v, SECONDS))]
Watts = Annotated[float, BeforeValidator(lambda v: parse(v, WATTS))]
Names = Annotated[tuple[str, ...], Field(strict=False)]  # a list will do
UsdPerHour = Annotated[float, BeforeValidator(lambda v: parse(v, USD_PER_HOUR))]


class _SaysWhatIsWrong(ModelMetaclass):
    """Makes a record called in Python raise one-line errors; nested validation keeps pydantic's own, with its paths."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        try:
            return super().__call__(*args, **kwargs)
        except ValidationError as error:
            raise _one_line(error, cast("type[BaseModel]", cls), f"{cls.__name__}(…)") from None


class Record(BaseModel, metaclass=_SaysWhatIsWrong):
    """Frozen, closed (unknown keys are errors), strict about types, built on first use so that importing stays light."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, strict=True, validate_by_name=True, validate_by_alias=True
    )

    def plain(self) -> dict[str, Any]:
        """Plain data as a file holds it: what differs from the defaults, and every `kind`.  `read` gives an equal record."""
        out: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name == "kind" or value != field.get_default(call_default_factory=True):
                out[field.alias or name] = _plain(value)
        return out

    @classmethod
    def read(cls, data: Any, *, where: str) -> Self:
        """Validate plain data (what a YAML file holds); a `SpecError` names the place, the want, the value, the cure."""
        if not isinstance(data, dict):
            raise SpecError(f"{where}: expected a mapping of keys to values, got {shown(data)}")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _one_line(error, cls, where) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.plain()
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _one_line(error: ValidationError, cls: type[BaseModel], where: str) -> RooflineError:
    problem, n = explain_validation(error, cls, most=1)[0], error.error_count()
    first = error.errors(include_url=False)[0].get("ctx", {}).get("error")
    if n == 1 and isinstance(first, RooflineError) and not isinstance(first, SpecError):
        return first
    more = f"  (and {n - 1} more)" if n > 1 else ""
    return SpecError(f"{where}: {problem}{more}")


def explain_validation(error: ValidationError, cls: type[BaseModel], *, most: int = 100) -> list[str]:
    """One sentence a problem, of the first so many: the dotted place, then what was expected and what came."""
    problems = []
    for item in sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")[:most]:
        # what is forbidden is a key of the file, whatever it is called
        last = len(item["loc"]) - 1 if item["type"] == "extra_forbidden" else -1
        steps = [s for i, s in enumerate(item["loc"]) if i == last or not _is_marker(s)]
        place = "".join(f"{s}: " for s in (".".join(shorten(str(s), 40) for s in steps),) if s)
        problems.append(place + _sentence(dict(item), steps, cls))
    more = error.error_count() - most
    return problems if more <= 0 else [*problems, f"and {more:,} more"]


def _is_marker(step: int | str) -> bool:
    """Whether a step of pydantic's path is a word of its own and no key."""
    return isinstance(step, str) and (step == "[key]" or step.startswith("function-"))


def _sentence(item: dict[str, Any], steps: list[int | str], cls: type[BaseModel]) -> str:
    kind, value, context = item["type"], item.get("input"), item.get("ctx", {})
    if kind == "extra_forbidden":
        known = _keys_at(cls, steps[:-1])
        hint = did_you_mean(str(steps[-1]), known) or (f"; known keys: {', '.join(sorted(known))}" if known else "")
        return f"unknown key{hint}"
    if kind == "missing":
        return "missing; this key is required"
    if kind == "value_error":
        return str(context.get("error", item["msg"]))
    if kind == "literal_error":
        return f"expected one of {context['expected']}, got {shown(value)}{_near(value, context['expected'])}"
    if kind in ("too_short", "too_long") and context.get("actual_length") is not None:
        bound = f"least {context['min_length']:,}" if kind == "too_short" else f"most {context['max_length']:,}"
        return f"expected at {bound} items, got {context['actual_length']:,}"
    if kind == "union_tag_invalid":
        return f"unknown kind {context['tag']!r}; expected one of {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return f"expected a mapping with a kind: key, got {shown(value)}"
    message = str(item["msg"])
    message = message[0].lower() + message[1:]
    return f"{message.replace('input should be', 'expected')}, got {shown(value)}"


def _near(value: object, expected: str) -> str:
    return did_you_mean(str(value), [w.strip(" '") for w in expected.replace(" or ", ",").split(",")])


def _keys_at(cls: type[BaseModel], steps: list[int | str]) -> set[str]:
    """The keys that the record at `steps` knows, under the names a file uses; empty where it cannot be told."""
    found: list[type[BaseModel]] = [cls]
    names = iter([s for s in steps if not isinstance(s, int)])
    for name in names:
        tagged = [r for r in found if "kind" in r.model_fields and r.model_fields["kind"].default == name]
        if len(found) > 1 and tagged:  # the tag of a union is a step of the path
            found = tagged
            continue
        annotation = _annotation(found[0], name) if len(found) == 1 else None
        if getattr(annotation, "__origin__", None) is dict:
            next(names, None)  # the next step is a key of the mapping, not of a record
        found = list(_records_in(annotation))
    return {f.alias or name for name, f in found[0].model_fields.items()} if len(found) == 1 else set()


def _annotation(cls: type[BaseModel], key: str) -> Any:
    return next((f.annotation for name, f in cls.model_fields.items() if key in (name, f.alias)), None)


def _records_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _records_in(inner)
