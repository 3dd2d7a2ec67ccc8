# SPDX-License-Identifier: MIT
"""The strict form of a tool's schema, and arguments that follow it.

Strict mode of OpenAI's API accepts a part of JSON Schema: every object is closed and has all of its
properties required, and some keywords are not known. strict_of() makes such a schema of one of
_tool_types.py. It says the same in another way: a parameter with a default may be null, which
stands for the default, and a mapping is a list of objects with the members key and value. relaxed()
turns arguments of this form back; those of the other form remain as they are.
"""

from __future__ import annotations

import json
from typing import Any

from ._errors import UsageError
from ._tool_schema import fault_of, resolve, step
from ._tool_types import Schema

NULL: Schema = {"type": "null"}

# Keywords that remain.
_KEPT = frozenset((
    "type", "description", "enum", "pattern", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
))  # fmt: skip
_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)


def strict_of(tool: str, schema: Schema) -> Schema:
    """The strict form of the schema of a tool's arguments; UsageError if there is none."""
    made = _strict(schema, schema, f"{tool}: ")
    inner = schema.get("$defs", {})
    if inner:
        made["$defs"] = {
            name: _strict(one, schema, f"{tool}: {name}") for name, one in inner.items()
        }
    return made


def _strict(schema: Schema, root: Schema, where: str) -> Schema:
    made = {key: value for key, value in schema.items() if key in _KEPT}
    if schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
    if "$ref" in schema:
        # Nothing may stand beside a reference.
        inner = {"$ref": schema["$ref"]}
        return {**made, "anyOf": [inner]} if made else inner
    if "const" in schema:
        made["enum"] = [schema["const"]]
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        made["anyOf"] = [_strict(one, root, where) for one in choices]
        return made
    if "enum" in made:
        made.setdefault("type", _types_of(made["enum"]))
    if made.get("type") == "object":
        return _strict_object(made, schema, root, where)
    if made.get("type") == "array":
        made["items"] = _strict_items(schema, root, where)
    if "type" not in made:
        raise _unknown(where)
    return made


def _unknown(where: str) -> UsageError:
    return UsageError(f"{where}: has no type that strict mode knows; annotate it", "tool")


def _types_of(values: list[Any]) -> Any:
    words = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    found = list(dict.fromkeys(words[type(value)] for value in values))
    return found[0] if len(found) == 1 else found


def _strict_object(made: Schema, schema: Schema, root: Schema, where: str) -> Schema:
    properties, more = schema.get("properties"), schema.get("additionalProperties", True)
    if properties is None and isinstance(more, dict):
        return _pairs(made, more, root, where)
    if properties is None or more is not False:
        raise UsageError(f"{where}: takes any member, which strict mode does not allow", "tool")
    required = schema.get("required", ())
    made["properties"] = {
        name: _strict_member(one, name in required, root, f"{where}/{name}")
        for name, one in properties.items()
    }
    made["required"] = list(properties)
    made["additionalProperties"] = False
    return made


def _strict_member(schema: Schema, required: bool, root: Schema, where: str) -> Schema:
    made = _strict(schema, root, where)
    if required:
        return made
    if fault_of(schema, None, "", root) is not None:  # null is no value of its own
        text = made.pop("description", "")
        made = {"anyOf": [*made["anyOf"], NULL] if set(made) == {"anyOf"} else [made, NULL]}
        shown = f", {json.dumps(schema['default'])}" if "default" in schema else ""
        made["description"] = f"{text} (null: the default{shown})".strip()
    return made


def _pairs(made: Schema, value: Schema, root: Schema, where: str) -> Schema:
    """A mapping as a list of pairs."""
    pair = {"key": {"type": "string"}, "value": _strict(value, root, f"{where}/*")}
    item = {"type": "object", "properties": pair, "required": ["key", "value"]}
    return {**made, "type": "array", "items": {**item, "additionalProperties": False}}


def _strict_items(schema: Schema, root: Schema, where: str) -> Schema:
    if "prefixItems" not in schema:
        if "items" not in schema:
            raise _unknown(f"{where}/0")
        return _strict(schema["items"], root, f"{where}/0")
    kinds: list[Schema] = []
    for index, one in enumerate(schema["prefixItems"]):
        kind = _strict(one, root, f"{where}/{index}")
        if kind not in kinds:
            kinds.append(kind)
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


# ---- arguments ----


def relaxed(schema: Schema, value: Any, root: Schema) -> Any:
    """A value as the schema itself wants it, if it has the strict form."""
    step()
    schema = resolve(schema, root)
    for one in schema.get("anyOf") or schema.get("oneOf") or ():
        made = relaxed(one, value, root)
        if fault_of(one, made, "", root) is None:
            return made
    kind = schema.get("type")
    if kind == "object":
        return _relaxed_object(schema, value, root)
    if kind == "array" and isinstance(value, (list, tuple)):
        inner = schema.get("prefixItems") or [schema.get("items", {})] * len(value)
        if len(inner) == len(value):
            return [relaxed(one, item, root) for one, item in zip(inner, value)]
    return value


def _relaxed_object(schema: Schema, value: Any, root: Schema) -> Any:
    properties, more = schema.get("properties"), schema.get("additionalProperties")
    if properties is None and isinstance(more, dict):
        value = _mapping_of(value)
        if isinstance(value, dict):
            return {name: relaxed(more, item, root) for name, item in value.items()}
        return value
    if not isinstance(value, dict):
        return value
    made, required = {}, schema.get("required", ())
    for name, item in value.items():
        inner = (properties or {}).get(name)
        if inner is None:
            made[name] = item
        elif item is not None or name in required or fault_of(inner, None, "", root) is None:
            made[name] = relaxed(inner, item, root)
    return made


def _mapping_of(value: Any) -> Any:
    """The mapping that a list of pairs stands for. Anything else, and a list with a key that comes
    twice, is returned as it is."""
    if not isinstance(value, list):
        return value
    if not all(isinstance(one, dict) and one.keys() == {"key", "value"} for one in value):
        return value
    keys = [one["key"] for one in value]
    if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
        return value
    return {one["key"]: one["value"] for one in value}
