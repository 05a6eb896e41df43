import pytest

from benchmarks.injections.corpus import load_attacks
from benchmarks.injections.surfaces import REFUSED, find_tellers, find_trust, read_ours, read_usual

ATTACKS = load_attacks()


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.id for attack in ATTACKS])
def test_an_attack_changes_no_structure(attack):
    assert read_ours(attack, attack.text) in (REFUSED, read_ours(attack, attack.harmless))


@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.trust], ids=lambda one: one.id)
def test_what_was_imported_is_trusted_as_such(attack):
    assert find_trust(attack) == attack.trust


@pytest.mark.parametrize(
    "attack", [one for one in ATTACKS if one.category == "summaries"], ids=lambda one: one.id
)
def test_no_system_message_tells_what_a_summary_tells(attack):
    tellers = find_tellers(attack)
    assert tellers <= {"human"}
    # A summary by hand and a provider's own are shown whole; a summariser may leave it out.
    assert tellers or attack.place in ("said", "tool")


def test_an_attack_is_one_where_nothing_is_done_about_it():
    def succeeds(attack):
        return read_usual(attack, attack.text) != read_usual(attack, attack.harmless)

    assert sum(map(succeeds, ATTACKS)) > 0.9 * len(ATTACKS)
