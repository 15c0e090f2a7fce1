# python3 client.py http://127.0.0.1:8080/ sends requests until one is refused, and prints each answer:
# the status, what remains, and after a refusal the seconds to wait.
import email.utils
import re
import sys
import urllib.error
import urllib.request

status = 200
while status == 200:
    try:
        response = urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={"Authorization": "python3"}))
    except urllib.error.HTTPError as refusal:
        response = refusal
    status, headers = response.status, response.headers
    field = headers.get("RateLimit")
    line = [status, re.search(r"r=(\d+)", field)[1] if field else headers["X-RateLimit-Remaining"]]
    if status != 200:
        now = email.utils.parsedate_to_datetime(headers["Date"]).timestamp()
        line.append(headers.get("Retry-After") or int(headers["X-RateLimit-Reset"]) - int(now))
    print(*line)
