"""The official openai and anthropic clients against a router: each function is one check, and prints one JSON object.

    python clients.py CHECK http://127.0.0.1:8800

Run by e2e_test.go; the exit code is not zero when a check fails.
"""

import json
import sys
import urllib.error
import urllib.request

import anthropic
import openai

MODEL = "smollm2"
GREEDY = {"temperature": 0}  # for clients that know no such argument: they refuse it for the models of their own house
ASK = [{"role": "user", "content": "Name three colours, nothing else."}]


def openai_client(base):
    # No retries: a failure must be seen here, not be mended by the client.
    return openai.OpenAI(base_url=base + "/v1", api_key="unused", max_retries=0, timeout=120)


def anthropic_client(base):
    return anthropic.Anthropic(base_url=base, api_key="unused", max_retries=0, timeout=120)


def chat_openai(base):
    client = openai_client(base)
    assert MODEL in [m.id for m in client.models.list()], "the model is not listed"

    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=ASK, max_tokens=16, temperature=0)
    worker = raw.headers.get("x-warmpath-worker")
    whole = raw.parse()
    assert worker, "an answer without X-Warmpath-Worker"
    assert whole.choices[0].message.content and whole.usage.prompt_tokens > 0, whole

    text, chunks = "", 0
    for chunk in client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=16, temperature=0, stream=True):
        assert chunk.choices, "a chunk without choices reached a client that did not ask for usage"
        text += chunk.choices[0].delta.content or ""
        chunks += 1
    assert text == whole.choices[0].message.content, (text, whole.choices[0].message.content)
    assert chunks > 3, "the stream came in %d pieces" % chunks

    usage = None
    for chunk in client.chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=16, temperature=0, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
    assert usage and usage.prompt_tokens == whole.usage.prompt_tokens, "usage asked for in a stream did not come"

    plain = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=4, temperature=0)
    assert plain.choices[0].text, plain
    answer = client.responses.create(model=MODEL, input="Say hello.", max_output_tokens=8)
    assert answer.output_text, answer
    return {"worker": worker, "text": text, "chunks": chunks}


def chat_anthropic(base):
    client = anthropic_client(base)
    whole = client.messages.create(model=MODEL, messages=ASK, max_tokens=16, extra_body=GREEDY)
    assert whole.content[0].text and whole.usage.output_tokens > 0, whole

    with client.messages.stream(model=MODEL, messages=ASK, max_tokens=16, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text, (text, whole.content[0].text)
    assert final.stop_reason in ("end_turn", "max_tokens"), final

    counted = client.messages.count_tokens(model=MODEL, messages=ASK)
    read = whole.usage.cache_read_input_tokens or 0
    assert counted.input_tokens == whole.usage.input_tokens + read, (counted, whole.usage)
    return {"text": text, "input_tokens": counted.input_tokens}


def cancel(base):
    """Leaves a long stream after three pieces, and closes the connection."""
    client = openai_client(base)
    stream = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Count from one to one thousand."}],
        max_tokens=2000, stream=True, extra_body={"ignore_eos": True},
    )
    for seen, _ in enumerate(stream):
        if seen == 3:
            break
    stream.close()
    client.close()
    return {"pieces": 3}


def post(base, path, body):
    request = urllib.request.Request(base + path, data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def errors(base):
    """An error of the router and one of the engine, in each dialect, as the client's own exception."""
    too_long = [{"role": "user", "content": "word " * 12000}]
    seen = {}

    client = openai_client(base)
    try:
        client.chat.completions.create(model="no-such-model", messages=ASK)
        raise AssertionError("an unknown model was answered")
    except openai.NotFoundError as e:
        assert MODEL in e.message and e.body["type"], e.body
        seen["openai_unknown_model"] = e.message
    try:
        client.chat.completions.create(model=MODEL, messages=too_long, max_tokens=4)
        raise AssertionError("a prompt of 12,000 words was answered")
    except openai.BadRequestError as e:
        assert e.body["message"], e.body
        seen["openai_too_long"] = e.message
    try:
        client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=4, extra_body={"temperature": "hot"})
        raise AssertionError("a temperature of \"hot\" was answered")
    except openai.BadRequestError as e:
        assert "temperature" in e.message, e.body  # the engine's own words
        seen["openai_engine"] = e.message

    client = anthropic_client(base)
    try:
        client.messages.create(model="no-such-model", messages=ASK, max_tokens=4)
        raise AssertionError("an unknown model was answered")
    except anthropic.NotFoundError as e:
        assert e.body["type"] == "error" and e.body["error"]["type"] == "not_found_error", e.body
        seen["anthropic_unknown_model"] = e.body["error"]["message"]
    try:
        client.messages.create(model=MODEL, messages=too_long, max_tokens=4)
        raise AssertionError("a prompt of 12,000 words was answered")
    except anthropic.BadRequestError as e:
        seen["anthropic_too_long"] = str(e)
    try:
        client.messages.create(model=MODEL, messages=ASK, max_tokens=4, extra_body={"temperature": "hot"})
        raise AssertionError("a temperature of \"hot\" was answered")
    except anthropic.BadRequestError as e:
        assert "temperature" in str(e), e.body
        seen["anthropic_engine"] = str(e)

    # llama.cpp says 500 to malformed JSON, at which clients try again for ever.
    status, body = post(base, "/v1/chat/completions", b'{"model": "smollm2", "messages": [')
    assert status == 400 and body["error"]["message"], (status, body)
    seen["openai_malformed"] = body["error"]["message"]
    status, body = post(base, "/v1/messages", b'{"model": "smollm2", "messages": [')
    assert status == 400 and body["type"] == "error" and body["error"]["type"] == "invalid_request_error", (status, body)
    seen["anthropic_malformed"] = body["error"]["message"]
    return seen


CHECKS = {f.__name__: f for f in (chat_openai, chat_anthropic, cancel, errors)}

if __name__ == "__main__":
    print(json.dumps(CHECKS[sys.argv[1]](sys.argv[2].rstrip("/"))))
