"""Cases of chat templates: whole prompts, and what a session is sent for each turn."""

from datetime import datetime
from functools import partial

from conformance.cases import INFORMATION, check_equal, check_keys
from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError
from langchain_convmem.text.messages import join_content

_CASE = {
    "compile_error",
    "context",
    "preface",
    "preface_error",
    "preface_text",
    "protocol",
    "steps",
    "stop",
    "template",
    "tools",
    "turns",
}
_PROMPTS = {
    "diff_increment",
    "diff_increment_if_preface_prefilled",
    "full_prompt",
    "ledger_append",
    "ledger_common",
    "ledger_divergent",
    "session_before_len",
}
_INPUTS = {"extra_context", "raw_reply", "reply_message", "send"}
_TURN = {*_PROMPTS, *_INPUTS, "diff_break_at", "error"}
_STEP = {*_INPUTS, "decode", "error", "increment", "message", "pending"}


def run_template_case(case):
    check_keys("case", set(case.fields) - _CASE, INFORMATION)
    fields = case.fields
    if "compile_error" in fields:
        _check_compile_error(fields)
        return
    check_equal("protocol", fields.get("protocol", "single_turn"), "single_turn")
    chat = _Chat(fields)
    chat.check_preface(fields)
    for number, turn in enumerate(fields.get("turns", ()), start=1):
        check_keys(f"turn {number}", turn, _TURN)
        chat.check_turn(turn, f"turn {number}")
    for number, step in enumerate(fields.get("steps", ()), start=1):
        check_keys(f"step {number}", step, _STEP)
        chat.check_step(step, f"step {number}")


def _check_compile_error(fields):
    try:
        ChatTemplate(fields["template"])
    except ChatTemplateError as error:
        expected = dict(fields["compile_error"])
        found = {"type": error.kind, "message": error.reason, "lineno": error.line}
        check_equal("compile error", {key: found.get(key) for key in expected}, expected)
    else:
        raise AssertionError("the template compiles")


class _Chat:
    """A conversation, its template and its session."""

    def __init__(self, fields):
        self.template = ChatTemplate(fields["template"], now=lambda: datetime(2025, 7, 26))  # noqa: DTZ001 - no zone is shown
        self.tools = fields.get("tools")
        self.context = fields.get("context") or {}
        self.preface = list(fields.get("preface") or ())
        self.history = list(self.preface)
        self.unfed = list(self.preface)
        self.state = self._started()
        self.is_pending = False

    def _started(self):
        return self.template.start(tools=self.tools, **self.context)

    def _rendered(self, messages, **more):
        return self.template.render(messages, tools=self.tools, **{**self.context, **more})

    def check_preface(self, fields):
        if "preface_error" in fields:
            self._check_error(fields["preface_error"], "preface", self._preface_text)
        elif fields.get("preface_text") is not None:
            check_equal("preface_text", self._preface_text(), fields["preface_text"])

    def _preface_text(self):
        return self._rendered(self.preface, add_generation_prompt=False)

    def check_turn(self, turn, what):
        extra = turn.get("extra_context") or {}
        new = [*self.unfed, *turn["send"]]
        everything = [*self.history, *turn["send"]]
        if "error" in turn:
            before = (self.state.read_text(), self.state.messages)
            self._check_error(turn["error"], what, lambda: self._rendered(everything, **extra))
            self._check_error(
                turn["error"], what, lambda: self.state.feed(new, extra_context=extra)
            )
            check_equal(f"{what}: state", (self.state.read_text(), self.state.messages), before)
            return
        session = self.state.read_text()
        whole = self._rendered(everything, **extra)
        increment = self.state.feed(new, extra_context=extra)
        found = {
            "full_prompt": whole,
            "diff_increment": self._difference(whole, extra),
            "diff_increment_if_preface_prefilled": self._prefilled(turn),
            "session_before_len": len(session),
            "ledger_common": increment.kept,
            "ledger_divergent": increment.stats.diverged_at is not None,
            "ledger_append": increment.text,
        }
        expected = {key: turn[key] for key in _PROMPTS & set(turn)}
        check_equal(what, {key: found[key] for key in expected}, expected)
        check_equal(f"{what}: session", session[: increment.kept] + increment.text, whole)
        check_equal(f"{what}: ledger", self.state.read_text(), whole)
        self._answer(turn, new)

    def _difference(self, whole, extra):
        """Return what rendering twice finds; the first turn has nothing to compare with."""
        if len(self.history) == len(self.preface):
            return whole
        before = self._rendered(self.history, **extra, add_generation_prompt=False)
        return whole[len(before) :] if whole.startswith(before) else None

    def _prefilled(self, turn):
        if "diff_increment_if_preface_prefilled" not in turn:
            return None
        state = self._started()
        state.feed(self.preface, add_generation_prompt=False)
        increment = state.feed(turn["send"], extra_context=turn.get("extra_context"))
        return None if increment.stats.diverged_at is not None else increment.text

    def _answer(self, turn, new):
        self.history += new[len(self.unfed) :]
        self.state.record_reply(turn.get("raw_reply") or "")
        self.unfed = [turn["reply_message"]] if turn.get("reply_message") else []
        self.history += self.unfed

    def check_step(self, step, what):
        sent = step["send"] if "send" in step else step["message"]
        new = self._join(sent if isinstance(sent, list) else [sent])
        pending = step.get("pending", not step.get("decode", True))
        extra = step.get("extra_context")
        feed = partial(self.state.feed, continue_final_message=pending)
        if "error" in step:
            self._check_error(step["error"], what, lambda: feed(new, extra_context=extra))
            return
        increment = feed(new, extra_context=extra)
        check_equal(f"{what}: increment", increment.text, step.get("increment", increment.text))
        check_equal(f"{what}: decode", not pending, step.get("decode", not pending))
        self.is_pending = pending
        if pending:
            self.unfed = new[-1:]
        else:
            self._answer(step, new)

    def _join(self, sent):
        """Return what is to be fed: the part that waits goes on with what is sent."""
        if not self.is_pending or self.unfed[0]["role"] != sent[0]["role"]:
            return [*self.unfed, *sent]
        content = join_content(self.unfed[0]["content"], sent[0]["content"])
        return [{**self.unfed[0], **sent[0], "content": content}, *sent[1:]]

    def _check_error(self, expected, what, call):
        check_keys(f"{what}: error", expected, {"message", "type"})
        try:
            call()
        except ChatTemplateError as error:
            found = {"type": error.kind, "message": error.reason}
            check_equal(f"{what}: error", {key: found[key] for key in expected}, dict(expected))
        else:
            raise AssertionError(f"{what}: nothing is refused, expected {dict(expected)}")
