"""A service that completes plain text, on loopback: every prompt gets the same reply."""

from langchain_convmem.testing import ChatCompletionsServer
from langchain_convmem.testing.chat_completions import STREAM_END, encode_event
from langchain_convmem.testing.scripted_replies import ScriptedError, split_words
from langchain_convmem.views.tokens import count_text_tokens

_KNOWN = {"best_of", "echo", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "model"}
_KNOWN |= {"n", "presence_penalty", "prompt", "seed", "stop", "stream", "stream_options"}
_KNOWN |= {"suffix", "temperature", "top_p", "user"}


class CompletionsServer(ChatCompletionsServer):
    """Answers `POST /v1/completions`; refuses what OpenAI does not know, and a fifth stop text."""

    def find_fault(self, request):
        if request.path != "/v1/completions":
            return super().find_fault(request)
        unknown = sorted(request.body.keys() - _KNOWN)
        if unknown:
            message = f"Unrecognized request argument supplied: {', '.join(unknown)}"
            return ScriptedError(status=400, message=message, kind="invalid_request_error")
        if len(request.body.get("stop") or ()) > 4:
            return ScriptedError(status=400, message="Invalid 'stop': array too long.")
        return None

    def write(self, request, reply):
        body = request.body
        read = sum(map(count_text_tokens, _list_prompts(body)))
        choices = _build_choices(body, reply)
        wrote = sum(count_text_tokens(choice["text"]) for choice in choices)
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 0,
            "model": body["model"],
            "choices": choices,
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": wrote,
                "total_tokens": read + wrote,
            },
        }

    def stream(self, request, reply):
        whole = self.write(request, reply)
        usage = whole.pop("usage")
        for choice in whole.pop("choices"):
            piece = {"index": choice["index"], "logprobs": None, "finish_reason": None}
            for word in split_words(choice["text"]):
                yield encode_event({**whole, "choices": [{**piece, "text": word}]})
            ended = {**piece, "text": "", "finish_reason": choice["finish_reason"]}
            yield encode_event({**whole, "choices": [ended]})
        if (request.body.get("stream_options") or {}).get("include_usage"):
            yield encode_event({**whole, "choices": [], "usage": usage})
        yield STREAM_END


def _list_prompts(body):
    prompt = body["prompt"]
    return [prompt] if isinstance(prompt, str) else prompt


def _build_choices(body, reply):
    """Return what is written after each prompt; a word counts as a token."""
    stop = body.get("stop") or ()
    stops = [stop] if isinstance(stop, str) else stop
    places = [place for one in stops if one and (place := reply.text.find(one)) >= 0]
    words = split_words(reply.text[: min(places, default=len(reply.text))])
    limit = 16 if body.get("max_tokens") is None else body["max_tokens"]
    reason = "stop" if limit and len(words) <= limit else "length"
    choices = []
    for index, _ in enumerate(_list_prompts(body)):
        text = "".join(words[:limit])
        choices.append({"index": index, "text": text, "logprobs": None, "finish_reason": reason})
    return choices
