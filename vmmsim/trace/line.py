# SPDX-License-Identifier: MIT-0
"""A line of a trace, as schema.json has it: its members, the kinds of change, and whether a line is one."""

import json
import pathlib
import re

SCHEMA = json.loads((pathlib.Path(__file__).parent / "schema.json").read_text())
TYPES = {"integer": int, "string": str, "array": list, "object": dict}
EXTRA = "began", "correlation", "fault", "version"  # of some lines
KEYS = {key: TYPES[rule["type"]] for key, rule in SCHEMA["properties"].items() if key not in EXTRA}  # in their order
MAY_LACK = KEYS.keys() - set(SCHEMA["required"])  # as older recordings do
VERSION = SCHEMA["properties"]["version"]["maximum"]
ENDS = "exit", "vanished"  # of processes
NO_CALLS = *ENDS, "begin", "close", "executed", "fence", "gone", "send", "sleep", "unordered", "wait"  # no calls
SUCCESS = "CUDA_SUCCESS", "cudaSuccess", ""  # the last is that of NO_CALLS
# The members of each kind of change: may be null ("?"), may be missing ("*").
CHANGES = {
    kind: {
        name: "*" if name not in definition["required"] else "?" if member["$ref"].endswith("_or_null") else ""
        for name, member in definition["properties"].items()
        if name not in ("kind", "order")
    }
    for kind, definition in SCHEMA["$defs"].items()
    if "properties" in definition
}
MEMBERS = {kind: {"kind", "order", *members} for kind, members in CHANGES.items()}
ADDRESS = re.compile("0x[0-9a-f]{1,16}")
IN_WORDS = {int: "a number", str: "a text", list: "a list", dict: "an object"}


def number(value: int | str | None) -> int | str | None:
    """A number, also if it is written as an address is; of another text and of nothing the same."""
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def known_part(line: dict) -> tuple[dict, list[str]]:
    """A line without what only a newer writer knows; and the names of that: members, kinds of change, their members."""
    new = [key for key in line if key not in KEYS and key not in EXTRA]
    known = {key: value for key, value in line.items() if key not in new} if new else line
    changes = line.get("changes")
    if not isinstance(changes, list) or all(knows(change) for change in changes):
        return known, new
    kept = []
    for change in changes:
        if knows(change):
            kept.append(change)
        elif change["kind"] not in MEMBERS:
            new.append(change["kind"])
        else:
            members = MEMBERS[change["kind"]]
            new += [f"{key} of {change['kind']}" for key in change if key not in members]
            kept.append({key: value for key, value in change.items() if key in members})
    return known | {"changes": kept}, new


def knows(change):
    """Whether there is nothing to leave out of it. What is no change at all, validate_call() says."""
    if not isinstance(change, dict) or not isinstance(kind := change.get("kind"), str):
        return True
    return kind in MEMBERS and change.keys() <= MEMBERS[kind]


def validate_call(line: dict) -> str:
    """What was expected instead of this object, or ""."""
    missing = [key for key in KEYS if key not in line and key not in MAY_LACK]
    if missing or line.keys() - KEYS.keys() - {*EXTRA}:
        return f"the members {', '.join(KEYS)}" + (f"; missing is {', '.join(missing)}" if missing else "")
    for key, kind in KEYS.items():
        value = line.get(key, kind())
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{key} as {IN_WORDS[kind]}"
    for key in "began", "correlation":
        if type(line.get(key, 0)) is not int:
            return f"{key} as a number"
    if not is_version(line.get("version", 1)):
        return "the version as a number from 1"
    if not all(isinstance(caller, str) for caller in line["callers"]):
        return "texts as the callers"
    fault = line.get("fault", {"where": "", "why": ""})
    if not isinstance(fault, dict) or any(type(fault.get(key)) is not str for key in ("where", "why")):
        return "where and why of a fault as texts"
    if not isinstance(fault.get("launch", ""), str):
        return "launch of a fault as a text"
    if not is_address(fault.get("address")):
        return "an address of a fault, or null"
    for change in line["changes"]:
        if not isinstance(change, dict) or not isinstance(change.get("kind"), str):
            return "changes that have a kind"
        if not isinstance(change.get("order"), int):
            return "changes that have an order"
        for key, value in change.items():
            if key != "kind" and not is_number(key, value):
                return f"{key} of a change as a number"
    return ""


def is_number(key, value):
    """Of a change: one that makes sense, as a number or as --trace writes an address; or nothing."""
    if isinstance(value, int):
        return value >= (-1 if key in ("device", "peer") else 0)  # -1 is the host
    return is_address(value)


def is_version(value):
    return type(value) is int and value >= 1


def is_address(value):
    """Or nothing."""
    return value is None or isinstance(value, str) and bool(ADDRESS.fullmatch(value))


def members_of(change):
    """The members of a change that is_number() holds for, by name; None if they are not those of its kind."""
    wanted = CHANGES[change["kind"]]
    members = {key: number(value) for key, value in change.items() if key not in ("order", "kind")}
    has_all = all(key in members or mark == "*" for key, mark in wanted.items())
    known = all(key in wanted and (value is not None or wanted[key] == "?") for key, value in members.items())
    return members if has_all and known else None
