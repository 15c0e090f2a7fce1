# A client that obeys: of each case of sequences.json that has "next" it says when it sends
# the next request, in milliseconds. It reads Integers alone, which is all that these cases have.
import json
import re
import sys

MEMBER = re.compile(r'"([^"]*)"((?:;[a-z]+=[0-9]+)*)$')


def parse_header(lines):
    header = {}
    for line in lines:
        name, value = line.split(":", 1)
        header.setdefault(name.lower(), []).append(value.strip())
    return {name: ", ".join(values) for name, values in header.items()}


def parse_members(value):
    """Returns the parameters of each member by name; nothing of a field that is malformed."""
    members = {}
    for text in value.split(", ") if value else []:
        match = MEMBER.match(text)
        if not match:
            return {}
        members[match[1]] = {key: int(n) for key, n in (p.split("=") for p in match[2].split(";")[1:])}
    return members


def limits_of(header):
    """Yields what remains of each limit, and for how many seconds."""
    policies = parse_members(header.get("ratelimit-policy"))
    for name, limit in parse_members(header.get("ratelimit")).items():
        yield limit["r"], limit.get("t", policies.get(name, {}).get("w", 0))
    if "ratelimit" not in header and "x-ratelimit-remaining" in header:
        yield int(header["x-ratelimit-remaining"]), int(header["x-ratelimit-reset"])


def next_request(exchanges):
    """Each answer replaces the limits of earlier ones; a request takes one of each limit."""
    events = [(x["sent"], False, x) for x in exchanges]
    events += [(x["received"], True, x) for x in exchanges if "received" in x]
    limits, learnt, free = [], -1, 0
    for now, answered, x in sorted(events, key=lambda event: event[:2]):
        if not answered:
            limits = [(remaining - 1, end) for remaining, end in limits]
            continue
        header = parse_header(x.get("header", []))
        if "retry-after" in header:  # it goes before all else
            free = max(free, now + 1000 * int(header["retry-after"]))
            continue
        told = list(limits_of(header))
        if not told or x["sent"] < learnt:  # it says nothing, or what was true before
            continue
        learnt = x["sent"]
        under_way = sum(learnt < y["sent"] <= now < y.get("received", now + 1) for y in exchanges)
        limits = [(remaining - under_way, now + 1000 * seconds) for remaining, seconds in told]
    return max([free, now] + [end for remaining, end in limits if remaining <= 0])


json.dump([next_request(case["exchanges"]) for case in json.load(sys.stdin)], sys.stdout)
