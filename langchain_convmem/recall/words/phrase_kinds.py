"""The phrases that tell questions, requests and statements apart, by language. The fields. Pure.

Every field is a list of regular expressions, one or several alternatives a line, for lowercase text
with plain apostrophes. Where a field says "head", they match at the beginning of a clause.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Phrases"]


class Phrases(NamedTuple):
    """What the clauses of one language begin with or hold."""

    first_person: str
    """Anywhere: the person who speaks is meant."""
    own_clause: str
    """Head: a clause that states something about the person who speaks."""
    finite: str
    """Anywhere: a verb that makes a clause of a few words."""
    question: str
    """Head: a question."""
    request: str
    """Head: an imperative, or a question that asks to do something."""
    condition: str
    """Head: a subordinate clause that states nothing by itself."""
    standing: str
    """Head: an instruction for the future, which counts as a statement."""
    opening: str
    """Head: a word before the clause proper begins."""
    ignorant: str
    """Head: a reply that knows nothing or refuses."""
    offer: str
    """Anywhere: a sentence that a reply which knows nothing may add."""
    listener: str
    """Anywhere in a question: what the one who is asked said earlier."""
    advice: str
    """Anywhere in a question: how to do something, or what one should do."""
    unmeant: str = r"(?!)"
    """Anywhere in a question: a first person that belongs to the form of the request alone."""
    favour: str = r"(?!)"
    """Anywhere in a question: a request that concerns the asker's own life."""
    follow_up: str = r"(?!)"
    """The whole of a message that cannot be understood alone."""
    run_on: str = r"(?!)"
    """Anywhere in a long clause without punctuation: a statement after a question or request."""
    drops_subject: bool = False
    """Whether a sentence usually leaves out who does something."""
