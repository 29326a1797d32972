"""The OpenAI Python client on Ollama's /v1 endpoints."""

import asyncio
import base64
import enum
import json
import math
import typing

import jsonschema
import openai
import pydantic
from harness import *

URL = (HOST if HOST.startswith("http") else "http://" + HOST) + "/v1"
client = openai.OpenAI(base_url=URL, api_key="unused", timeout=SECONDS, max_retries=0)
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def ask(model, messages=QUESTION, **more):
    return client.chat.completions.create(model=model, messages=messages, **{"temperature": 0, "max_tokens": 48} | more)


@on(SMOL, NATIVE)
def chat(model):
    r = ask(model)
    (choice,) = r.choices
    contains(choice.message.content, "Paris")
    equal((choice.message.role, choice.finish_reason, r.object), ("assistant", "stop", "chat.completion"))
    equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens)
    true(r.usage.prompt_tokens > 10 and r.usage.completion_tokens > 3, "tokens are counted")


@on(SMOL, NATIVE)
def chat_stream_equals_whole_answer(model):
    whole = ask(model)
    parts = list(ask(model, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.delta.content or "" for p in parts for c in p.choices)
    equal(text, whole.choices[0].message.content)
    equal([c.finish_reason for p in parts for c in p.choices if c.finish_reason], ["stop"])
    equal(len({p.id for p in parts}), 1, "one id")
    equal(parts[-1].usage.completion_tokens, whole.usage.completion_tokens)


@on(STORY, NATIVE)
def max_tokens_limits_the_answer(model):
    r = ask(model, [{"role": "user", "content": "Tell me a long story about a girl."}], max_tokens=5)
    equal((r.usage.completion_tokens, r.choices[0].finish_reason), (5, "length"))


@on(STORY, NATIVE)
def stop_text_ends_the_answer(model):
    whole = ask(model).choices[0].message.content
    stop = whole[len(whole) // 2 :][:5]
    for value in (stop, ["§§", stop]):
        r = ask(model, stop=value)
        equal((r.choices[0].message.content, r.choices[0].finish_reason), (whole[: whole.index(stop)], "stop"))


@on(STORY, NATIVE)
def same_seed_same_text(model):
    def draw(seed):
        return ask(model, temperature=0.9, top_p=0.95, seed=seed, max_tokens=30).choices[0].message.content

    first = draw(7)
    equal(draw(7), first)
    true(len({first, draw(8), draw(9), draw(10)}) > 1, "other seeds give other texts")


@on(STORY, NATIVE)
def logprobs_describe_the_text(model):
    r = ask(model, logprobs=True, top_logprobs=3, max_tokens=6)
    entries = r.choices[0].logprobs.content
    equal("".join(e.token for e in entries), r.choices[0].message.content)
    for e in entries:
        equal(len(e.top_logprobs), 3)
        equal(e.top_logprobs[0].token, e.token)
        true(sum(math.exp(t.logprob) for t in e.top_logprobs) <= 1.0001, "probabilities")


@on(SMOL, NATIVE)
def json_mode_gives_an_object(model):
    r = ask(model, [{"role": "user", "content": "Describe Paris as JSON."}], response_format={"type": "json_object"}, max_tokens=300)
    text = r.choices[0].message.content
    if r.choices[0].finish_reason == "stop":
        true(isinstance(json.loads(text), dict), text)
    else:
        true(text.lstrip().startswith("{"), text)


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Pet(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=10)]
    legs: typing.Literal[2, 4]
    size: Size


class Owner(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=10)]
    pets: typing.Annotated[list[Pet], pydantic.Field(min_length=1, max_length=2)]


@on(STORY, SMOL, NATIVE)
def pydantic_schema_is_parsed(model):
    r = client.chat.completions.parse(
        model=model, messages=[{"role": "user", "content": "Invent a pet owner."}], response_format=Owner, temperature=0.7, seed=4, max_tokens=400)
    equal(r.choices[0].finish_reason, "stop")
    true(isinstance(r.choices[0].message.parsed, Owner), "it is parsed")
    jsonschema.validate(json.loads(r.choices[0].message.content), Owner.model_json_schema())


@on(STORY, NATIVE)
def schema_streams(model):
    schema = {"name": "pet", "schema": Pet.model_json_schema(), "strict": True}
    parts = ask(model, stream=True, response_format={"type": "json_schema", "json_schema": schema}, max_tokens=300)
    Pet.model_validate_json("".join(c.delta.content or "" for p in parts for c in p.choices))


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


def call(city, number):
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return [{"role": "user", "content": f"Weather in {city}?"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}]


EXAMPLES = call("Paris", 1) + call("London", 2)


@on(SMOL, NATIVE)
def tool_is_called_and_its_result_used(model):
    messages = [*EXAMPLES, {"role": "user", "content": "Weather in Rome?"}]
    r = ask(model, messages, tools=TOOLS)
    equal(r.choices[0].finish_reason, "tool_calls")
    (asked,) = r.choices[0].message.tool_calls
    equal((asked.type, asked.function.name, json.loads(asked.function.arguments)), ("function", "get_weather", {"city": "Rome"}))
    true(asked.id, "the call has an id")
    result = {"role": "tool", "tool_call_id": asked.id, "content": "The weather in Rome is rainy with 14 degrees."}
    r = ask(model, [*messages, r.choices[0].message.model_dump(exclude_none=True), result], tools=TOOLS)
    contains(r.choices[0].message.content, "14")
    equal(r.choices[0].finish_reason, "stop")


@on(SMOL, NATIVE)
def tool_calls_are_streamed(model):
    parts = list(ask(model, [*EXAMPLES, {"role": "user", "content": "Weather in Oslo?"}], tools=TOOLS, stream=True))
    deltas = [d for p in parts for c in p.choices for d in c.delta.tool_calls or []]
    equal("".join(d.function.name or "" for d in deltas), "get_weather")
    equal(json.loads("".join(d.function.arguments or "" for d in deltas)), {"city": "Oslo"})
    equal([c.finish_reason for p in parts for c in p.choices if c.finish_reason], ["tool_calls"])


@on(THINK, NATIVE_THINK)
def reasoning_effort_shows_thinking(model):
    messages = [{"role": "user", "content": "What is the capital of Italy?"}]
    r = ask(model, messages, reasoning_effort="low")
    contains(r.choices[0].message.content, "Rome")
    contains(r.choices[0].message.model_extra["reasoning"], "Italy")
    r = ask(model, messages, reasoning_effort="none")
    contains(r.choices[0].message.content, "Rome")
    true(not (r.choices[0].message.model_extra or {}).get("reasoning"), "nothing is thought")


@scenario
def completions_give_reference_text():
    for r in references():
        got = client.completions.create(model=STORY, prompt=r["prompt"], temperature=0, max_tokens=len(r["greedy_ids"]))
        equal((got.choices[0].text, got.choices[0].finish_reason), (continuation(r), "length"))
        equal((got.usage.completion_tokens, got.usage.prompt_tokens), (len(r["greedy_ids"]), len(r["prompt_ids"])))


@scenario
def completions_stream():
    r = references()[0]
    parts = list(client.completions.create(model=STORY, prompt=r["prompt"], temperature=0, max_tokens=40, stream=True))
    true(continuation(r).startswith("".join(c.text for p in parts for c in p.choices)), "the same text")
    equal([c.finish_reason for p in parts for c in p.choices if c.finish_reason], ["length"])


@scenario
def completions_take_a_suffix():
    got = client.completions.create(model=FILL, prompt="They went home.", suffix="Tim had a red ball.", temperature=0, max_tokens=30)
    plain = client.completions.create(model=STORY, prompt="Tim had a red ball. They went home.", temperature=0, max_tokens=30)
    equal(got.choices[0].text, plain.choices[0].text)


@on(SMOL, NATIVE)
def responses(model):
    r = client.responses.create(model=model, input="What is the capital of France?", temperature=0, max_output_tokens=48)
    equal(r.status, "completed")
    contains(r.output_text, "Paris")
    true(r.usage.output_tokens > 3, "tokens are counted")


@on(SMOL, NATIVE)
def responses_stream(model):
    text, kinds = "", []
    for event in client.responses.create(model=model, input=QUESTION, temperature=0, max_output_tokens=48, stream=True):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    contains(text, "Paris")
    equal((kinds[0], kinds[-1]), ("response.created", "response.completed"))


@scenario
def embeddings_as_numbers_and_as_base64():
    texts = ["Tim had a red ball.", "One day"]
    numbers = client.embeddings.create(model=EMBED, input=texts, encoding_format="float")
    encoded = client.embeddings.create(model=EMBED, input=texts)  # this client asks for base64
    for i, (a, b) in enumerate(zip(numbers.data, encoded.data, strict=True)):
        equal((a.index, b.index, len(a.embedding)), (i, i, 64))
        true(cosine(a.embedding, b.embedding) > 0.9999 and abs(norm(a.embedding) - 1) < 1e-4, "equal and normalised")
    true(numbers.usage.prompt_tokens > 2, "tokens are counted")


@on(STORY, NATIVE)
def images_are_refused(model):
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    base64.b64decode(pixel)
    content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64," + pixel}}]
    error = raises(openai.BadRequestError, lambda: ask(model, [{"role": "user", "content": content}]))
    contains(str(error).lower(), "image")


@on(STORY, NATIVE)
def content_parts_are_joined(model):
    parts = [{"type": "text", "text": "What is the capital of France?"}]
    equal(ask(model, [{"role": "user", "content": parts}]).choices[0].message.content, ask(model).choices[0].message.content)


@scenario
def errors_have_their_classes():
    raises(openai.NotFoundError, lambda: ask("no-such-model"))
    raises(openai.BadRequestError, lambda: ask(STORY, []))
    schema = {"name": "x", "schema": {"type": "strin"}}
    error = raises(openai.BadRequestError, lambda: ask(STORY, response_format={"type": "json_schema", "json_schema": schema}))
    contains(str(error), "unknown type")


@scenario
def models_are_listed():
    names = {m.id.removesuffix(":latest") for m in client.models.list()}
    true({STORY, SMOL, NATIVE, EMBED} <= names, f"{names}")
    equal(client.models.retrieve(STORY).object, "model")


@on(STORY, NATIVE)
def cancelled_streams_leave_the_model_sound(model):
    expected = ask(model).choices[0].message.content
    for _ in range(5):  # one more than there are slots
        with ask(model, stream=True, max_tokens=4000, temperature=1.2) as stream:
            for i, _ in enumerate(stream):
                if i == 3:
                    break
    equal(ask(model).choices[0].message.content, expected)


@on(STORY, NATIVE)
async def four_at_once_equal_their_solo_texts(model):
    c = openai.AsyncOpenAI(base_url=URL, api_key="unused", timeout=SECONDS, max_retries=0)

    async def one(prompt):
        r = await c.chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}], temperature=0, max_tokens=24)
        return r.choices[0].message.content

    prompts = ["Once upon a time", "One day, Tom and Lily", "Tim had a red ball.", "The sun is"]
    solo = [await one(p) for p in prompts]
    equal(list(await asyncio.gather(*map(one, prompts))), solo)


main()
