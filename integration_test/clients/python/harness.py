"""Runs the scenarios of one client and prints one line of JSON for each.

integration_test/scenarios_test.go starts the programs and sets their environment.
By hand, with the same environment: python3 ollama_answers.py [SCENARIO...]
"""

import inspect
import json
import math
import os
import sys
import time
import traceback

# The models, as the Go test creates them.
STORY = "story"  # stories260K: tiny, its text makes no sense
FILL = "fill"  # stories260K with a template that has a suffix
SMOL = "smol"  # SmolLM2-135M with a template that Ollama renders, with tools
NATIVE = "native"  # SmolLM2-135M with a chat template that only the runner can render
THINK = "think"  # SmolLM2-135M with examples of thinking in its template
NATIVE_THINK = "native-think"  # the same as a chat template that only the runner can render
EMBED = "embed"  # stories260K with a pooling type

HOST = os.environ["OLLAMA_HOST"]
SECONDS = 120  # no request takes that long on an idle machine

# A context of 512 for all, so that no request reloads its model.
GREEDY = {"temperature": 0, "num_ctx": 512, "num_predict": 48}

_scenarios = []


def scenario(function):
    """Registers a scenario. Its docstring is the claim that it checks."""
    _scenarios.append(function)
    return function


def on(*models):
    """Registers a scenario once for each model, which it gets as its argument."""

    def register(function):
        for model in models:
            _scenarios.append(_bound(function, model))
        return function

    return register


def _bound(function, model):
    def run():
        return function(model)

    async def arun():
        return await function(model)

    bound = arun if inspect.iscoroutinefunction(function) else run
    bound.__name__ = f"{function.__name__}_{model}"
    return bound


def main():
    chosen = sys.argv[1:]
    for function in _scenarios:
        name = function.__name__
        if chosen and name not in chosen:
            continue
        begin, error = time.monotonic(), ""
        try:
            result = function()
            if inspect.isawaitable(result):
                import asyncio

                async def wait(awaitable=result):
                    await awaitable

                asyncio.run(wait())
        except Exception:  # the next scenario must run
            error = traceback.format_exc(limit=-3)
        print(json.dumps({"name": name, "error": error, "seconds": time.monotonic() - begin}), flush=True)


def equal(got, expected, what=""):
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def contains(text, part):
    true(part in text, f"{text!r} does not contain {part!r}")


def raises(kind, function):
    """Calls the function and returns the error that it must raise."""
    try:
        got = function()
    except kind as error:
        return error
    raise AssertionError(f"no {kind} was raised: got {got!r}")


def references():
    """The recorded greedy texts of stories260K by an independent implementation."""
    with open(os.environ["SCENARIO_EXPECTED"], encoding="utf-8") as f:
        return [r for r in json.load(f)["f16"]["generations"] if r["prompt"]]


def continuation(reference):
    return reference["greedy_text"].removeprefix(reference["prompt"])


def norm(vector):
    return math.sqrt(sum(v * v for v in vector))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / norm(a) / norm(b)


def chatml(*turns):
    """Renders turns of (role, text) as the template of SMOL does."""
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns) + "<|im_start|>assistant\n"
