"""LangChain and LlamaIndex, with the openai and anthropic clients that they bring, against a router: each function is one check.

    python frameworks.py http://127.0.0.1:8800

Run by clients_test.go; checks.py says what is printed. MODEL is served by simulated engines, TOOLS by a worker that calls a tool.
"""

from typing import Literal

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

import checks

MODEL, TOOLS = "m", "tools"

ASK = [SystemMessage("You are brief."), HumanMessage("Name three colours.")]


@tool
def get_weather(city: Literal["Oslo", "Rome"]) -> str:
    """The weather in a city."""
    return "rain in " + city


class Weather(BaseModel):
    """The weather in a city."""

    city: Literal["Oslo", "Rome"]
    warm: bool


def openai_model(base, model, **more):
    return ChatOpenAI(model=model, base_url=base + "/v1", api_key="unused", max_retries=0, timeout=60, **more)


def langchain_openai(base):
    llm = openai_model(base, MODEL, temperature=0, stream_usage=True)
    whole = llm.invoke(ASK)
    assert whole.content and whole.usage_metadata["output_tokens"] > 0 and whole.response_metadata["finish_reason"] in ("stop", "length"), whole
    streamed = None
    for chunk in llm.stream(ASK):
        streamed = chunk if streamed is None else streamed + chunk
    assert streamed.content == whole.content and streamed.usage_metadata["input_tokens"] == whole.usage_metadata["input_tokens"], streamed
    both = llm.batch([ASK, ASK])
    assert [m.content for m in both] == [whole.content] * 2, both
    answer = openai_model(base, MODEL, use_responses_api=True).invoke(ASK)
    assert answer.text, answer
    vectors = OpenAIEmbeddings(model=MODEL, base_url=base + "/v1", api_key="unused", check_embedding_ctx_length=False).embed_documents(["a", "b"])
    assert len(vectors) == 2 and len(vectors[0]) > 1, vectors
    return {"text": whole.content, "tokens": whole.usage_metadata["output_tokens"]}


def langchain_anthropic(base):
    llm = ChatAnthropic(model=MODEL, base_url=base, api_key="unused", max_retries=0, timeout=60, max_tokens=40)
    whole = llm.invoke(ASK)
    assert whole.text and whole.usage_metadata["output_tokens"] > 0, whole
    streamed = None
    for chunk in llm.stream(ASK):
        streamed = chunk if streamed is None else streamed + chunk
    assert streamed.text == whole.text and streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"], streamed
    return {"text": whole.text}


def llamaindex(base):
    llm = OpenAILike(model=MODEL, api_base=base + "/v1", api_key="unused", is_chat_model=True, max_retries=0, timeout=60, temperature=0, context_window=8192)
    ask = [ChatMessage(role=MessageRole.SYSTEM, content="You are brief."), ChatMessage(role=MessageRole.USER, content="Name three colours.")]
    whole = llm.chat(ask)
    assert whole.message.content, whole
    text = "".join(r.delta or "" for r in llm.stream_chat(ask))
    assert text == whole.message.content, (text, whole)
    assert llm.complete("Name three colours.").text
    plain = OpenAILike(model=MODEL, api_base=base + "/v1", api_key="unused", is_chat_model=False, max_retries=0, timeout=60, max_tokens=8)
    assert plain.complete("One, two,").text and "".join(r.delta or "" for r in plain.stream_complete("One, two,"))
    return {"text": text}


def langchain_tools(base):
    """A tool is called, streamed and not, over both APIs, its answer goes back, and an answer is made to fit a schema."""
    ask = [HumanMessage("Weather in Oslo?")]
    both = {"openai": openai_model(base, TOOLS), "anthropic": ChatAnthropic(model=TOOLS, base_url=base, api_key="unused", max_retries=0, timeout=60, max_tokens=99)}
    for name, llm in both.items():
        ready = llm.bind_tools([get_weather])
        called = ready.invoke(ask)
        assert [(c["name"], c["args"]) for c in called.tool_calls] == [("get_weather", {"city": "Oslo"})], (name, called)
        streamed = None
        for chunk in ready.stream(ask):
            streamed = chunk if streamed is None else streamed + chunk
        assert [(c["name"], c["args"]) for c in streamed.tool_calls] == [("get_weather", {"city": "Oslo"})], (name, streamed)
        call = called.tool_calls[0]
        told = ready.invoke(ask + [called, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])])
        assert told.text == "It rains.", (name, told)
    shaped = both["openai"].with_structured_output(Weather, method="json_schema").invoke(ask)
    assert shaped == Weather(city="Oslo", warm=False), shaped
    return {"shaped": shaped.model_dump()}


if __name__ == "__main__":
    checks.run([langchain_openai, langchain_anthropic, langchain_tools, llamaindex])
