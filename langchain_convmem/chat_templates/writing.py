"""The prompt of a growing conversation: by what is new where the template allows it, else whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_convmem.chat_templates.environment import RAISED_BY_TEMPLATES, LimitExceededError
from langchain_convmem.chat_templates.loop_splitting import SplitTemplate
from langchain_convmem.chat_templates.message_views import NotSeparableError
from langchain_convmem.chat_templates.messages import TemplateMessage
from langchain_convmem.chat_templates.walking import Mark, Walk

if TYPE_CHECKING:
    from langchain_convmem.chat_templates.chat_template import ChatTemplate

__all__ = ["PromptWriter", "Written"]

_PROMPT = "add_generation_prompt"
_TRIES = 2
"""How often a template may turn out to need the whole chat: one may begin with too little."""


class Written(NamedTuple):
    """A prompt, but for its beginning.

    Attributes:
        kept: Code points at the beginning that are as they were.
        text: What comes behind them.
        rounds: How many messages were written.
        reason: Why that was all of them; None if it was not, or in the first turn.
    """

    kept: int
    text: str
    rounds: int
    reason: str | None


class PromptWriter:
    """Writes the prompts of one conversation. Not thread-safe; copies are independent.

    An error changes nothing.
    """

    def __init__(self, template: ChatTemplate, anew: str | None = None) -> None:
        """Create a writer that has written nothing.

        Args:
            template: The template.
            anew: Why the first prompt is not really the first one.
        """
        self._template = template
        self._variables: dict[str, Any] | None = None
        self._walk: Walk | None = None
        self._mark: Mark | None = None
        self._refusals: tuple[str, ...] = ()
        self._anew = anew

    def copy(self) -> PromptWriter:
        """Return one that goes on by itself."""
        twin = PromptWriter(self._template)
        twin.__dict__.update(self.__dict__)
        return twin

    def rewound(self, length: int) -> None:
        """Note that no more than `length` code points of the latest prompt are left."""
        if self._mark is not None and length < self._mark.length:
            self._mark, self._anew = None, "the session was taken back"

    def written(self, messages: Sequence[TemplateMessage], variables: dict[str, Any]) -> Written:
        """Return the prompt of messages that begin as those of the last call did."""
        parts = self._template.parts
        if isinstance(parts, str):
            return self._whole(messages, variables, parts)
        known = {**variables}
        if parts.prompt_in_tail:
            del known[_PROMPT]
        draft = self.copy()
        if known != self._variables:
            is_first = self._variables is None
            draft = PromptWriter(self._template, None if is_first else "the variables changed")
            draft._variables = known
        found = draft._next(parts, messages, variables)
        self.__dict__.update(draft.__dict__)
        return found

    def _next(
        self,
        parts: SplitTemplate,
        messages: Sequence[TemplateMessage],
        variables: dict[str, Any],
    ) -> Written:
        if len(self._refusals) >= _TRIES:
            return self._whole(messages, variables, self._refusals[-1])
        try:
            walk = self._walk or Walk(self._template.sandbox, parts, variables, messages)
            walked = walk.run(messages, self._mark, prompt=variables[_PROMPT])
        except LimitExceededError:
            raise  # a whole prompt would take as much
        except NotSeparableError as refusal:
            self._refusals += (str(refusal),)
            return self._whole(messages, variables, str(refusal))
        except RAISED_BY_TEMPLATES:
            # A whole prompt decides whether the messages are at fault, or running them one by one.
            found = self._whole(messages, variables, "it fails message by message")
            self._refusals = ("it fails message by message",) * _TRIES
            return found
        kept = self._mark.length if self._mark else 0
        reason = None if self._mark else self._anew
        self._walk, self._mark, self._anew = walk, walked.mark, None
        return Written(kept, walked.text, walked.rounds, reason)

    def _whole(
        self, messages: Sequence[TemplateMessage], variables: dict[str, Any], reason: str
    ) -> Written:
        text = self._template.whole(messages, variables)
        self._mark, self._anew = None, reason
        return Written(0, text, len(messages), reason)
