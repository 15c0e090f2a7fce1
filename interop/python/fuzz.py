# A parser for "ratelimit fuzz", as one writes it by hand in twenty lines.
import json
import sys

NAMES = {"q": "quota", "qu": "unit", "w": "window", "pk": "partition_key", "r": "remaining", "t": "reset"}


def read(lines):
    members = []
    for text in ", ".join(lines).split(","):
        name, *params = text.strip().split(";")
        member = {"name": name.strip('"')}
        for param in params:
            key, _, value = param.strip().partition("=")
            if key in ("qu", "pk"):
                member[NAMES[key]] = value.strip('":')
            elif key in NAMES:
                member[NAMES[key]] = int(value)
            else:
                member.setdefault("params", []).append([key, value.strip('"') or True])
        members.append(member)
    return members


for line in sys.stdin:
    case = json.loads(line)
    try:
        answer = {"ok": True, "members": read(case["lines"])}
    except ValueError:
        answer = {"ok": False}
    print(json.dumps({"id": case["id"], **answer}), flush=True)
