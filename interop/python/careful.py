# A parser for "ratelimit fuzz": the reader of vectors.py.
import json
import sys

from vectors import read

for line in sys.stdin:
    case = json.loads(line)
    case["kind"] = "limits" if case["field"] == "RateLimit" else "policies"
    members = read(case)
    print(json.dumps({"id": case["id"], "ok": members is not None, "members": members}), flush=True)
