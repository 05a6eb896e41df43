import pytest
from starlette.datastructures import Headers

from langchain_convmem.errors import ConfigError
from langchain_convmem.web.access import Access, is_loopback, is_own_page, read_user_tokens

TOKEN = "a token of this test"
OTHER = "another token of it"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what this test refuses


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.9.1"])
def test_on_loopback_no_token_is_needed(host):
    assert is_loopback(host)
    assert not Access(host=host).has_tokens


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.7", "chat.example.org"])
def test_nothing_else_is_opened_without_a_token(host):
    with pytest.raises(ConfigError, match="add --token or --tokens"):
        Access(host=host)
    assert Access(host=host, token=TOKEN).has_tokens


def test_a_token_that_can_be_tried_out_is_refused_without_being_shown():
    with pytest.raises(ConfigError, match="at least 16 characters; one has 5") as caught:
        Access(token="short")
    assert "short" not in str(caught.value)


def test_a_file_of_tokens_excludes_other_ways_in():
    with pytest.raises(ConfigError, match="do not combine it"):
        Access(user_tokens={"ana": TOKEN}, user_id="ben")


def test_a_cookie_stands_for_the_token_and_does_not_hold_it():
    access = Access(token=TOKEN)
    session = access.find_session(TOKEN)
    assert session is not None
    assert TOKEN not in session
    assert access.check_session(session)
    assert not access.check_session(session[:-1] + "x")
    assert not Access(token=OTHER).check_session(session)  # a new token makes old cookies void
    assert access.find_session(TOKEN + "x") is None
    assert access.find_session("") is None
    assert not access.check_session("")


def test_each_users_token_leads_to_that_user_alone():
    access = Access(user_tokens={"ana": TOKEN, "ben": OTHER})
    sessions = [access.find_session(token) or "" for token in (TOKEN, OTHER)]
    assert [access.get_session_user(session) for session in sessions] == ["ana", "ben"]


def test_one_token_lets_choose_unless_the_user_is_given():
    for user in (None, "ana"):
        access = Access(token=TOKEN, user_id=user)
        assert access.get_session_user(access.find_session(TOKEN) or "") == user


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("127.0.0.1:8501", True),
        ("localhost:8501", True),
        ("[::1]:8501", True),
        ("192.168.1.7:8501", True),  # nobody can bind a name to figures
        ("evil.example:8501", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[", False),
    ],
)
def test_the_server_goes_by_its_own_names_alone(host, is_allowed):
    assert Access().check_host(host) is is_allowed


def test_further_names_are_allowed_by_name():
    access = Access(host=EVERYWHERE, token=TOKEN, names=["Chat.Example.org"])
    assert access.check_host("chat.example.org")
    assert not access.check_host("other.example.org")


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({"origin": "http://127.0.0.1:8501"}, True),
        ({"origin": "https://127.0.0.1:8501"}, True),  # behind a proxy that ends TLS
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8501"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({}, False),
        ({"authorization": "Bearer x"}, True),  # no browser sends it by itself
    ],
)
def test_what_changes_something_comes_from_a_page_of_the_server(headers, is_own):
    assert is_own_page(Headers({"host": "127.0.0.1:8501", **headers})) is is_own


def test_a_file_of_tokens_names_users_with_blanks_too(tmp_path):
    path = tmp_path / "tokens.txt"
    tokens = {"ana": TOKEN.replace(" ", "-"), "ben the second": "token-of-his-own-1"}
    rows = [f"{user} {token}" for user, token in tokens.items()]
    path.write_text("\n".join(["# who may come in", "", *rows, ""]))
    assert read_user_tokens(str(path)) == tokens


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lonely\n", "line 1: expected a user, a space and a token"),
        ("ana one-token-of-hers\nana two-tokens-of-hers\n", "line 2: this user or token"),
        ("ana one-token-of-hers\nben one-token-of-hers\n", "line 2: this user or token"),
        ("# nobody\n", "names no user"),
    ],
)
def test_a_bad_file_of_tokens_is_refused_by_line_and_never_quoted(tmp_path, text, message):
    path = tmp_path / "tokens.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_user_tokens(str(path))
    assert "one-token" not in str(caught.value)


def test_a_file_of_tokens_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.txt cannot be read: No such file"):
        read_user_tokens(str(tmp_path / "gone.txt"))
