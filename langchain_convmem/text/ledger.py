"""What one conversation has rendered: the text for each turn, against what its session holds."""

from __future__ import annotations

from bisect import bisect_right
from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_convmem.errors import ChatTemplateError, ConfigError, InvalidMessageError
from langchain_convmem.text.control_tokens import SEAL, show_seals, split_at_seals
from langchain_convmem.text.messages import MessageLike, TemplateMessage, join_content
from langchain_convmem.text.sandbox import translate_errors

if TYPE_CHECKING:
    from langchain_convmem.text.chat_template import ChatTemplate


_SHOWN = 40
_PROMPT = "add_generation_prompt"


class RenderStats(NamedTuple):
    """How the text of one turn came about.

    Attributes:
        reused_chars: Code points that the session keeps.
        sent_chars: Code points that it is sent.
        diverged_at: Where the prompt differs from what the session holds; None if it goes on from
            it. The session has to be taken back there, or filled anew.
        diverged_in: Whether a `prompt` or a `reply` stood there.
        session_had: What the session holds from there on, cut short.
        prompt_has: What the prompt has there, cut short.
        neutralized: How many control tokens in the text of messages were broken up in what is sent.
    """

    reused_chars: int
    sent_chars: int
    diverged_at: int | None = None
    diverged_in: Origin | None = None
    session_had: str = ""
    prompt_has: str = ""
    neutralized: int = 0


_NOTHING = RenderStats(reused_chars=0, sent_chars=0)


class Increment(NamedTuple):
    """What a session needs for the next turn.

    Attributes:
        kept: Code points of its text that it keeps; what comes after them has to go first.
        text: What it is sent then.
        stats: How this came about.
    """

    kept: int
    text: str
    stats: RenderStats

    @property
    def diverged(self) -> bool:
        """Whether the session holds more than it may keep."""
        return self.stats.diverged_at is not None


class RenderState:
    """A conversation as a template has rendered it, and the text that its session received.

    Each turn: `feed` what is new, take the session back to `increment.kept` if it `diverged`, send
    it `increment.text`, and `record_reply` what the model wrote, word for word. The message
    that was made of that is fed with the next turn.

    An error leaves everything as it was. Not thread-safe; copies are independent of each other.
    """

    def __init__(self, template: ChatTemplate, variables: Mapping[str, Any]) -> None:
        """Begin an empty conversation; made by `ChatTemplate.start`."""
        self._template = template
        self._variables = dict(variables)
        self._messages: list[TemplateMessage] = []
        self._call_names: dict[str, str] = {}
        self._ledger = SessionLedger()
        self._open_part: TemplateMessage | None = None
        self._stats: RenderStats | None = None

    # -- reading ----------------------------------------------------------------------------------

    @property
    def messages(self) -> list[TemplateMessage]:
        """The messages so far, as the template gets them; do not change them."""
        return list(self._messages)

    @property
    def render_stats(self) -> RenderStats | None:
        """How the text of the latest turn came about; None before the first."""
        return self._stats

    @property
    def length(self) -> int:
        """Code points that the session holds."""
        return len(self._ledger)

    def read_text(self, start: int = 0) -> str:
        """Return what the session holds, from a code point on.

        A session that can go back only to an earlier place than `Increment.kept` is sent the text
        from that place on. Where a control token in the text of a message was broken up, there is a
        blank.
        """
        return show_seals(self._ledger.read(start))

    def read_pieces(self, start: int = 0) -> list[str]:
        """Return the same in pieces, for a session that makes tokens of each by itself.

        A control token in the text of a message is cut between two of them; nothing is added.
        """
        return split_at_seals(self._ledger.read(start))

    def copy(self) -> RenderState:
        """Return a state that goes on by itself: for a branch, a try, or to go back to."""
        twin = RenderState(self._template, self._variables)
        twin.__dict__.update(self.__dict__)
        twin._messages = self._messages.copy()
        twin._call_names = self._call_names.copy()
        twin._ledger = self._ledger.copy()
        return twin

    # -- what the session does --------------------------------------------------------------------

    def record_reply(self, text: str) -> None:
        """Note what the session holds of the model's own words: all of it, unchanged.

        Args:
            text: With the stop text if the session's state contains that, else without.
        """
        # The code point of a seal is nobody's; as a seal it would be shown as something else.
        self._ledger.append(text.replace(SEAL, "\ufffd"), "reply")

    def rewind(self, length: int = 0) -> None:
        """Note that the session holds no more than its first `length` code points.

        The next `feed` sends what is missing.
        """
        if not 0 <= length <= len(self._ledger):
            raise ConfigError(f"the session holds {len(self._ledger)} code points, not {length}")
        self._ledger.cut(length)

    def begin_again(self) -> None:
        """Forget the messages, but not what the session holds.

        For a conversation that was taken back, shortened or changed: the next `feed` gets all its
        messages, and reports how far the session still holds what the template writes for them.
        """
        self._messages, self._call_names, self._open_part = [], {}, None

    def update(self, **variables: Any) -> None:
        """Change variables for all turns to come; `tools` is one of them.

        What the session holds stays; if the prompt begins otherwise now, the next turn diverges.
        """
        self._variables = {**self._variables, **self._template.check_variables(variables)}

    # -- the next turn ----------------------------------------------------------------------------

    def feed(
        self,
        messages: Iterable[MessageLike],
        *,
        extra_context: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        pending: bool = False,
    ) -> Increment:
        """Add messages and return what the session needs for them.

        Args:
            messages: What is new: the reply to the last turn, then what comes next. May be empty.
            extra_context: Variables for this turn alone; they go before those of `start`.
            add_generation_prompt: Whether the model is to write next.
            pending: Whether the last message is a part of one that goes on with the next `feed`;
                needs a template that renders parts (`ChatTemplate.supports_pending`).

        Raises:
            ChatTemplateError: If the template refuses the messages, or does not render parts.
            InvalidMessageError: If a message cannot be shown to a template.
        """
        added, new_names = self._convert(messages)
        variables = self._build_variables(extra_context, prompt=add_generation_prompt)
        if pending or self._open_part is not None:
            increment = self._feed_part(added, variables, pending=pending)
        else:
            increment = self._feed_whole(added, variables)
        self._call_names.update(new_names)
        self._stats = increment.stats
        return increment

    def feed_unended(
        self, messages: Iterable[MessageLike], *, extra_context: Mapping[str, Any] | None = None
    ) -> Increment:
        """Add messages but for the last, and return what the session needs to read that as well.

        The last message is still being said: the session reads its text so far, without what closes
        it. Feed it again as it is then, by this method or at last by `feed`; the session is sent
        what is new. Any template can do this that shows the text of its messages.

        Args:
            messages: What is new; at least the message that goes on, which ends with text.
            extra_context: See `feed`.

        Raises:
            ChatTemplateError: If the template refuses the messages, or does not show the last one.
            InvalidMessageError: If a message cannot be shown to a template, or the last does not
                end with text.
        """
        added, new_names = self._convert(messages)
        everything = [*self._messages, *added]
        text = self._template.render_unended(
            everything, self._build_variables(extra_context, prompt=False)
        )
        self._call_names.update(new_names)
        self._messages += added[:-1]
        increment = self._settle(text)
        self._stats = increment.stats
        return increment

    def _convert(
        self, messages: Iterable[MessageLike]
    ) -> tuple[list[TemplateMessage], dict[str, str]]:
        """Return messages as the template gets them, and the names of the calls in them."""
        names: dict[str, str] = {}
        return self._template.convert_messages(messages, ChainMap(names, self._call_names)), names

    def _build_variables(self, extra: Mapping[str, Any] | None, *, prompt: bool) -> dict[str, Any]:
        return {**self._variables, _PROMPT: prompt, **self._template.check_variables(extra or {})}

    def _feed_whole(self, added: list[TemplateMessage], variables: dict[str, Any]) -> Increment:
        everything = [*self._messages, *added]
        with translate_errors(self._template.name):
            text = self._template.render_converted(everything, variables)
        self._messages = everything
        return self._settle(text)

    def _settle(self, text: str) -> Increment:
        """Compare a prompt with what the session holds; make the session hold the prompt."""
        kept = self._ledger.match(text)
        sent = text[kept:]
        stats = RenderStats(reused_chars=kept, sent_chars=len(sent), neutralized=sent.count(SEAL))
        if kept < len(self._ledger):
            stats = stats._replace(
                diverged_at=kept,
                diverged_in=self._ledger.get_origin(kept),
                session_had=show_seals(self._ledger.read(kept, kept + _SHOWN)),
                prompt_has=show_seals(sent[:_SHOWN]),
            )
            self._ledger.cut(kept)
        self._ledger.append(sent, "prompt")
        return Increment(kept, show_seals(sent), stats)

    # -- a turn in parts --------------------------------------------------------------------------

    def _feed_part(
        self, added: list[TemplateMessage], variables: dict[str, Any], *, pending: bool
    ) -> Increment:
        if not self._template.supports_pending:
            raise ChatTemplateError(
                f"{self._template.name} renders whole messages only; "
                "send a turn at once, or use a template that knows 'is_appending_to_prefill'",
                reason="the template renders no parts",
                kind="UnsupportedByTemplate",
            )
        if not added:
            raise InvalidMessageError("a part of a turn needs a message")
        before = self.copy()
        try:
            return self._append_parts(added, variables, pending=pending)
        except BaseException:
            self.__dict__.update(before.__dict__)
            raise

    def _append_parts(
        self, added: list[TemplateMessage], variables: dict[str, Any], *, pending: bool
    ) -> Increment:
        before = Increment(len(self._ledger), "", _NOTHING)
        # A session may hold what was said before the conversation began again.
        is_stale = not self._messages and len(self._ledger) > 0
        if self._open_part is None and (len(added) > 1 or is_stale):
            before = self._feed_whole(added[:-1], {**variables, _PROMPT: False})
            added = added[-1:]
        texts = [
            self._render_part(part, variables, is_last=not pending and part is added[-1])
            for part in added
        ]
        for text in texts:
            self._ledger.append(text, "prompt")
        added_text = "".join(texts)
        sent = before.text + show_seals(added_text)
        stats = before.stats._replace(
            reused_chars=before.kept,
            sent_chars=len(sent),
            neutralized=before.stats.neutralized + added_text.count(SEAL),
        )
        return Increment(before.kept, sent, stats)

    def _render_part(
        self, part: TemplateMessage, variables: dict[str, Any], *, is_last: bool
    ) -> str:
        """Return the text of a part, and of the end of the turn before it."""
        text = ""
        held = self._open_part
        if held is not None and held["role"] != part["role"]:
            closing = {"role": held["role"], "content": ""}
            quiet = {**variables, _PROMPT: False}
            text = self._template.render_part(closing, quiet, is_first=False, is_last=True)
            self._messages.append(held)
            held = None
        prompt = is_last and variables[_PROMPT]
        text += self._template.render_part(
            part, {**variables, _PROMPT: prompt}, is_first=held is None, is_last=is_last
        )
        whole = part
        if held is not None:
            content = join_content(held.get("content"), part.get("content"))
            whole = {**held, **part, "content": content}
        self._open_part = None if is_last else whole
        if is_last:
            self._messages.append(whole)
        return text


# -- What a model's session has really received ---------------------------------------------------


Origin = Literal["prompt", "reply"]
"""Who wrote a part of the session's text: the template or the model."""


class SessionLedger:
    """The text of a session, in parts. Not thread-safe."""

    __slots__ = ("_ends", "_origins", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._ends: list[int] = []
        self._origins: list[Origin] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def copy(self) -> SessionLedger:
        """Return one that grows apart from this."""
        twin = SessionLedger()
        twin._parts[:] = self._parts
        twin._ends[:] = self._ends
        twin._origins[:] = self._origins
        return twin

    def append(self, text: str, origin: Origin) -> None:
        """Add what the session received."""
        if text:
            self._ends.append(len(self) + len(text))
            self._parts.append(text)
            self._origins.append(origin)

    def cut(self, length: int) -> None:
        """Forget everything after the first `length` code points."""
        number, within = self._locate(length)
        if number == len(self._parts):
            return
        part, origin = self._parts[number][:within], self._origins[number]
        del self._parts[number:], self._ends[number:], self._origins[number:]
        self.append(part, origin)

    def read(self, start: int = 0, end: int | None = None) -> str:
        """Return the text from code point `start`, up to `end`."""
        number, within = self._locate(start)
        last = len(self._parts) if end is None else bisect_right(self._ends, end) + 1
        rest = "".join(self._parts[number:last])[within:]
        return rest if end is None else rest[: max(0, end - start)]

    def get_origin(self, place: int) -> Origin:
        """Return who wrote the code point at `place`, which must be within the text."""
        return self._origins[self._locate(place)[0]]

    def match(self, text: str) -> int:
        """Return how many code points the session's text and another share at the beginning."""
        seen = 0
        for part in self._parts:
            if not text.startswith(part, seen):
                return seen + _match_length(part, text[seen : seen + len(part)])
            seen += len(part)
        return seen

    def _locate(self, offset: int) -> tuple[int, int]:
        """Return the part that holds a code point, and where in it."""
        number = bisect_right(self._ends, offset)
        return number, offset - (self._ends[number - 1] if number else 0)


def _match_length(one: str, other: str) -> int:
    """Return how many code points two texts share at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
