"""The official Python client of Ollama: formats, tools, thinking, images."""

import base64
import enum
import json
import struct
import zlib

import jsonschema
import ollama
import pydantic
from harness import *

client = ollama.Client(host=HOST, timeout=SECONDS)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Toy(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    color: Color
    price: int = pydantic.Field(ge=0, le=99)


class Child(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(min_length=1, max_length=12)
    age: int = pydantic.Field(ge=1, le=17)
    happy: bool
    toys: list[Toy] = pydantic.Field(min_length=1, max_length=2)
    pet: str | None = pydantic.Field(max_length=8)


@on(STORY, SMOL, NATIVE)
def json_mode_gives_an_object(model):
    for temperature, seed in ((0, 1), (0.8, 2), (1.5, 3)):
        options = GREEDY | {"temperature": temperature, "seed": seed, "num_predict": 200}
        r = client.chat(model, [{"role": "user", "content": "Describe Paris as JSON with name and country."}], format="json", options=options)
        if r.done_reason == "stop":
            true(isinstance(json.loads(r.message.content), dict), r.message.content)
        else:
            check_beginning_of_json(r.message.content)


def check_beginning_of_json(text):
    """Checks that an unfinished answer is the beginning of an object."""
    true(text.lstrip().startswith("{"), text)
    try:
        json.loads(text)
    except json.JSONDecodeError as e:
        unfinished = e.pos >= len(text.rstrip()) or e.msg.startswith("Unterminated string") or text[e.pos :] in "truefalsenull-"
        true(unfinished, f"{text!r}: {e}")


@on(STORY, SMOL, NATIVE)
def pydantic_schema_holds(model):
    schema = Child.model_json_schema()
    for temperature, seed in ((0, 1), (1, 2)):
        options = GREEDY | {"temperature": temperature, "seed": seed, "num_predict": 400}
        ask = lambda: client.chat(model, [{"role": "user", "content": "Invent a child."}], format=schema, options=options)
        r = ask()
        equal(r.done_reason, "stop", r.message.content)
        Child.model_validate_json(r.message.content)
        jsonschema.validate(json.loads(r.message.content), schema)
        equal(ask().message.content, r.message.content, "the same seed")


@on(STORY, NATIVE)
def generate_takes_schemas(model):
    schema = {"type": "object", "properties": {"born": {"type": "string", "format": "date"}}, "required": ["born"], "additionalProperties": False}
    r = client.generate(model, "A birthday:", format=schema, options=GREEDY)
    jsonschema.validate(json.loads(r.response), schema, format_checker=jsonschema.FormatChecker())


@on(STORY, SMOL, NATIVE)
def schema_streams_equal_whole_answers(model):
    ask = lambda stream: client.chat(model, [{"role": "user", "content": "A toy."}], format=Toy.model_json_schema(), options=GREEDY | {"num_predict": 400}, stream=stream)
    text = "".join(p.message.content for p in ask(True))
    equal(text, ask(False).message.content)
    Toy.model_validate_json(text)


@on(STORY, NATIVE)
def impossible_schema_is_refused(model):
    schema = {"type": "object", "properties": {"a": {"type": "strin"}}}
    error = raises(ollama.ResponseError, lambda: client.chat(model, [{"role": "user", "content": "x"}], format=schema))
    equal(error.status_code, 400)
    contains(error.error, "#/properties/a/type")


def get_weather(city: str) -> str:
    """
    Get the weather of a city.

    Args:
      city: The name of the city.
    """
    return f"The weather in {city} is rainy with 14 degrees."


def call(city):
    return [
        {"role": "user", "content": f"Weather in {city}?"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": city}}}]},
    ]


# The small model calls a function only if the conversation shows how.
EXAMPLES = call("Paris") + call("London")


@on(SMOL, NATIVE)
def tool_is_called_and_its_result_used(model):
    messages = [*EXAMPLES, {"role": "user", "content": "Weather in Rome?"}]
    r = client.chat(model, messages, tools=[get_weather], options=GREEDY)
    (asked,) = r.message.tool_calls
    equal((asked.function.name, asked.function.arguments), ("get_weather", {"city": "Rome"}))
    true("tool_call" not in (r.message.content or ""), "the call is no text")
    result = {"role": "tool", "tool_name": "get_weather", "content": get_weather(**asked.function.arguments)}
    r = client.chat(model, [*messages, r.message, result], tools=[get_weather], options=GREEDY)
    contains(r.message.content, "14")
    true(not r.message.tool_calls, "the answer is text")


@on(SMOL, NATIVE)
def tool_calls_are_streamed(model):
    messages = [*EXAMPLES, {"role": "user", "content": "Weather in Oslo?"}]
    parts = list(client.chat(model, messages, tools=[get_weather], options=GREEDY, stream=True))
    calls = [c for p in parts for c in p.message.tool_calls or []]
    equal([(c.function.name, c.function.arguments) for c in calls], [("get_weather", {"city": "Oslo"})])
    true("tool_call" not in "".join(p.message.content or "" for p in parts), "the call is no text")
    true(parts[-1].done, "the stream ends")


@on(SMOL, NATIVE)
def offered_tools_need_not_be_called(model):
    r = client.chat(model, [{"role": "user", "content": "What is the capital of France?"}], tools=[get_weather], options=GREEDY)
    true(r.message.content and not r.message.tool_calls, f"{r.message}")


@scenario
def tools_without_support_are_refused():
    error = raises(ollama.ResponseError, lambda: client.chat(STORY, [{"role": "user", "content": "x"}], tools=[get_weather]))
    equal(error.status_code, 400)
    contains(error.error, "does not support tools")


CAPITAL = [{"role": "user", "content": "What is the capital of Italy?"}]


@on(THINK, NATIVE_THINK)
def thinking_and_answer_are_separate(model):
    r = client.chat(model, CAPITAL, think=True, options=GREEDY)
    contains(r.message.thinking, "Italy")
    contains(r.message.content, "Rome")
    true("think>" not in r.message.thinking + r.message.content, "no tag is text")


@on(THINK, NATIVE_THINK)
def thinking_is_streamed(model):
    whole = client.chat(model, CAPITAL, think=True, options=GREEDY)
    parts = list(client.chat(model, CAPITAL, think=True, options=GREEDY, stream=True))
    equal("".join(p.message.thinking or "" for p in parts).strip(), whole.message.thinking.strip())
    equal("".join(p.message.content for p in parts), whole.message.content)
    kinds = ["thinking" if p.message.thinking else "content" for p in parts if p.message.thinking or p.message.content]
    equal(kinds, sorted(kinds, reverse=True), "thinking comes first")


@on(THINK, NATIVE_THINK)
def thinking_can_be_off(model):
    r = client.chat(model, CAPITAL, think=False, options=GREEDY)
    true(not r.message.thinking, "nothing is thought")
    contains(r.message.content, "Rome")


@on(THINK, NATIVE_THINK)
def thinking_precedes_formats(model):
    schema = {"type": "object", "properties": {"capital": {"enum": ["Rome", "Oslo"]}}, "required": ["capital"], "additionalProperties": False}
    r = client.chat(model, CAPITAL, think=True, format=schema, options=GREEDY)
    jsonschema.validate(json.loads(r.message.content), schema)


@scenario
def thinking_without_support_is_refused():
    error = raises(ollama.ResponseError, lambda: client.chat(STORY, CAPITAL, think=True))
    equal(error.status_code, 400)
    contains(error.error, "does not support thinking")


def picture():
    """Returns a PNG of one red pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")) + chunk(b"IEND", b""))


@on(STORY, NATIVE)
def images_are_refused(model):
    message = {"role": "user", "content": "What is this?", "images": [picture()]}
    error = raises(ollama.ResponseError, lambda: client.chat(model, [message], options=GREEDY))
    equal(error.status_code, 400)
    contains(error.error.lower(), "image")
    error = raises(ollama.ResponseError, lambda: client.generate(model, "What?", images=[base64.b64encode(picture()).decode()], options=GREEDY))
    equal(error.status_code, 400)
    true(client.chat(model, [{"role": "user", "content": "Hello"}], options=GREEDY).done, "the next request is answered")


main()
