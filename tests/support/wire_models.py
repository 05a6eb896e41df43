"""Chat models of the providers before the kit's servers, and their requests as plain lines."""

import json
from contextlib import ExitStack, asynccontextmanager, closing
from functools import cache
from itertools import groupby

import pytest

BEDROCK_MODEL = "anthropic.claude-sonnet-4-20250514-v1:0"


@asynccontextmanager
async def _open_openai(kind, server, tries, **options):
    openai = pytest.importorskip("openai", reason="openai is not installed")
    langchain = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    # With clients of its own: the shared ones are never closed and would warn in a later test.
    # Without certificates: loading them takes longer than a test, and loopback needs none.
    with openai.DefaultHttpxClient(verify=False) as client:
        async with openai.DefaultAsyncHttpxClient(verify=False) as async_client:
            clients = {"http_client": client, "http_async_client": async_client}
            options |= {"base_url": server.url, "api_key": "test", "max_retries": tries - 1}
            yield getattr(langchain, kind)(**clients, **options)


def chat_openai(server, *, tries=1):
    """Open a `ChatOpenAI` whose client sends a request so many times before it gives up."""
    return _open_openai("ChatOpenAI", server, tries, model="test-model", stream_usage=True)


def embed_openai(server, *, tries=1, **options):
    """Open an `OpenAIEmbeddings` before a server; it sends texts unless `options` say otherwise."""
    own = {"model": "text-embedding-3-small", "check_embedding_ctx_length": False}
    return _open_openai("OpenAIEmbeddings", server, tries, **{**own, **options})


@cache
def _session():
    """Return one session: each new one reads its models of the services again."""
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    return boto3.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
    )


@asynccontextmanager
async def _open_bedrock(kind, server, tries, names, **options):
    langchain = pytest.importorskip("langchain_aws", reason="langchain-aws is not installed")
    config = pytest.importorskip("botocore.config").Config(
        retries={"mode": "standard", "total_max_attempts": tries}
    )
    with ExitStack() as stack:
        for argument, service in names.items():
            client = _session().client(service, endpoint_url=server.url, config=config)
            options[argument] = stack.enter_context(closing(client))
        yield getattr(langchain, kind)(**options)


def chat_bedrock(server, *, tries=1):
    """Open a `ChatBedrockConverse` whose client sends a request so many times."""
    names = {"client": "bedrock-runtime", "bedrock_client": "bedrock"}
    return _open_bedrock("ChatBedrockConverse", server, tries, names, model=BEDROCK_MODEL)


def embed_bedrock(server, *, tries=1, **options):
    """Open a `BedrockEmbeddings` whose client sends a request so many times."""
    own = {"model_id": "amazon.titan-embed-text-v2:0", **options}
    return _open_bedrock("BedrockEmbeddings", server, tries, {"client": "bedrock-runtime"}, **own)


def lines_of_chat(body):
    """Return a request to Chat Completions as lines: texts, calls and results in order."""
    return [line for message in body["messages"] for line in _chat_lines(message)]


def _chat_lines(message):
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
    if message["role"] == "tool":
        yield f"result {message['tool_call_id']}: {text}"
        return
    if text:
        yield f"{message['role']}: {text}"
    for call in message.get("tool_calls") or ():
        arguments = json.loads(call["function"]["arguments"])
        yield f"call {call['id']} {call['function']['name']} {' '.join(arguments.values())}"


def lines_of_converse(body):
    """Return a request to Converse as lines: texts, calls and results in order."""
    system = [f"system: {block['text']}" for block in body.get("system") or ()]
    return system + [line for message in body["messages"] for line in _converse_lines(message)]


def _converse_lines(message):
    for is_text, group in groupby(message["content"], lambda block: "text" in block):
        blocks = list(group)
        if is_text:
            yield f"{message['role']}: " + "\n".join(block["text"] for block in blocks)
        for block in blocks:
            yield from _tool_lines(block)


def _tool_lines(block):
    if "toolUse" in block:
        call = block["toolUse"]
        yield f"call {call['toolUseId']} {call['name']} {' '.join(call['input'].values())}"
    if "toolResult" in block:
        result = block["toolResult"]
        told = "\n".join(part["text"] for part in result["content"])
        yield f"result {result['toolUseId']}: {told}"
