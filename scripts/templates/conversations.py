"""Conversations that a chat template has to write: roles in every order, parts, tools, calls and results, reasoning, scripts, white space."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather at a place <b>&'\"é中",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City and country"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
                "more": {
                    "type": ["object", "null"],
                    "properties": {"zeta": {"type": "number"}, "alpha": {"type": "array", "items": {"type": "string"}}},
                },
            },
            "required": ["place"],
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the web",
        "parameters": {
            "type": "object",
            "properties": {
                "q": {"type": "string"},
                "n": {"type": "integer"},
                "safe": {"type": "boolean", "default": True},
                "ratio": {"type": "number", "default": 0.5},
            },
            "required": ["q", "n"],
        },
        "strict": True,
    },
}
CLOCK = {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, id="call_1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content, id="call_1", name="get_weather"):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


def text(*parts):
    return [{"type": "text", "text": part} for part in parts]


def conversations():
    """Each is the names that a template gets, beside the special tokens."""
    all = []

    def add(messages, tools=None, add_generation_prompt=True, **more):
        all.append({"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": add_generation_prompt, **more})

    add([user("Hello!")])
    add([user("Hello!")], add_generation_prompt=False)
    add([system("You are a helpful assistant."), user("Hi")])
    add([system("  padded system \n"), user("  padded user \n\n")])
    add([system("Be brief."), user("1+1?"), assistant("2"), user("and 2+2?"), assistant("4"), user("thanks")])
    add([user("1+1?"), assistant("2"), user("and 2+2?"), assistant(" 4 ")], add_generation_prompt=False)
    add(
        [
            system("Réponds en français. 你好 مرحبا"),
            user("👩‍👩‍👧‍👦 & <html> \"quotes\" 'single' \\n {{ braces }} {% raw %}"),
            assistant("ok\ttab\r\n"),
            user("\u2028 \u00a0 def f(x):\n    return x\n"),
        ]
    )
    add([user(text("Describe this.", "Second part."))])
    add([system(text("System part.")), user(text("Hi"))])
    add([user([{"type": "image"}, *text("What is it?")])])
    add([user("Weather in Paris?")], [WEATHER])
    add([system("You can call tools."), user("Weather in Paris?")], [WEATHER, SEARCH, CLOCK])
    arguments = {"place": "Paris, FR", "days": 2, "x": 1.5, "b": True, "n": None, "l": [1, "a", {"k": "v"}], "t": "<é>"}
    add([user("W?"), assistant("", tool_calls=[call("get_weather", arguments)]), result('{"temp": 22}')], [WEATHER, SEARCH])
    add([user("W?"), assistant("", tool_calls=[call("get_weather", '{"place": "Paris", "days": 2}')]), result("22")], [WEATHER])
    add(
        [system("s"), user("W?"), assistant(None, tool_calls=[call("get_weather", {"place": "Oslo é"})]), result("cold"), assistant("Cold."), user("Rome?")],
        [WEATHER],
    )
    two = [call("get_weather", {"place": "A"}, "call_a"), call("search", {"q": 'B "q"', "n": 3}, "call_b")]
    add(
        [user("A and B?"), assistant("Let me check.", tool_calls=two), result("10", "call_a"), result("20", "call_b", "search"), assistant("10, 20"), user("ok")],
        [WEATHER, SEARCH],
    )
    add([user("W?"), assistant("", tool_calls=[call("now", {}, "abc123def")]), result("12:00", "abc123def", "now"), user("next")], [CLOCK])
    add([user("2+2?"), assistant("<think>\nlet me see\n</think>\n\n4"), user("3+3?")])
    add([user("2+2?"), assistant("4", reasoning_content="let me see"), user("3+3?"), assistant("6", reasoning_content="again"), user("?")])
    add(
        [user("W?"), assistant("", reasoning_content="a tool", tool_calls=[call("get_weather", {"place": "X"})]), result("1"), assistant("done")],
        [WEATHER],
        add_generation_prompt=False,
    )
    add([user("2+2?")], enable_thinking=False)
    add([system("s"), user("2+2?")], enable_thinking=True)
    add([user("2+2?")], thinking=True)
    add([user("2+2?")], reasoning_effort="high")
    add([{"role": "developer", "content": "Developer says."}, user("Hi")])
    add([user("")])
    add([user("Say A"), assistant("A")])
    add([user("a"), user("b")])
    add([assistant("hi"), user("b")])
    add([user("Hi")], [])
    turns = [m for i in range(20) for m in (user(f"question {i} " + "lorem ipsum " * 30), assistant(f"answer {i} " + "dolor sit " * 40))]
    add([system("s" * 500), *turns, user("last")], [WEATHER, SEARCH])
    for c in all:
        c.update(bos_token="<BOS>", eos_token="<EOS>")
    return all
