# python3 client.py http://127.0.0.1:8700/ 50
import collections
import concurrent.futures
import sys
import urllib.error
import urllib.request


def get(address):
    try:
        with urllib.request.urlopen(address) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


address, n = sys.argv[1], int(sys.argv[2])
with concurrent.futures.ThreadPoolExecutor(10) as workers:
    counts = collections.Counter(workers.map(get, [address] * n))
print("map[" + " ".join(f"{status}:{count}" for status, count in counts.items()) + "]")
