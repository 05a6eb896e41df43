"""Schemas of a `PostgresLog` as older releases left them."""

from __future__ import annotations

from langchain_core.messages import HumanMessage

from langchain_convmem.ids import make_ulid
from langchain_convmem.logs import postgres
from langchain_convmem.logs.base import encode_drafts, hash_message_id
from langchain_convmem.testing.log_contract import ANA
from langchain_convmem.views.codec import make_draft


def make_older_schema(server, schema, *, version):
    """Make a schema as an older release left it: one entry of Ana's, and what recall derived."""
    server.execute(f"CREATE SCHEMA {schema}")
    for script in postgres.MIGRATIONS[:version]:
        server.execute(script.format(s=schema))
    server.execute(f"UPDATE {schema}.log_meta SET version = %s", version)
    server.execute(
        f"INSERT INTO {schema}.owners(digest, user_id, last_position, generation) "
        "VALUES (%s, 'ana', 1, 0)",
        postgres._digest_owner(ANA.owner),
    )
    server.execute(
        f"INSERT INTO {schema}.threads(owner, digest, thread_id) VALUES (1, %s, 't1')",
        postgres._digest_thread("t1"),
    )
    [encoded] = encode_drafts([make_draft(HumanMessage("old", id="m1"))])
    insert_as_older_releases(server, schema, 1, encoded.body)
    server.execute(f"INSERT INTO {schema}.fingerprints(name) VALUES ('words/cut-9')")
    server.execute(
        f"INSERT INTO {schema}.segments(owner, position, part, segment, fingerprint, terms, vector)"
        f" SELECT owner, position, 0, 0, 1, 'old'::bytea, 'v'::bytea FROM {schema}.entries"
    )
    server.execute(f"INSERT INTO {schema}.documents VALUES (1, 'note', 7, '[1]')")


def insert_as_older_releases(server, schema, position, body):
    server.execute(
        f"INSERT INTO {schema}.entries(owner, thread, position, id, role, key_hash, body) "
        "VALUES (1, 1, %s, %s, 'user', %s, %s)",
        position,
        postgres._to_uuid(make_ulid()),
        hash_message_id("m1"),
        body,
    )
