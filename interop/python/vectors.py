# Reads RateLimit-Policy and RateLimit by RFC 9651 Section 4.2. Of each case of policies.json
# and limits.json it prints the members in the form of the vectors, or null if it rejects them.
import base64
import json
import re
import sys
import urllib.parse

ITEM = re.compile(rb"""(?P<decimal>-?\d{1,12}\.\d{1,3})(?![\d.]) | (?P<integer>-?\d{1,15})(?![\d.])
    | "(?P<string>(?:[ !#-\[\]-~]|\\["\\])*)" | (?P<token>[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*)
    | :(?P<binary>[A-Za-z0-9+/]*={0,2}): | \?(?P<boolean>[01]) | @(?P<date>-?\d{1,15})(?![\d.])
    | %"(?P<displaystring>(?:[ !#$&-~]|%[0-9a-f]{2})*)" """, re.X)
COMMA = re.compile(rb"[ \t]*(,?)[ \t]*")
PARAMETER = re.compile(rb"; *([a-z*][a-z0-9_.*-]*)(=?)")
FIELDS = {
    "policies": {"q": ("quota", int, 0), "qu": ("unit", str, ""), "w": ("window", int, 1), "pk": ("partition_key", bytes, b"")},
    "limits": {"r": ("remaining", int, 0), "t": ("reset", int, 0), "pk": ("partition_key", bytes, b"")},
}

TYPES = {
    "integer": int, "decimal": float, "boolean": lambda raw: raw == b"1",
    "string": lambda raw: re.sub(rb"\\(.)", rb"\1", raw).decode(),
    "binary": lambda raw: base64.b64decode(raw if b"=" in raw else raw + b"=" * (-len(raw) % 4)),
    "token": lambda raw: {"__type": "token", "value": raw.decode()},
    "displaystring": lambda raw: {"__type": "displaystring", "value": urllib.parse.unquote_to_bytes(raw).decode()},
    "date": lambda raw: {"__type": "date", "value": int(raw)},
}


def parse_item(text, at):
    match = ITEM.match(text, at)
    if not match:
        raise ValueError("no item")
    return TYPES[match.lastgroup](match[match.lastgroup]), match.end()


def parse_member(text, at, defined):
    name, at = parse_item(text, at)
    params = {}
    while match := PARAMETER.match(text, at):
        value, at = parse_item(text, match.end()) if match[2] else (True, match.end())
        params[match[1].decode()] = value  # of two with one key the last one counts
    if type(name) is not str:
        raise ValueError("the name is no String")
    member = {"name": name}
    for key, value in params.items():
        if key not in defined:
            if type(value) is bytes:
                value = {"__type": "binary", "value": base64.b32encode(value).decode()}
            member.setdefault("params", []).append([key, value])
            continue
        called, wanted, least = defined[key]
        if type(value) is not wanted or wanted is int and value < least:
            raise ValueError("a wrong value")
        if value != "":  # qu="" is as good as absent
            member[called] = base64.b64encode(value).decode() if wanted is bytes else value
    if next(iter(defined.values()))[0] not in member:
        raise ValueError("a required parameter is absent")
    return member, at


def read(case):
    text = ", ".join(case["lines"]).encode("latin-1").strip(b" ")
    members, at = [], 0
    try:
        while at < len(text):
            member, at = parse_member(text, at, FIELDS[case["kind"]])
            members.append(member)
            comma = COMMA.match(text, at)
            if bool(comma[1]) == (comma.end() == len(text)):
                raise ValueError("no comma, or nothing behind it")
            at = comma.end()
    except ValueError:
        return None
    return members


if __name__ == "__main__":
    json.dump([read(case) for case in json.load(sys.stdin)], sys.stdout)
