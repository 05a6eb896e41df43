"""The same two calls, as families of models write them."""

_FIND = ("find", {"text": 'an "a"', "n": 3, "from": [1, {"k": None, "b": True}]})
_SORT = ("sort", {})
CALLS = [_FIND, _SORT]
"""Names and arguments."""

_ARGUMENTS = '{"text": "an \\"a\\"", "n": 3, "from": [1, {"k": null, "b": true}]}'
_BAR, _LOW = "\uff5c", "\u2581"

WRITTEN = {
    "hermes: JSON": (
        "hermes",
        (
            f'<tool_call>\n{{"name": "find", "arguments": {_ARGUMENTS}}}\n</tool_call>\n'
            '<tool_call>\n{"name": "sort", "arguments": {}}\n</tool_call>'
        ),
    ),
    "hermes: functions in tags": (
        "hermes",
        (
            '<tool_call>\n<function=find>\n<parameter=text>\nan "a"\n</parameter>\n'
            "<parameter=n>\n3\n</parameter>\n<parameter=from>\n"
            '[1, {"k": null, "b": true}]\n</parameter>\n</function>\n'
            "</tool_call>\n<tool_call>\n<function=sort>\n</function>\n</tool_call>"
        ),
    ),
    "hermes: keys in tags": (
        "hermes",
        (
            '<tool_call>find\n<arg_key>text</arg_key>\n<arg_value>an "a"</arg_value>\n<arg_key>n'
            "</arg_key>\n<arg_value>3</arg_value>\n<arg_key>from</arg_key>\n<arg_value>"
            '[1, {"k": null, "b": true}]</arg_value>\n</tool_call>\n<tool_call>sort\n</tool_call>'
        ),
    ),
    "mistral: names": ("mistral", f"[TOOL_CALLS]find[ARGS]{_ARGUMENTS}[TOOL_CALLS]sort[ARGS]{{}}"),
    "mistral: names and ids": (
        "mistral",
        f"[TOOL_CALLS]find[CALL_ID]abcdefghi[ARGS]{_ARGUMENTS}[TOOL_CALLS]sort[ARGS]{{}}",
    ),
    "mistral: a list": (
        "mistral",
        (
            f'[TOOL_CALLS] [{{"name": "find", "arguments": {_ARGUMENTS}}}, '
            '{"name": "sort", "arguments": {}, "id": "abcdefghi"}]'
        ),
    ),
    "llama3: bare": (
        "llama3",
        f'{{"name": "find", "parameters": {_ARGUMENTS}}}; {{"name": "sort", "parameters": {{}}}}',
    ),
    "llama3: behind its mark": (
        "llama3",
        (
            f'<|python_tag|>{{"type": "function", "name": "find", "parameters": {_ARGUMENTS}}};'
            '{"function": {"name": "sort"}}'
        ),
    ),
    "gemma: FunctionGemma": (
        "gemma",
        (
            '<start_function_call>call:find{text:<escape>an "a"<escape>,n:3,'
            "from:[1,{k:null,b:true}]}<end_function_call><start_function_call>call:sort{}<end_function_call>"
        ),
    ),
    "gemma: 4": (
        "gemma",
        (
            '<|tool_call>call:find{text:<|"|>an "a"<|"|>,n:3,from:[1,{k:None,b:true}]}<tool_call|>'
            "<|tool_call>call:sort{}<tool_call|>"
        ),
    ),
    "pythonic: behind its mark": (
        "pythonic",
        (
            '<|tool_call_start|>[find(text="an \\"a\\"", n=3, from=[1, {"k": null, "b": true}]), '
            "sort()]<|tool_call_end|>"
        ),
    ),
    "harmony": (
        "harmony",
        (
            "<|channel|>analysis<|message|>R<|end|><|start|>assistant to=functions.find<|channel|>"
            f"commentary json<|message|>{_ARGUMENTS}<|call|><|start|>assistant<|channel|>"
            "commentary to=functions.sort <|constrain|>json<|message|>{}<|call|>"
        ),
    ),
    "cohere": (
        "cohere",
        (
            '<|START_ACTION|>[\n  {"tool_call_id": "0", "tool_name": "find", "parameters": '
            f'{_ARGUMENTS}}},\n {{"tool_call_id": "1", "tool_name": "sort", "parameters": {{}}}}\n]'
            "<|END_ACTION|>"
        ),
    ),
    "deepseek: 3": (
        "deepseek",
        (
            f"<{_BAR}tool{_LOW}calls{_LOW}begin{_BAR}><{_BAR}tool{_LOW}call{_LOW}begin{_BAR}>function"
            f"<{_BAR}tool{_LOW}sep{_BAR}>find\n```json\n{_ARGUMENTS}\n```<{_BAR}tool{_LOW}call{_LOW}end{_BAR}>\n"
            f"<{_BAR}tool{_LOW}call{_LOW}begin{_BAR}>function<{_BAR}tool{_LOW}sep{_BAR}>sort\n```json\n{{}}\n"
            f"```<{_BAR}tool{_LOW}call{_LOW}end{_BAR}><{_BAR}tool{_LOW}calls{_LOW}end{_BAR}>"
        ),
    ),
    "deepseek: 3.1": (
        "deepseek",
        (
            f"<{_BAR}tool{_LOW}calls{_LOW}begin{_BAR}><{_BAR}tool{_LOW}call{_LOW}begin{_BAR}>find"
            f"<{_BAR}tool{_LOW}sep{_BAR}>{_ARGUMENTS}<{_BAR}tool{_LOW}call{_LOW}end{_BAR}>"
            f"<{_BAR}tool{_LOW}call{_LOW}begin{_BAR}>sort<{_BAR}tool{_LOW}sep{_BAR}>{{}}"
            f"<{_BAR}tool{_LOW}call{_LOW}end{_BAR}><{_BAR}tool{_LOW}calls{_LOW}end{_BAR}>"
        ),
    ),
}
"""Name of the format, and text, by family and form."""
