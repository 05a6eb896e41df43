"""boto3 and botocore, which no other file imports: making a client, and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_convmem.errors import ConfigError, LogError, LogUnavailableError, MissingExtraError

__all__ = ["ConditionFailedError", "TableExistsError", "new_client", "translated"]

_MAX_ATTEMPTS = 8
_TRANSIENT = frozenset(
    {
        "InternalFailure",
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_ADVICE = {
    "AccessDeniedException": "allow the actions that the page on DynamoDB in the docs lists",
    "ExpiredTokenException": "renew the credentials",
    "ItemCollectionSizeLimitExceededException": "one user holds at most 10 GB; forget old threads",
    "ResourceNotFoundException": "create the table with create_table(), or name another one",
    "UnrecognizedClientException": "check the credentials and the region",
    "ValidationException": "make sure that create_table() or its definition made the table",
}
_SERVER_ERROR = 500


class ConditionFailedError(LogError):
    """The item that is there does not meet the condition of a write."""


class TableExistsError(LogError):
    """There is a table of that name."""


def new_client(*, region_name: str | None, endpoint_url: str | None) -> Any:
    """Return a DynamoDB client that retries throttled and broken calls with growing pauses.

    Raises:
        MissingExtraError: If boto3 is not installed.
        ConfigError: If no client can be made of the arguments and the environment.
    """
    try:
        import boto3  # type: ignore[import-untyped]  # the driver carries no types
        from botocore.config import Config  # type: ignore[import-untyped]  # the same
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # the same
    except ImportError as error:
        raise MissingExtraError.for_extra("DynamoDBLog", "aws") from error
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _MAX_ATTEMPTS},
        connect_timeout=5,
        read_timeout=20,
        max_pool_connections=32,
    )
    try:
        # A session of its own: the default one must not be shared between threads.
        return boto3.session.Session().client(
            "dynamodb", region_name=region_name, endpoint_url=endpoint_url, config=config
        )
    except (BotoCoreError, ValueError) as error:
        msg = (
            f"no DynamoDB client can be made for region_name={region_name!r}, "
            f"endpoint_url={endpoint_url!r}: {error} Pass region_name=, set AWS_DEFAULT_REGION, or "
            "pass a client="
        )
        raise ConfigError(msg) from error


_EXPECTED: dict[str, type[LogError]] = {
    "ConditionalCheckFailedException": ConditionFailedError,
    "ResourceInUseException": TableExistsError,
}


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn the driver's exceptions into ours; `what` says what was tried, and where.

    Raises:
        ConditionFailedError: If the condition of a write was not met.
        TableExistsError: If the table to be made is there.
        LogUnavailableError: If the service could not be reached or stayed too busy.
        LogError: If it refused for another reason.
    """
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,  # noqa: A004 - the driver's name for it
        HTTPClientError,
    )

    try:
        yield
    except ClientError as error:
        raise _refusal(what, error.response) from error
    except (ConnectionError, HTTPClientError) as error:
        raise LogUnavailableError(f"{what}: {error}; try again later") from error
    except BotoCoreError as error:
        raise LogError(f"{what}: {error}") from error


def _refusal(what: str, response: Mapping[str, Any]) -> LogError:
    fields = response.get("Error", {})
    code = str(fields.get("Code", "unknown"))
    said = f"{what}: {code}: {fields.get('Message', '')}"
    if code in _EXPECTED:
        return _EXPECTED[code](said)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _TRANSIENT or status >= _SERVER_ERROR:
        return LogUnavailableError(f"{said}; try again later")
    return LogError(f"{said}; {_ADVICE[code]}" if code in _ADVICE else said)
