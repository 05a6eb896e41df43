"""Cases of the kind `manager`: a conversation, its summaries, its export and its table."""

import re
from collections.abc import Mapping

from conformance.cases import INFORMATION, alternatives, check_any, check_equal, check_keys
from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConvMemError

FORMAT_OPTIONS = {
    "assistant_tag",
    "closure",
    "postfix",
    "prefix",
    "separator",
    "summary_closure",
    "summary_tag",
    "user_tag",
}
LLM_FAMILY = frozenset({"llm", "llm_contains", "llm_excludes"})
META_FAMILY = frozenset({"meta", "meta_include"})


def run_manager_case(case):
    check_keys("case", set(case.fields) - {"ops", "expect", "accept"}, INFORMATION)
    with ConversationMemory.open(":memory:") as memory:
        manager = Manager(memory)
        for op in case.fields["ops"]:
            manager.do(op)
        options = alternatives(case, CHECKS, [LLM_FAMILY, META_FAMILY])

        def compare(expect):
            for key, expected in expect.items():
                CHECKS[key](manager, expected)
            _check_messages(manager)

        check_any(options, compare)


def camel(name):
    """Return an enumerator's name as it is exported: `LLM_END` as `llmEnd`."""
    first, *others = name.lower().split("_")
    return first + "".join(map(str.capitalize, others))


def said(turns):
    return [[turn.role, list(turn.contents)] for turn in turns]


class Manager:
    """A thread that operations act on; remembers what each of them returned."""

    def __init__(self, memory):
        self.memory = memory
        self.threads = 0
        self.results = []
        self.turns = {}
        self.maps = {}
        self.windows = {}
        self.labels = {}
        self.new_manager()

    def do(self, op):
        name, *arguments = op
        check_keys("operations", [name], OPERATIONS)
        self.results.append(getattr(self, name)(*arguments))

    @property
    def number(self):
        """The number of the operation under way."""
        return len(self.results)

    def new_manager(self):
        self.threads += 1
        self.history = self.memory.history(f"thread {self.threads}", user_id="ana")

    def add(self, role, contents, label=None):
        turn = self._unless_refused(lambda: self.history.add(role, contents))
        if label is not None:
            self.labels[label] = turn
        return None if turn is None else {"role": turn.role, "contents": list(turn.contents)}

    def summary_info(self, name=None):
        before = self.history.entries
        window = self.history.summary_window()
        assert self.history.entries == before, "taking a window changed the thread"
        self.windows[name] = self.windows[None] = window
        previous = None if window.previous is None else list(window.previous.contents)
        return {"messages": said(window.turns), "previous": previous}

    def add_summary(self, text, name=None):
        window = self.windows[name]
        turn = self._unless_refused(lambda: self.history.add_summary(text, window))
        if turn is None:
            return None
        contents = {shown.id: list(shown.contents) for shown in self.history.turns}
        return {
            "role": turn.role,
            "contents": list(turn.contents),
            "summary_of": [contents.get(name) for name in turn.metadata.summary_ids],
        }

    def export(self, options=None):
        chosen = dict(options or {})
        check_keys("export", chosen, {"incremental", "exclude_last"})
        maps = self.history.to_maps(**chosen)
        self.maps[self.number] = maps
        return [[item["message"]["role"], item["message"]["contents"]] for item in maps]

    def format(self, options=None):
        chosen = dict(options or {})
        check_keys("format", chosen, {"preamble", "include_previous", "options"})
        style = chosen.pop("options", {})
        check_keys("format options", style, FORMAT_OPTIONS)
        return self.windows[None].format(**{"include_previous": False, **chosen}, **style)

    def set_data(self, label, key, value):
        self.labels[label].add_data(key, value)

    def set_timing(self, label, name, at_ms=None):
        self.labels[label].add_timing(camel(name), at_ms)

    def set_attribute(self, label, name):
        self.labels[label].add_attribute(camel(name))

    def state(self):
        self._look(lambda: (self.history.turns, self.history.messages))

    def print(self):
        return self._look(lambda: str(self.history))

    def last_summary(self):
        summary = self._look(lambda: self.history.last_summary)
        return None if summary is None else list(summary.contents)

    def _look(self, look):
        before = self.history.entries
        found = look()
        assert self.history.entries == before, "looking changed the thread"
        return found

    def _unless_refused(self, write):
        before = self.history.entries
        try:
            turn = write()
        except ConvMemError:
            assert self.history.entries == before, "a refusal changed the thread"
            return None
        self.turns[self.number] = turn
        return turn


OPERATIONS = {"add", "summary_info", "add_summary", "export", "format", "set_data", "set_timing"}
OPERATIONS |= {"set_attribute", "state", "print", "last_summary", "new_manager"}
"""Methods of a manager that cases call."""


def _check_messages(manager):
    """The model's messages say what its turns say, and hold no summary."""
    messages = manager.history.context(summary="omit").messages
    roles = {"human": "user", "ai": "assistant"}
    found = [[roles[message.type], message.text] for message in messages]
    spoken = [(turn.role, turn.contents) for turn in manager.history.model_turns]
    texts = [[role, contents] for role, contents in spoken]
    check_equal("roles of the messages", [r for r, _ in found], [r for r, _ in texts])
    for (_, text), (_, contents) in zip(found, texts, strict=True):
        for piece in contents:
            assert piece in text, f"{piece!r} is not in the message {text!r}"


def _results(manager, expected):
    for number, result in expected.items():
        found = manager.results[int(number)]
        if isinstance(found, Mapping) and isinstance(result, Mapping):
            check_keys(f"result {number}", result, found)
            found = {key: found[key] for key in result}
        check_equal(f"result {number}", found, result)


def _log(manager):
    return [
        [turn.role, list(turn.contents), list(turn.metadata.attributes)]
        for turn in manager.history.turns
    ]


def _meta_include(manager, expected):
    rest = iter(_log(manager))
    for wanted in expected:
        assert wanted in rest, f"meta_include: {wanted} is not there, in order: {_log(manager)}"


def _occurs(text, manager):
    """Return whether a text occurs in what the model gets, as words of its own."""
    alone = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    shown = [piece for _, contents in said(manager.history.model_turns) for piece in contents]
    return any(alone.search(piece) for piece in shown)


def _same_message(manager, expected):
    for first, second in expected:
        ids = [manager.turns[number].id for number in (first, second)]
        check_equal(f"ids of {first} and {second}", ids[0], ids[1])


def _export_metadata(manager, expected):
    for number, wanted in expected.items():
        maps = manager.maps[int(number)]
        check_equal(f"maps of export {number}", len(maps), len(wanted))
        for item, fields in zip(maps, wanted, strict=True):
            _check_metadata(item["metadata"], fields)


def _check_metadata(metadata, fields):
    check_keys("export_metadata", fields, {"attribute", "aux", "timing_include"})
    for key in ("attribute", "aux"):
        if key in fields:
            assert fields[key] is not None or key not in metadata, f"{key} in {metadata}"
            check_equal(key, metadata.get(key), fields[key])
    included = fields.get("timing_include", {})
    found = {name: metadata["timing"].get(name) for name in included}
    check_equal("timing", found, included)


def _export_shape(manager, expected):
    for shape in expected if isinstance(expected, list) else [expected]:
        known = {"op", "top_keys", "message_keys", "metadata_keys", "timing_has", "roles"}
        check_keys("export_shape", shape, known)
        _check_shape(manager.maps[int(shape["op"])], shape)


def _check_shape(maps, shape):
    parts = {"top_keys": maps, "message_keys": [item["message"] for item in maps]}
    for key, found in parts.items():
        for one in found if key in shape else ():
            check_equal(key, sorted(one), sorted(shape[key]))
    if "metadata_keys" in shape:
        found_keys = [sorted(item["metadata"]) for item in maps]
        check_equal("metadata_keys", found_keys, [sorted(keys) for keys in shape["metadata_keys"]])
    if "timing_has" in shape:
        assert all(shape["timing_has"] in item["metadata"]["timing"] for item in maps)
    if "roles" in shape:
        check_equal("roles", [item["message"]["role"] for item in maps], shape["roles"])


def _ids(manager, expected):
    check_keys("ids", expected, {"unique", "pattern", "increasing_by_creation"})
    created = [(turn.metadata.timing["creation"], turn.id) for turn in manager.history.turns]
    ids = [name for _, name in created]
    if expected.get("unique"):
        check_equal("ids that occur twice", len(ids) - len(set(ids)), 0)
    if "pattern" in expected:
        odd = [name for name in ids if not re.search(expected["pattern"], name)]
        check_equal("ids that do not match", odd, [])
    if expected.get("increasing_by_creation"):
        # Of one millisecond, the ids alone tell the order.
        check_equal("ids by creation", [name for _, name in sorted(created)], sorted(ids))


CHECKS = {
    "results": _results,
    "meta": lambda manager, expected: check_equal("meta", _log(manager), expected),
    "meta_include": _meta_include,
    "llm": lambda manager, expected: check_equal(
        "llm", said(manager.history.model_turns), expected
    ),
    "llm_contains": lambda manager, expected: check_equal(
        "missing in llm", [text for text in expected if not _occurs(text, manager)], []
    ),
    "llm_excludes": lambda manager, expected: check_equal(
        "wrongly in llm", [text for text in expected if _occurs(text, manager)], []
    ),
    "llm_roles_only": lambda manager, expected: check_equal(
        "other roles", {turn.role for turn in manager.history.model_turns} - {*expected}, set()
    ),
    "same_message": _same_message,
    "export_metadata": _export_metadata,
    "export_shape": _export_shape,
    "last_summary": lambda manager, expected: check_equal(
        "last_summary", manager.last_summary(), expected
    ),
    "ids": _ids,
    "print_contains": lambda manager, expected: check_equal(
        "not printed", [text for text in expected if text not in str(manager.history)], []
    ),
}
