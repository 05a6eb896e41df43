"""Completion models without weights, for tests of what stands around them."""

import json
import re

from langchain_core.language_models import LLM
from langchain_core.outputs import GenerationChunk

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_OPENING = "<tool_call>"


class OfflineLLM(LLM):
    """Goes on with prompts in ChatML: calls the first tool it is shown, and talks otherwise.

    It ignores stop texts and goes on behind the end of its turn, as raw models may.
    """

    @property
    def _llm_type(self):
        return "offline"

    def _call(self, prompt, stop=None, run_manager=None, **kwargs):
        return f"{_turn(prompt)}<|im_end|>\n<|im_start|>user\nGo on."

    def _stream(self, prompt, stop=None, run_manager=None, **kwargs):
        text = self._call(prompt)
        for start in range(0, len(text), 5):
            yield GenerationChunk(text=text[start : start + 5])


def _turn(prompt):
    shown = _TOOLS.search(prompt)
    question = prompt.rpartition("<|im_start|>user")[2].partition("<|im_end|>")[0]
    is_forced = prompt.endswith(_OPENING)
    if shown is None or (question.lstrip().startswith("<tool_response>") and not is_forced):
        return "Hello, you asked me something, and this is the answer."
    function = json.loads(shown[1].splitlines()[0])["function"]
    wanted = function.get("parameters", {})
    call = {"name": function["name"], "arguments": _value(wanted, question, wanted)}
    return f"{'' if is_forced else _OPENING}\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"


def _value(schema, question, root):
    """Return something of a schema, with numbers and quoted words of the question."""
    if "$ref" in schema:
        return _value(root["$defs"][schema["$ref"].rpartition("/")[2]], question, root)
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], question, root)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: _value(part, question, root) for name, part in parts.items()}
    if kind == "array":
        return [_value(schema.get("items", {"type": "string"}), question, root)]
    numbers = [int(found) for found in re.findall(r"\d+", question)]
    quoted = re.findall(r"['\"](.+?)['\"]", question)
    return {
        "integer": numbers[0] if numbers else 1,
        "number": float(numbers[0]) if numbers else 1.0,
        "boolean": True,
        "null": None,
    }.get(kind, quoted[0] if quoted else "something")
