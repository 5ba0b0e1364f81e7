"""The official openai and anthropic clients against a router before simulated workers: each function is one check.

    python sdk.py http://127.0.0.1:8800

Run by clients_test.go; checks.py says what is printed. MODEL is served by simulated engines, SHY by a worker that answers 429 with
Retry-After at first, SLOW by one that does not answer, TOOLS by one that calls a tool.
"""

import json
import time

import anthropic
import openai

import checks

MODEL, SHY, SLOW, TOOLS = "m", "shy", "slow", "tools"
ASK = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Name three colours, nothing else."}]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def openai_client(base, **more):
    return openai.OpenAI(base_url=base + "/v1", api_key="unused", **{"max_retries": 0, "timeout": 30, **more})


def anthropic_client(base, **more):
    return anthropic.Anthropic(base_url=base, api_key="unused", **{"max_retries": 0, "timeout": 30, **more})


def raised(kind, call):
    """The exception that a call ends with, which must be of exactly that class."""
    try:
        call()
    except Exception as e:
        assert type(e) is kind, "%r, want %s" % (e, kind.__name__)
        return e
    raise AssertionError("no %s" % kind.__name__)


def openai_chats(base):
    client = openai_client(base)
    assert MODEL in [m.id for m in client.models.list()], "the model is not listed"
    assert client.models.retrieve(MODEL).id == MODEL
    whole = client.chat.completions.create(model=MODEL, messages=ASK, max_completion_tokens=12, seed=7, user="u-1", n=1, temperature=0)
    assert whole.choices[0].message.content and whole.usage.completion_tokens <= 12 and whole.choices[0].finish_reason in ("stop", "length"), whole
    text, usage, pieces = "", None, 0
    for chunk in client.chat.completions.create(model=MODEL, messages=ASK, max_completion_tokens=12, seed=7, temperature=0, stream=True,
                                                stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text, pieces = text + (choice.delta.content or ""), pieces + 1
        usage = chunk.usage or usage
    assert text == whole.choices[0].message.content and usage.prompt_tokens == whole.usage.prompt_tokens, (text, usage, whole)
    with client.chat.completions.stream(model=MODEL, messages=ASK, temperature=0) as stream:  # this helper takes no answer that met a limit
        for event in stream:
            if event.type == "chunk":
                assert event.chunk.choices, "a chunk without choices reached a client that did not ask for usage"
        assert stream.get_final_completion().choices[0].message.content
    return {"text": text, "pieces": pieces}


def openai_others(base):
    client = openai_client(base)
    plain = client.completions.create(model=MODEL, prompt=["One, two,", "a, b,"], max_tokens=4)
    assert len(plain.choices) == 2 and plain.choices[1].text, plain
    streamed = "".join(c.choices[0].text for c in client.completions.create(model=MODEL, prompt="One, two,", max_tokens=4, stream=True) if c.choices)
    assert streamed == plain.choices[0].text, (streamed, plain)
    # The client asks for base64 by itself, and makes numbers of it.
    vectors = client.embeddings.create(model=MODEL, input=["a", "b"])
    assert len(vectors.data) == 2 and isinstance(vectors.data[0].embedding[0], float), vectors.data[0].embedding[:3]
    plain_numbers = client.embeddings.create(model=MODEL, input="a", encoding_format="float").data[0].embedding
    assert all(abs(x - y) < 1e-6 for x, y in zip(plain_numbers, vectors.data[0].embedding, strict=True)), plain_numbers[:3]
    answer = client.responses.create(model=MODEL, input="Say hello.", instructions="Be brief.", max_output_tokens=8)
    assert answer.output_text and answer.usage.output_tokens <= 8, answer
    kinds, text = [], ""
    with client.responses.stream(model=MODEL, input="Say hello.", instructions="Be brief.", max_output_tokens=8) as stream:
        for event in stream:
            kinds.append(event.type)
            text += event.delta if event.type == "response.output_text.delta" else ""
    assert text == answer.output_text and kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), (text, kinds)
    # Tools reach the engine as they were sent; whether it calls one is the engine's affair.
    told = client.chat.completions.create(model=MODEL, messages=ASK, tools=[TOOL], tool_choice="auto", parallel_tool_calls=False, max_tokens=4)
    assert told.choices[0].message.role == "assistant", told
    return {"answer": text, "events": len(kinds)}


def openai_errors(base):
    client, seen = openai_client(base), {}
    e = raised(openai.NotFoundError, lambda: client.chat.completions.create(model="no-such-model", messages=ASK))
    assert e.code == "model_not_found" and MODEL in e.message and e.request_id, (e.code, e.message, e.request_id)
    seen["unknown model"] = e.message
    e = raised(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 200_000}]))
    seen["too long"] = e.message[:120]
    e = raised(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages="no list"))
    seen["no list"] = e.message[:120]
    e = raised(openai.NotFoundError, lambda: client.get("../nothing", cast_to=object))
    seen["no path"] = e.message[:120]
    e = raised(openai.RateLimitError, lambda: client.chat.completions.create(model=SHY, messages=ASK))
    assert e.response.headers["retry-after"], dict(e.response.headers)
    # A stream that is refused is refused as an answer, before it begins.
    raised(openai.NotFoundError, lambda: client.chat.completions.create(model="no-such-model", messages=ASK, stream=True))
    raised(openai.APITimeoutError, lambda: openai_client(base, timeout=0.3).chat.completions.create(model=SLOW, messages=ASK))
    return seen


def openai_retries(base):
    """The client waits as long as Retry-After says, and is answered then."""
    began = time.monotonic()
    answer = openai_client(base, max_retries=3).chat.completions.create(model=SHY, messages=ASK)
    took = time.monotonic() - began
    assert answer.choices[0].message.content and took >= 1, (answer, took)
    return {"seconds": round(took, 2)}


def anthropic_chats(base):
    client = anthropic_client(base)
    ask = dict(model=MODEL, max_tokens=12, system=[{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}],
               messages=[{"role": "user", "content": [{"type": "text", "text": "Name three colours."}]}], metadata={"user_id": "u-1"},
               stop_sequences=["\n\nHuman:"])
    whole = client.messages.create(**ask)
    assert whole.content[0].text and whole.usage.output_tokens <= 12 and whole.stop_reason in ("end_turn", "max_tokens"), whole
    kinds = []
    with client.messages.stream(**ask) as stream:
        for event in stream:
            kinds.append(event.type)
        final = stream.get_final_message()
    assert final.content[0].text == whole.content[0].text, (final, whole)
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and "content_block_delta" in kinds and "message_delta" in kinds, kinds
    counted = client.messages.count_tokens(model=MODEL, system=ask["system"], messages=ask["messages"])
    read = whole.usage.cache_read_input_tokens or 0
    assert counted.input_tokens == whole.usage.input_tokens + read, (counted, whole.usage)
    told = client.messages.create(**ask, tools=[{"name": "get_weather", "description": "The weather.", "input_schema": TOOL["function"]["parameters"]}],
                                  tool_choice={"type": "auto"})
    assert told.role == "assistant", told
    beta = client.beta.messages.create(**ask, betas=["interleaved-thinking-2025-05-14"])
    assert beta.content[0].text == whole.content[0].text, beta
    return {"text": final.content[0].text, "events": len(kinds)}


def anthropic_errors(base):
    client, seen = anthropic_client(base), {}
    ask = [{"role": "user", "content": "hello"}]
    e = raised(anthropic.NotFoundError, lambda: client.messages.create(model="no-such-model", messages=ask, max_tokens=4))
    assert e.body["type"] == "error" and e.body["error"]["type"] == "not_found_error" and e.request_id, e.body
    seen["unknown model"] = e.body["error"]["message"]
    e = raised(anthropic.BadRequestError, lambda: client.messages.create(model=MODEL, messages=[{"role": "user", "content": "word " * 200_000}], max_tokens=4))
    assert e.body["error"]["type"] == "invalid_request_error", e.body
    seen["too long"] = e.body["error"]["message"][:120]
    e = raised(anthropic.RateLimitError, lambda: client.messages.create(model=SHY, messages=ask, max_tokens=4))
    assert e.body["error"]["type"] == "rate_limit_error" and e.response.headers["retry-after"], e.body
    raised(anthropic.APITimeoutError, lambda: anthropic_client(base, timeout=0.3).messages.create(model=SLOW, messages=ask, max_tokens=4))
    return seen


def openai_tools(base):
    """A tool is called, streamed and not, and its answer goes back."""
    client = openai_client(base)
    ask = dict(model=TOOLS, messages=[{"role": "user", "content": "Weather in Oslo?"}], tools=[TOOL])
    call = client.chat.completions.create(**ask).choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and json.loads(call.function.arguments) == {"city": "Oslo"}, call
    with client.chat.completions.stream(**ask) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls" and streamed.message.tool_calls[0].function.arguments == call.function.arguments, streamed
    ask["messages"] += [{"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
                        {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    told = client.chat.completions.create(**ask).choices[0].message
    assert told.content == "It rains." and not told.tool_calls, told
    return {"call": call.function.arguments}


def anthropic_tools(base):
    """The model thinks, calls a tool, streamed and not, and is told its result."""
    client = anthropic_client(base)
    ask = dict(model=TOOLS, max_tokens=2000, messages=[{"role": "user", "content": "Weather in Oslo?"}], thinking={"type": "enabled", "budget_tokens": 1024},
               tools=[{"name": "get_weather", "description": "The weather.", "input_schema": TOOL["function"]["parameters"]}])
    whole = client.messages.create(**ask)
    assert [b.type for b in whole.content] == ["thinking", "tool_use"] and whole.content[1].input == {"city": "Oslo"} and whole.stop_reason == "tool_use", whole
    with client.messages.stream(**ask) as stream:
        final = stream.get_final_message()
    assert [b.type for b in final.content] == ["thinking", "tool_use"] and final.content[1].input == {"city": "Oslo"}, final
    assert final.content[0].thinking == whole.content[0].thinking and final.content[0].signature == whole.content[0].signature, final
    ask["messages"] = ask["messages"] + [{"role": "assistant", "content": [b.model_dump() for b in whole.content]}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": whole.content[1].id, "content": "rain"}]}]
    told = client.messages.create(**ask)
    assert told.content[0].text == "It rains.", told
    return {"call": final.content[1].input}


if __name__ == "__main__":
    checks.run([openai_chats, openai_others, openai_errors, openai_retries, openai_tools, anthropic_chats, anthropic_errors, anthropic_tools])
