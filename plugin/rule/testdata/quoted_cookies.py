"""Writes quoted_cookies.json: Cookie headers, and what Python's http.cookies reads of sid.

    python3 quoted_cookies.py > quoted_cookies.json
"""
import http.cookies
import json
import random

random.seed(1)
pieces = ["\\", "\\\\", '\\"', "\\1", "\\14", "\\141", "\\400", "\\377", "\\08", "\\a", "0", "1", "7", "8", "a", "b", " ", "\\073", ","]
cases = []
while len(cases) < 600:
    value = "".join(random.choice(pieces) for _ in range(random.randint(0, 6)))
    header = 'a=1; sid="%s"; b=2' % value
    read = http.cookies.SimpleCookie(header)
    if len(read) == 3:  # otherwise the quotes end elsewhere
        cases.append({"Header": header, "Value": read["sid"].value})
print(json.dumps(cases, indent=0))
