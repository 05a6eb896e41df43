"""`ChatTemplate`: messages to the text that a model was trained on, turn by turn."""

from __future__ import annotations

import copy
import json
import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jinja2 import meta, nodes
from pydantic import TypeAdapter, ValidationError

from langchain_convmem.causes import describe_error, suggest_name
from langchain_convmem.errors import ChatTemplateError, ConfigError, InvalidMessageError
from langchain_convmem.text.control_tokens import SEAL, ControlTokens, show_seals, split_at_seals
from langchain_convmem.text.messages import (
    MessageLike,
    TemplateMessage,
    build_template_messages,
    build_template_tool,
    list_functions,
    make_plain,
)
from langchain_convmem.text.sandbox import (
    RAISED_BY_TEMPLATES,
    LimitExceededError,
    Sandbox,
    TemplateLimits,
    Work,
    create_strftime,
    translate_errors,
)

_logger = logging.getLogger("langchain_convmem")

_PROMPT = "add_generation_prompt"
_PART = "is_appending_to_prefill"
_RESERVED = {"add_generation_prompt", "messages"}

_ROLES = ("assistant", "system", "tool", "user")

# Marks the end of a message that the model is to go on with; of private characters.
_CONTINUED = "\ue000convmem continues here\ue000"

# Stands for all texts of messages where a template is asked what it writes around them.
_PROBE = "\ue001"

# Each question takes at most this part of the work of a prompt.
_PROBE_SHARE = 8

_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)

# Roles of the messages it is asked with; few templates take all of them.
_PROBED = (
    ("system", "user", "assistant", "user", "tool", "assistant", "user"),
    ("system", "user", "assistant", "user"),
    ("user", "assistant", "user"),
    ("user",),
)


class ChatTemplate:
    """A Hugging Face chat template, run in a sandbox.

    `render` writes a whole prompt. `start` begins a conversation whose prompts are compared with
    what the model's session actually received, so that only new text is sent.

    Messages are LangChain messages, text (the user's), dicts as templates expect them, or pairs of
    role and content. The bytes of images and audio never reach a template.

    Safe to share between threads; the states that `start` returns are not.
    """

    def __init__(
        self,
        source: str,
        *,
        name: str = "the chat template",
        roles: Mapping[str, str] | None = None,
        limits: TemplateLimits | None = None,
        now: Callable[[], datetime] | None = None,
        control_tokens: Iterable[str] = (),
        **variables: Any,
    ) -> None:
        """Compile a template.

        Args:
            source: The template.
            name: Its name in error messages.
            roles: The template's names for `user`, `assistant`, `system` or `tool`, if they differ,
                such as `{"assistant": "model"}`.
            limits: Limits of size and work.
            now: Returns the time for `strftime_now`; the clock by default. A conversation calls it
                once, so that its prompt does not change at midnight.
            control_tokens: Tokens of the model's tokenizer that text of messages must never form,
                in addition to those that the template itself writes; see `control_tokens`.
            **variables: Variables for every prompt, such as `bos_token`.

        Raises:
            ChatTemplateError: If the template is invalid; the error has the line.
            ConfigError: If `control_tokens` is one text.
        """
        if isinstance(control_tokens, str):  # its letters are no tokens, and none would be guarded
            raise ConfigError(f"control_tokens must be a list of texts, got {control_tokens!r:.80}")
        self.source = source
        self.name = name
        self.sandbox = Sandbox(limits or TemplateLimits())
        self._now = now or datetime.now
        self._named_tokens = frozenset(control_tokens)
        with translate_errors(name):
            tree = self.sandbox.read(source)
            self._literals = [one.data for one in tree.find_all(nodes.TemplateData)]
            self._literals += [
                one.value for one in tree.find_all(nodes.Const) if isinstance(one.value, str)
            ]
            self._wants_parts = _loops_over_content(tree)
            self._template = self.sandbox.compile_limited(tree)
            # Jinja computes constants where it looks for variables: not before these are limited.
            undeclared = meta.find_undeclared_variables(tree)
        # What it calls a role, where that differs from our name.
        self.roles = _check_roles(roles or {})
        # Names that it may read before it sets them, such as `enable_thinking`.
        self.variables = frozenset(undeclared) - {*self.sandbox.globals}
        # Whether it renders messages in parts; if so, it may look at one message at a time alone.
        self._reads_parts = _PART in self.variables
        self._defaults = {key: one for key, one in variables.items() if isinstance(one, str)}
        self._defaults = self.check_variables(variables)

    # -- where templates come from ----------------------------------------------------------------

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> ChatTemplate:
        """Read a template, in UTF-8.

        Args:
            path: The template's file.
            **options: See the constructor.

        Raises:
            OSError: If the file cannot be read.
            ConfigError: If it is not UTF-8.
        """
        return cls(_read_text(Path(path)), **{"name": Path(path).name, **options})

    @classmethod
    def from_tokenizer_config(
        cls, config: str | Path | Mapping[str, Any], *, template: str | None = None, **options: Any
    ) -> ChatTemplate:
        """Read a template and its special tokens from a Hugging Face model's files.

        Args:
            config: A `tokenizer_config.json`, the model's folder, or the file's content. If the
                file has no template, `chat_template.jinja` next to it is read.
            template: Which one, if there are several; by default the one named `default`.
            **options: See the constructor; they override the file.

        Raises:
            OSError: If a file cannot be read.
            ConfigError: If there is no such template; the message names the existing ones.
        """
        name, templates = "the tokenizer's chat template", None
        if not isinstance(config, Mapping):
            path = Path(config)
            path = path / _CONFIG if path.is_dir() else path
            name, config = path.name, _read_json(path)
            beside = path.with_name(_TEMPLATE)
            if config.get(_KEY) is None and beside.is_file():
                templates = _read_text(beside)
        named = _index_templates(templates or config.get(_KEY))
        if not named:
            raise ConfigError(f"{name} has no {_KEY!r}")
        chosen = template or ("default" if "default" in named else next(iter(named)))
        if chosen not in named or (template is None and "default" not in named and len(named) > 1):
            raise ConfigError(f"{name} has templates {sorted(named)}, not {chosen!r}; choose one")
        tokens = {key: _read_token(one) for key, one in config.items() if key.endswith("_token")}
        told = {
            "name": name if len(named) == 1 else f"{name} ({chosen})",
            "control_tokens": _find_control_tokens(config),
            **{key: token for key, token in tokens.items() if token is not None},
        }
        return cls(named[chosen], **{**told, **options})

    @classmethod
    def from_builtin(cls, name: str, **options: Any) -> ChatTemplate:
        """Return one of this package's templates for a family of models.

        If a model has its own template, use that instead.

        Args:
            name: `chatml`, `gemma`, `llama3`, `mistral` or `qwen`.
            **options: See the constructor.

        Raises:
            ConfigError: If there is no template with that name.
        """
        if name not in BUILTINS:
            known = f"{sorted(BUILTINS)}; ChatTemplate(source) and .from_file(path) make others"
            raise ConfigError(f"no built-in template {name!r:.80}; there are {known}")
        file = files("langchain_convmem.text") / "builtin" / f"{name}.jinja"
        return cls(file.read_text("utf-8"), **{"name": name, **BUILTINS[name], **options})

    # -- what it is like --------------------------------------------------------------------------

    @property
    def special_tokens(self) -> dict[str, str]:
        """The special tokens passed to it, such as `eos_token`, by name."""
        given = self._defaults.items()
        return {key: one for key, one in given if key.endswith("_token") and isinstance(one, str)}

    @cached_property
    def control_tokens(self) -> ControlTokens:
        """The tokens that structure its prompts. They are broken up in the text of messages.

        They come from the template and its output, its special tokens, and the constructor's
        `control_tokens`.
        """
        named = {*self._named_tokens, *self.special_tokens.values()}
        return ControlTokens.find(self._literals, self._probe(), named)

    def extend_control_tokens(self, tokens: Iterable[str]) -> ChatTemplate:
        """Return the template with further tokens of the model's tokenizer."""
        more = self._named_tokens.union(tokens)
        if more == self._named_tokens:
            return self
        twin = copy.copy(self)
        twin.__dict__["_named_tokens"] = more
        twin.__dict__.pop("control_tokens", None)
        return twin

    def _probe(self) -> list[str]:
        """Return what the template writes around the texts of messages, if it takes any."""
        content: Any = [{"type": "text", "text": _PROBE}] if self._wants_parts else _PROBE
        for roles in _PROBED:
            text = self._render_probe(
                [{"role": role, "content": content, "name": "probe"} for role in roles]
            )
            if text is not None:
                return text.split(_PROBE)
        return []

    def _render_probe(self, chat: Sequence[TemplateMessage]) -> str | None:
        """Return what the template makes of a short chat, cheaply; None if it refuses it."""
        messages = [{**one, "role": self.roles.get(one["role"], one["role"])} for one in chat]
        given = {"strftime_now": create_strftime(_ANY_DAY), **self._defaults, "tools": None}
        work = Work(self.sandbox.limits.max_work // _PROBE_SHARE)
        try:
            return self.render_converted(messages, {**given, _PROMPT: True}, work)
        except LimitExceededError:
            return ""  # one that runs away from a short chat does so from the next
        except (ChatTemplateError, *RAISED_BY_TEMPLATES):
            return None

    # -- rendering --------------------------------------------------------------------------------

    def render(
        self,
        messages: Iterable[MessageLike],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """Return the whole prompt.

        Control tokens in the text of messages get a space inside, which disables them; a log
        warning reports their number.

        Args:
            messages: The conversation.
            tools: Maps, functions, `BaseTool` or pydantic classes.
            add_generation_prompt: Whether the model writes next.
            continue_final_message: Whether the model continues the last message instead, which
                must be text.
            **variables: Other variables of the template.

        Raises:
            ChatTemplateError: If the template refuses the messages; the error has its message.
            InvalidMessageError: If a message cannot be passed to a template.
        """
        found = self.seal_messages(self.convert_messages(messages, {}))
        given = self._collect_variables(tools, variables)
        if continue_final_message:
            return show_seals(self.render_unended(found, given))
        with translate_errors(self.name):
            text = self.render_converted(found, {**given, _PROMPT: add_generation_prompt})
        if SEAL in text:
            what = "%s: %d control tokens in the text of messages were broken up"
            _logger.warning(what, self.name, text.count(SEAL))
        return show_seals(text)

    def start(self, *, tools: Sequence[Any] | None = None, **variables: Any) -> RenderState:
        """Begin a conversation.

        Args:
            tools: See `render`.
            **variables: Variables for all turns.
        """
        return RenderState(self, self._collect_variables(tools, variables))

    # -- for the states of conversations ----------------------------------------------------------

    def convert_messages(
        self, messages: Iterable[MessageLike], call_names: MutableMapping[str, str]
    ) -> list[TemplateMessage]:
        """Return messages as this template gets them, unsealed; see `build_template_messages`."""
        if isinstance(messages, str | Mapping):
            raise TypeError("pass a list of messages, also for a single one")
        found = build_template_messages(
            messages, roles=self.roles, as_parts=self._wants_parts, call_names=call_names
        )
        for message in found:
            for _, call in list_functions(message):
                rewrite = self._argument_writers.get(type(call.get("arguments")))
                if rewrite is not None:
                    call["arguments"] = rewrite(call["arguments"])
        return found

    def seal_messages(self, messages: Iterable[TemplateMessage]) -> list[TemplateMessage]:
        """Return converted messages with their control tokens sealed."""
        return [self.control_tokens.seal_message(message) for message in messages]

    @cached_property
    def _argument_writers(self) -> dict[type, Callable[[Any], Any]]:
        """What rewrites the arguments of calls, by their type: into the form the template takes.

        Some templates iterate over arguments, others join their JSON to text.
        """
        takes_map = _PROBE in self._show_call({_PROBE: 1})
        written = self._show_call(_write_arguments({_PROBE: 1})).replace("\\", "")
        if takes_map == (f'"{_PROBE}": 1' in written):  # who loops over text shows single letters
            return {}
        return {str: _read_arguments} if takes_map else {dict: _write_arguments}

    def _show_call(self, arguments: Any) -> str:
        call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": arguments}}
        chat: list[TemplateMessage] = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": ".", "tool_call_id": "1", "name": "f"},
        ]
        return self._render_probe(chat) or ""

    def check_variables(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return variables in plain types."""
        wrong = sorted(_RESERVED & set(variables))
        if wrong:
            raise ConfigError(f"{', '.join(wrong)} cannot be set as a variable of the template")
        return {name: self._seal_variable(name, value) for name, value in variables.items()}

    def _seal_variable(self, name: str, value: Any) -> Any:
        """Return a variable; texts within lists and maps are somebody's, such as documents."""
        is_tools = name == "tools"
        if is_tools and value is not None:
            value = [build_template_tool(tool) for tool in value]
        plain = make_plain(value, f"variable {name}")
        if not isinstance(plain, list | dict):
            return plain
        # Descriptions of tools may show how calls are written.
        return self.control_tokens.seal_value(plain, marks=not is_tools)

    def render_converted(
        self,
        messages: Sequence[TemplateMessage],
        variables: Mapping[str, Any],
        work: Work | None = None,
    ) -> str:
        """Return a prompt of sealed messages; raises what the template raises."""
        work = work or Work(self.sandbox.limits.max_work)
        if not self._reads_parts or "messages" in self.variables:
            given = {**variables, "messages": messages}
            return self.sandbox.render(self._template, given, work)
        parts = dict.fromkeys((_PART, "is_first_part", "is_last_part"), True)
        texts = []
        for left, message in zip(range(len(messages) - 1, -1, -1), messages, strict=True):
            prompt = variables[_PROMPT] and not left
            given = {**variables, **parts, "message": message, "tools": None, _PROMPT: prompt}
            texts.append(self.sandbox.render(self._template, given, work))
        return "".join(texts)

    def render_unended(
        self, messages: Sequence[TemplateMessage], variables: Mapping[str, Any]
    ) -> str:
        """Return a prompt up to where the text of its last message ends, which may go on.

        White space at the end of the text is left out, as templates trim it, too; but where they
        render parts.

        Args:
            messages: Sealed messages.
            variables: What the template reads.

        Raises:
            InvalidMessageError: If the last message does not end with text.
            ChatTemplateError: If the template does not show it.
        """
        marked = _mark_end(messages[-1], is_exact=self._reads_parts) if messages else None
        if marked is None:
            raise InvalidMessageError("the message to go on with must be there, and end with text")
        with translate_errors(self.name):
            text, mark, _ = self.render_converted(
                [*messages[:-1], marked], {**variables, _PROMPT: False}
            ).rpartition(_CONTINUED)
        if not mark:
            reason = "the last message is not shown, so nothing can go on with it"
            raise ChatTemplateError(
                f"{self.name}: {reason}", reason=reason, kind="NothingToContinue"
            )
        return text

    def _collect_variables(
        self, tools: Sequence[Any] | None, variables: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return all that the template reads besides messages."""
        given = {**self._defaults, "tools": self._seal_variable("tools", tools)}
        now = create_strftime(self._now())
        return {"strftime_now": now, **given, **self.check_variables(variables)}

    def __repr__(self) -> str:
        return f"ChatTemplate({self.name!r}, {len(self.source)} characters)"


def _check_roles(roles: Mapping[str, str]) -> Mapping[str, str]:
    for role in set(roles).difference(_ROLES):
        near = suggest_name(role, _ROLES)
        raise ConfigError(f"roles= names {role!r}; it takes {', '.join(_ROLES)}{near}")
    return roles


def _loops_over_content(tree: nodes.Template) -> bool:
    """Return whether content has to be a list: it is looped over, and its type is never asked."""
    loops = [loop.iter for loop in tree.find_all(nodes.For)]
    asks = any(test.name == "string" for test in tree.find_all(nodes.Test))
    return not asks and any(map(_is_content_read, loops))


def _mark_end(message: TemplateMessage, *, is_exact: bool) -> TemplateMessage | None:
    """Return a message with a mark where its text ends; None if it does not end with text."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    last = parts[-1] if parts and isinstance(parts[-1], dict) else {}
    text = last.get("text")
    if last.get("type", "text") != "text" or not isinstance(text, str):
        return None
    marked = (text if is_exact else text.rstrip()) + _CONTINUED
    ended = [*parts[:-1], {**last, "text": marked}]
    return {**message, "content": ended if parts is content else marked}


def _write_arguments(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def _read_arguments(arguments: str) -> Any:
    """Return the map that a text is the JSON of, else the text."""
    try:
        read = json.loads(arguments)
    except ValueError:
        return arguments
    return read if isinstance(read, dict) else arguments


def _is_content_read(expression: nodes.Node) -> bool:
    within = [expression, *expression.find_all((nodes.Getattr, nodes.Getitem))]
    return any(_get_key(one) == "content" for one in within)


def _get_key(node: nodes.Node) -> Any:
    """Return what an expression looks up in a value, such as `role` in `m.role`."""
    return getattr(node, "attr", None) or getattr(getattr(node, "arg", None), "value", None)


# -- Where chat templates come from: files, tokenizer configurations, and our own -----------------


BUILTINS: Mapping[str, Mapping[str, str]] = {
    "chatml": {},
    "gemma": {"bos_token": "<bos>"},
    "llama3": {"bos_token": "<|begin_of_text|>"},
    "mistral": {"bos_token": "<s>", "eos_token": "</s>"},
    "qwen": {},
}
"""Our own templates, and the special tokens of each."""

_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_KEY = "chat_template"


def _read_text(path: Path) -> str:
    """Return a template's text, without a byte order mark."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8: {error}") from error


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        return TypeAdapter(dict[str, Any]).validate_json(path.read_bytes())
    except ValidationError as error:
        raise ConfigError(f"{path.name} is no map in JSON: {describe_error(error)}") from error


def _index_templates(templates: Any) -> dict[str, str]:
    """Return templates by name; a single one is called `default`."""
    if isinstance(templates, str):
        return {"default": templates}
    if isinstance(templates, list):
        named = [one for one in templates if isinstance(one, dict)]
        templates = {one.get("name"): one.get("template") for one in named}
    pairs = templates.items() if isinstance(templates, Mapping) else ()
    return {name: source for name, source in pairs if isinstance(source, str) and name}


def _find_control_tokens(config: Mapping[str, Any]) -> set[str]:
    """Return the tokens that were added to a vocabulary, which are parts of no word."""
    added = config.get("added_tokens_decoder")
    more = config.get("additional_special_tokens")
    listed = list(added.values()) if isinstance(added, Mapping) else []
    return set(filter(None, map(_read_token, [*listed, *(more if isinstance(more, list) else [])])))


def _read_token(token: Any) -> str | None:
    """Return a token, which is a text or a map that holds one."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else None


# -- What one conversation has rendered: its text for each turn, against what its session holds ----


Origin = Literal["prompt", "reply"]
"""Who wrote a part of the session's text: the template or the model."""


class RenderStats(NamedTuple):
    """What one turn sent to its session, and why.

    Attributes:
        reused_chars: Code points that the session keeps.
        sent_chars: Code points that it is sent.
        diverged_at: Where the prompt differs from what the session holds; None if it goes on from
            it. The session has to be taken back there, or filled anew.
        diverged_in: Whether a `prompt` or a `reply` stood there.
        neutralized: How many control tokens in the text of messages were broken up in what is sent.
    """

    reused_chars: int
    sent_chars: int
    diverged_at: int | None = None
    diverged_in: Origin | None = None
    neutralized: int = 0


class Increment(NamedTuple):
    """The text that a session needs for the next turn.

    Attributes:
        kept: Code points of its text that it keeps; what comes after them has to go first.
        text: What it is sent then.
        stats: How this came about.
    """

    kept: int
    text: str
    stats: RenderStats


class RenderState:
    """A conversation as a template has rendered it, and the text that its session received.

    Each turn: `feed` what is new, take the session back to `increment.kept`, send
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
        self._sent = ""  # what the session holds, sealed,
        self._replies: tuple[range, ...] = ()  # and what of it the model wrote

    # -- reading ----------------------------------------------------------------------------------

    @property
    def messages(self) -> list[TemplateMessage]:
        """The messages so far, as the template gets them; do not change them."""
        return list(self._messages)

    @property
    def length(self) -> int:
        """Code points that the session holds."""
        return len(self._sent)

    def read_text(self, start: int = 0) -> str:
        """Return what the session holds, from a code point on.

        A session that can go back only to an earlier place than `Increment.kept` is sent the text
        from that place on. Where a control token in the text of a message was broken up, there is a
        blank.
        """
        return show_seals(self._sent[start:])

    def read_pieces(self, start: int = 0) -> list[str]:
        """Return the same in pieces, for a session that makes tokens of each by itself.

        A control token in the text of a message is cut between two of them; nothing is added.
        """
        return split_at_seals(self._sent[start:])

    def find_tokens(self, tokens: Iterable[str]) -> list[tuple[int, str]]:
        """Return where the template wrote any of these, as far as it knows them, in order.

        What stands in a message or was written by the model itself is not meant.
        """
        known = self._template.control_tokens.tokens.intersection(tokens)
        wanted = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        return [
            (found.start(), found[0])
            for found in re.finditer(wanted or "(?!)", self._sent)
            if self._get_origin(found.start()) == "prompt"
        ]

    def _get_origin(self, place: int) -> Origin:
        return "reply" if any(place in one for one in self._replies) else "prompt"

    def copy(self) -> RenderState:
        """Return a state that goes on by itself: for a branch, a try, or to go back to."""
        return copy.copy(self)  # nothing that it holds is changed in place

    # -- what the session does --------------------------------------------------------------------

    def record_reply(self, text: str) -> None:
        """Note what the session holds of the model's own words: all of it, unchanged.

        Args:
            text: With the stop text if the session's state contains that, else without.
        """
        start = len(self._sent)
        # The code point of a seal is nobody's; as a seal it would be shown as something else.
        self._sent += text.replace(SEAL, "\ufffd")
        self._replies += (range(start, len(self._sent)),)

    def rewind(self, length: int = 0) -> None:
        """Note that the session holds no more than its first `length` code points.

        The next `feed` sends what is missing.
        """
        if not 0 <= length <= len(self._sent):
            raise ConfigError(f"the session holds {len(self._sent)} code points, not {length}")
        self._sent = self._sent[:length]
        self._replies = tuple(
            range(one.start, min(one.stop, length)) for one in self._replies if one.start < length
        )

    def begin_again(self) -> None:
        """Forget the messages, but not what the session holds.

        For a conversation that was taken back, shortened or changed: the next `feed` gets all its
        messages, and reports how far the session still holds what the template writes for them.
        """
        self._messages, self._call_names = [], {}

    # -- the next turn ----------------------------------------------------------------------------

    def feed(
        self,
        messages: Iterable[MessageLike],
        *,
        extra_context: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> Increment:
        """Add messages and return what the session needs for them.

        Args:
            messages: What is new: the reply to the last turn, then what comes next. May be empty.
            extra_context: Variables for this turn alone; they go before those of `start`.
            add_generation_prompt: Whether the model is to write next.
            continue_final_message: Whether the last message is still being said. The session reads
                its text so far, without what closes it, and the state does not keep it. Feed it
                again as it is then: the session is sent what is new. Any template can do this that
                shows the text of its messages.

        Raises:
            ChatTemplateError: If the template refuses the messages, or does not show the last one,
                which goes on.
            InvalidMessageError: If a message cannot be shown to a template, or the last one is to
                go on and does not end with text.
        """
        template, names = self._template, dict(self._call_names)
        added = template.seal_messages(template.convert_messages(messages, names))
        everything = [*self._messages, *added]
        variables = {
            **self._variables,
            _PROMPT: add_generation_prompt,
            **template.check_variables(extra_context or {}),
        }
        if continue_final_message:
            text = template.render_unended(everything, variables)
            everything = everything[:-1]
        else:
            with translate_errors(template.name):
                text = template.render_converted(everything, variables)
        self._messages, self._call_names = everything, names
        return self._settle(text)

    def _settle(self, text: str) -> Increment:
        """Compare a prompt with what the session holds; make the session hold the prompt."""
        kept = _count_common(self._sent, text)
        sent = text[kept:]
        stats = RenderStats(reused_chars=kept, sent_chars=len(sent), neutralized=sent.count(SEAL))
        if kept < len(self._sent):
            stats = stats._replace(diverged_at=kept, diverged_in=self._get_origin(kept))
            self.rewind(kept)
        self._sent = text
        return Increment(kept, show_seals(sent), stats)


def _count_common(held: str, text: str) -> int:
    """Return how many code points two texts share at the beginning."""
    if text.startswith(held):
        return len(held)
    ends = range(1, min(len(held), len(text)) + 1)
    return bisect_left(ends, True, key=lambda end: not held.startswith(text[:end]))
