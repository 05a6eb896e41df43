from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from langchain_core.messages import HumanMessage
from postgres_server import new_schema, running_server, wait_for
from recall_rows_contract import RecallRowsContract

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.logs.base import hash_message_id
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.records import Owner, StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import MessageLogContract, list_texts, say, say_all
from langchain_convmem.views.codec import make_draft

pytestmark = pytest.mark.postgres

KEY = "a secret of the operator"
ANA = ThreadKey("ana", "t1")
ANAS_OTHER = ThreadKey("ana", "t2")


@pytest.fixture
def log(server, schema):
    with PostgresLog(server.dsn, schema=schema) as opened:
        yield opened


class TestPostgresLog(RecallRowsContract, MessageLogContract):
    persistent = True
    several_handles = True
    several_processes = True
    removals = ("DELETE FROM {s}.entries",)
    alterations = (
        "UPDATE {s}.entries SET body = replace(body, 'secret', 'public')",
        "UPDATE {s}.entries SET body = body || ' '",
        "UPDATE {s}.entries SET role = 'system'",
        "UPDATE {s}.entries SET role = 'nobody'",
        "UPDATE {s}.entries SET turn = uuid_send(gen_random_uuid())",
        "UPDATE {s}.entries SET turn = 'nanother'::bytea",
        "UPDATE {s}.entries SET turn = '\\x6eff'::bytea",
        "UPDATE {s}.entries SET id = uuid_send(gen_random_uuid())",
        """UPDATE {s}.entries SET metadata = '{"a":["seen"]}'""",
        "UPDATE {s}.entries SET signature = set_byte(signature, 3, 255 - get_byte(signature, 3))",
        "UPDATE {s}.entries SET signature = substr(signature, 2)",
    )

    def make_log(self, tmp_path):
        self.schema = new_schema()
        return partial(PostgresLog, running_server().dsn, schema=self.schema)

    def alter(self, how, position):
        statement = how.replace("{s}", self.schema)
        running_server().execute(f"{statement} WHERE (place & 4294967295) = %s", position)


class TestPostgresLogOnAGivenPool(RecallRowsContract, MessageLogContract):
    """The synchronous calls on the caller's pool, whose settings are not ours."""

    persistent = True
    several_handles = True
    several_processes = False  # a pool cannot be sent to another process

    @pytest.fixture(autouse=True)
    def _pool(self):
        from psycopg.rows import dict_row
        from psycopg_pool import ConnectionPool

        kwargs = {"row_factory": dict_row, "autocommit": False}
        dsn = running_server().dsn
        with ConnectionPool(dsn, kwargs=kwargs, min_size=1, max_size=4, open=True) as pool:
            self.pool = pool
            yield
            with pool.connection() as connection:  # closing the logs closed no pool
                assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
                assert not connection.autocommit

    def make_log(self, tmp_path):
        schema = new_schema()
        return lambda: PostgresLog(pool=self.pool, schema=schema)


def test_positions_of_an_owner_are_dense_over_its_threads(log):
    def write(writer):
        for number in range(10):
            key = (ANA, ANAS_OTHER)[(writer + number) % 2]
            say_all(log, key, [f"{writer}-{number} a", f"{writer}-{number} b"])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, writer) for writer in range(4)]:
            done.result()
    positions = [entry.position for entry in log.changes(ANA.owner).entries]
    assert positions == list(range(1, 81))


def test_a_cursor_never_passes_a_slow_writer(server, schema, log):
    """One transaction has its numbers and does not commit; others of the same user wait for it."""
    import psycopg

    say(log, ANA, "first")
    cursor = log.changes(ANA.owner).cursor
    seen = []

    def write(writer):
        for number in range(5):
            say(log, (ANA, ANAS_OTHER)[number % 2], f"{writer}-{number}")

    with psycopg.connect(server.dsn) as slow, ThreadPoolExecutor(4) as pool:
        slow.execute(
            f"WITH o AS (UPDATE {schema}.owners SET last = last + 1 RETURNING owner, last) "
            f"INSERT INTO {schema}.entries(place, thread, id, role, key_hash, body, signature) "
            "SELECT o.owner << 32 | o.last, e.thread, e.id, e.role, 0, e.body, '' "
            f"FROM o, {schema}.entries e LIMIT 1"
        )
        writers = [pool.submit(write, writer) for writer in range(4)]
        wait_for(lambda: len(server.backends(wait_event_type="Lock")) == 4)
        assert log.changes(ANA.owner, cursor).entries == ()
        say(log, ThreadKey("bo", "t1"), "other users do not wait")
        slow.commit()
        finished = False
        while not finished:
            finished = all(writer.done() for writer in writers)
            page = log.changes(ANA.owner, cursor)
            seen += page.entries
            cursor = page.cursor
        for writer in writers:
            writer.result()
    assert seen[0].damage  # what the slow writer made carries no checksum
    expected = sorted(f"{writer}-{n}" for writer in range(4) for n in range(5))
    assert sorted(list_texts(seen[1:])) == expected
    assert [entry.position for entry in log.changes(ANA.owner).entries] == list(range(1, 23))


def test_a_user_forgotten_while_another_process_writes_starts_above_the_old_numbers(log):
    """Forgetting drops the owner's row; whoever waited for it must not number from 1 again."""
    last = 0
    for _ in range(10):
        entries = say_all(log, ANA, ["one", "two", "three"])
        assert entries[0].position > last
        with ThreadPoolExecutor(2) as pool:
            forgotten = pool.submit(log.forget, ANA.owner)
            written = pool.submit(say, log, ANA, "at the same time")
            forgotten.result()
            last = written.result().position
        assert last > entries[-1].position
        generation = log.changes(ANA.owner).generation
        log.forget(ANA.owner)
        assert log.changes(ANA.owner).generation > generation


def test_what_is_read_is_one_state_of_the_log(server, schema, log, monkeypatch):
    """Someone forgets between the two statements of a reader: it must not mix old and new."""
    import psycopg

    before = (say(log, ANA, "one"), say(log, ANA, "two"))
    generation = log.changes(ANA.owner).generation

    other = PostgresLog(server.dsn, schema=schema)
    waiting, execute = [lambda: other.forget(ANA, [before[0].id])], psycopg.ClientCursor.execute

    def forget_between(self, text, *args, **options):
        if waiting and "FROM entries" in text:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(waiting.pop()).result()
        return execute(self, text, *args, **options)

    monkeypatch.setattr(psycopg.ClientCursor, "execute", forget_between)
    read = log.changes(ANA.owner)
    other.close()
    assert waiting == []
    assert (read.entries, read.generation) == (before, generation)
    after = log.changes(ANA.owner)
    assert after.entries == before[1:]
    assert after.generation > generation


def test_segments_saved_while_their_entries_are_forgotten_are_left_out(log):
    for _ in range(10):
        entries = say_all(log, ANA, [f"line {number}" for number in range(20)])
        rows = [StoredSegment(entry.position, 0, 0, "words", b"") for entry in entries]
        with ThreadPoolExecutor(3) as pool:
            jobs = [
                pool.submit(log.save_segments, ANA.owner, "model", rows),
                pool.submit(log.forget, ANA, [entry.id for entry in entries[:10]]),
                pool.submit(log.save_segments, ANA.owner, "model", list(reversed(rows))),
            ]
            for job in jobs:
                job.result()
        there = {entry.position for entry in log.entries(ANA)}
        assert {row.position for row in log.load_segments(ANA.owner, "model")} == there


def test_each_call_costs_the_documented_round_trips(log, monkeypatch):
    import psycopg

    trips, execute = Counter(), psycopg.ClientCursor.execute

    def count(*args, **options):
        trips.update("x")
        return execute(*args, **options)

    monkeypatch.setattr(psycopg.ClientCursor, "execute", count)

    def cost(call, *args, **kwargs):
        trips.clear()
        call(*args, **kwargs)
        return trips.total()

    entry = say(log, ANA, "before")  # connects, looks at the schema, makes owner and thread
    assert cost(say, log, ANA, "without an id") == 2
    assert cost(say, log, ANA, HumanMessage("with one", id="m1")) == 3
    assert cost(log.entries, ANA, after=1, until=5, last=3) == 1
    assert cost(log.find, ANA, ["m1", entry.id]) == 2
    assert cost(log.changes, ANA.owner) == 3
    assert cost(log.owners) == 1


def test_nothing_of_a_forgotten_user_is_left_in_any_table(server, schema, log):
    key = ThreadKey("forgettable", "forgettable thread")
    entry = say(log, key, HumanMessage("forgettable text", id="forgettable id"))
    log.annotate(key, entry.id, aux={"note": "forgettable"})
    log.set_state(key, "buffer", "forgettable", expected=None)
    log.forget(Owner(user_id="forgettable"))
    tables = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", schema)
    assert len(tables) == 7
    for (table,) in tables:
        rows = server.execute(f"SELECT * FROM {schema}.{table}")
        assert "forgettable" not in str(rows), table


def test_relaxed_writes_wait_for_no_disk_and_others_always_do(server, schema):
    """Where the server would acknowledge early, only relaxed writes do."""
    note_settings = (
        f"CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "NEW.metadata := current_setting('synchronous_commit'); RETURN NEW; END $$; "
        f"CREATE TRIGGER note BEFORE INSERT ON {schema}.entries "
        f"FOR EACH ROW EXECUTE FUNCTION {schema}.note()"
    )
    early = f"{server.dsn} options='-c synchronous_commit=off'"
    with PostgresLog(early, schema=schema) as log:
        log.setup()
        server.execute(note_settings)
        say(log, ANA, "kept")
        log.append(ANA, [make_draft(HumanMessage("relaxed"))], durable=False)
    assert server.execute(f"SELECT metadata FROM {schema}.entries ORDER BY place") == [
        ("on",),
        ("off",),
    ]


def test_users_who_are_first_at_the_same_moment_make_one_schema(server, schema):
    """All have seen that there is no schema, and stand before the lock, when one goes first."""
    import psycopg

    logs = [PostgresLog(server.dsn, schema=schema) for _ in range(4)]
    lock = "SELECT pg_advisory_xact_lock(%s)", (hash_message_id(f"langchain_convmem {schema}"),)
    with psycopg.connect(server.dsn) as holder, ThreadPoolExecutor(4) as pool:
        holder.execute(*lock)
        writers = [pool.submit(say, log, ANA, "first") for log in logs]
        wait_for(lambda: len(server.backends(wait_event="advisory")) == 4)
        holder.commit()
        for writer in writers:
            writer.result()
    assert len(logs[0].entries(ANA)) == 4
    for log in logs:
        log.close()


def check_refused(kind, what, dsn, use=lambda log: log.entries(ANA), **options):
    """Check that a log which is opened so cannot be used, and that no key is told."""
    with PostgresLog(dsn, **options) as log, pytest.raises(kind, match=what) as caught:
        use(log)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_schema_of_another_version_is_refused(server, schema, log, version):
    log.setup()
    server.execute(f"UPDATE {schema}.meta SET version = %s", version)
    check_refused(LogError, f"has version {version}", server.dsn, schema=schema)


def test_a_table_of_another_program_is_left_alone(server, schema):
    server.execute(f"CREATE SCHEMA {schema}")
    server.execute(f"CREATE TABLE {schema}.meta(version text)")
    check_refused(LogError, "another program", server.dsn, schema=schema)
    server.execute(f"CREATE SCHEMA {schema}b")
    server.execute(f"CREATE TABLE {schema}b.entries(a int)")
    check_refused(LogError, "already exists", server.dsn, PostgresLog.setup, schema=f"{schema}b")


def test_a_role_without_the_right_to_create_can_use_a_schema_that_is_there(server, schema, log):
    log.setup()
    for statement in (
        f"CREATE ROLE {schema}_app LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {schema}_app",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}_app",
    ):
        server.execute(statement)
    with PostgresLog(f"{server.dsn} user={schema}_app", schema=schema) as restricted:
        entry = say(restricted, ANA, "Hi")
        restricted.set_state(ANA, "buffer", 1, expected=None)
        assert restricted.entries(ANA) == [entry]
        assert restricted.forget(ANA.owner).entries == 1
    dsn, new = f"{server.dsn} user={schema}_app", f"{schema}_new"
    check_refused(LogError, "permission denied", dsn, lambda log: say(log, ANA, "Hi"), schema=new)


def test_a_database_that_cannot_hold_every_text_is_refused(server, schema):
    server.execute(f"CREATE DATABASE {schema} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    check_refused(LogError, "LATIN1", f"{server.dsn} dbname={schema}", schema=schema)


def test_a_log_is_opened_with_the_key_that_signs_it(server, schema):
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY) as log:
        entry = say(log, ANA, "one")
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY.encode()) as log:
        assert log.entries(ANA) == [entry]
    for key, what in ((None, "is signed with a key"), ("x" * 16, "another key")):
        check_refused(ConfigError, what, server.dsn, schema=schema, signing_key=key)


def test_a_log_that_was_made_without_a_key_gets_none(server, schema, log):
    log.setup()
    what = "is not signed with a key; copy it"
    check_refused(ConfigError, what, server.dsn, schema=schema, signing_key=KEY)
