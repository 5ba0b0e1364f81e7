"""Runs checks one after the other and prints one JSON object: for each by its name what it returned, or {"error": where it failed}."""

import json
import sys
import traceback


def run(functions):
    said = {}
    for f in functions:
        try:
            said[f.__name__] = f(sys.argv[1].rstrip("/"))
        except BaseException:
            said[f.__name__] = {"error": traceback.format_exc()}
    print(json.dumps(said))
