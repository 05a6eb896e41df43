"""Every number that shapes a recall, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from langchain_convmem.errors import ConfigError

__all__ = ["IndexName", "RecallSettings"]

IndexName: TypeAlias = Literal["auto", "faiss", "numpy"]
"""What searches the vectors of lines in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """Weights and limits of a recall. Scores are in standard deviations, so weights compare.

    A segment's own score is `dense_weight` x z(cosine) + `lexical_weight` x z(BM25); with a share
    of its neighbours' scores, and of a bonus for the speaker or the time that the question names,
    it is the *evidence* for the segment. Bonuses for the person whom the question is about, and
    for sessions that answer well in several places, then decide the order.

    Attributes:
        dense_weight: Weight of the standardised cosine similarity; 0 embeds no question.
        crowding: Share taken from a segment's cosine of its mean cosine with the lines that are
            nearest to it: what is near to many lines says less by being near to the question.
        doubt_embedder: Whether meaning counts less where one of the package's own embedders hardly
            tells lines like the question apart, as in languages that it does not know.
        lexical_weight: Weight of the standardised BM25 score; 0 leaves words out.
        k1: Saturation of repeated words in BM25.
        b: Share of the length normalisation in BM25, 0 to 1.
        least_deviation: The smallest standard deviation that BM25 scores are divided by, as a share
            of the score of a word that a single line holds: such a word is worth no more, however
            few lines hold any word at all.
        stop_words: Whether a question's function words are searched for too.
        kernel: Weights of a segment's neighbours in its session, itself in the middle.
        speaks_for_itself: From about so many words on, a line takes less of what lines around it
            score; long replies take nothing.
        within_line: Share that a segment takes of the other segments of its own line.
        names_in_meaning: Whether speakers' names stay in the text that is embedded as the
            question; lines are embedded without their speaker.
        speaker_bonus: Added to lines of a speaker whom the question names. The smoothed score
            has a standard deviation of about 2.3.
        person_bonus: Added to what the user said where the question is about the user ("my", "I"),
            and to what the assistant said where it is about that ("did you recommend"). In full
            from an evidence of 2 on, none at 0. Where one side alone speaks it changes nothing.
        statement_bonus: Added to the user's statements about themselves where the question is
            about the user; in the same proportion.
        meaning_first: Whether, where no line answers a question about the user clearly, meaning
            counts more than words, and short lines more than long ones.
        latest_first: Whether of several statements about the same thing the latest leads. Older
            ones are marked as older.
        skip_repeats: Whether earlier askings of the question and replies that knew nothing are
            left out of answers within a budget, and come last elsewhere.
        date_bonus: Added to lines said at a time that the question names; 0 reads no dates.
        session_prior: Weight of the mean of a session's best scores in each of its lines.
        session_best: How many best scores of a session that mean takes.
        k: Blocks to return where the call names neither `k` nor `max_tokens`.
        max_tokens: Budget where the call names neither and `k` is None.
        threshold: Cosine similarity that a hit must surpass; None and -1 let every line be one;
            "auto" too, but finds nothing where the question is not related to anything.
        budget_threshold: The same in answers within a budget, where `threshold` is None.
        window: Lines on each side of a hit in answers of k blocks; or a pair, how many before it
            and how many behind.
        budget_window: The same in answers within a budget.
        refill: Whether k counts blocks: hits further down take the room of those whose windows
            merged. False: k counts hits, and blocks may be fewer.
        age_in_header: Whether a block's header also tells how long ago it was said.
        passages: Whether answers that may abstain show only what the user's loosely related lines
            state, without questions and requests.
        cross_sessions: Whether windows may cross the borders of sessions (never of threads).
        buffer_size: How many recalled blocks a thread keeps in sight of the model, also where later
            questions find nothing; the oldest leave first. 0: none but those just found.
        index: What searches the vectors: "faiss" from the first one on; "numpy", without FAISS; or
            "auto", which is NumPy for up to about 5,000 vectors and FAISS for more. All of them
            compare every vector and give the same answers.
        vector_bits: What a component of a vector takes in memory where FAISS searches: 16, as it is
            stored, or 8, with cosines that are a little off. NumPy takes 32 bits, so with 8 "auto"
            is FAISS from the first vector on.
    """

    dense_weight: float = 1.0
    crowding: float = 0.5
    doubt_embedder: bool = True
    lexical_weight: float = 1.0
    k1: float = 1.2
    b: float = 0.3
    least_deviation: float = 0.36
    stop_words: bool = False
    kernel: tuple[float, ...] = (0.25, 0.5, 1.0, 0.5, 0.25)
    speaks_for_itself: float = 60.0
    within_line: float = 0.25
    names_in_meaning: bool = False
    speaker_bonus: float = 2.25
    person_bonus: float = 7.0
    statement_bonus: float = 2.0
    meaning_first: bool = True
    latest_first: bool = True
    skip_repeats: bool = True
    date_bonus: float = 4.5
    session_prior: float = 0.25
    session_best: int = 3
    k: int | None = None
    max_tokens: int | None = 1000
    threshold: float | Literal["auto"] | None = None
    budget_threshold: float | Literal["auto"] | None = "auto"
    window: int | tuple[int, int] = 2
    budget_window: int | tuple[int, int] = 0
    refill: bool = True
    age_in_header: bool = True
    passages: bool = True
    cross_sessions: bool = False
    buffer_size: int = 0
    index: IndexName = "auto"
    vector_bits: Literal[8, 16] = 16

    def __post_init__(self) -> None:
        """Refuse numbers that no recall can follow."""
        if len(self.kernel) % 2 == 0:
            msg = f"kernel needs an odd number of weights, got {self.kernel!r}"
            raise ConfigError(msg)
        counts = {
            "session_best": self.session_best,
            "buffer_size": self.buffer_size + 1,
        }
        for name, least in counts.items():
            if least < 1:
                msg = f"{name} is too small: {getattr(self, name)!r}"
                raise ConfigError(msg)
        if self.index not in get_args(IndexName):
            msg = f'index must be "auto", "faiss" or "numpy", got {self.index!r}'
            raise ConfigError(msg)
        if self.vector_bits not in {8, 16}:
            msg = f"vector_bits must be 8 or 16, got {self.vector_bits!r}"
            raise ConfigError(msg)
        for name in ("window", "budget_window"):
            _check_window(name, getattr(self, name))

    @classmethod
    def spec(cls) -> RecallSettings:
        """Return plain dialog-line memory: cosine alone, three hits above 0.8, 3 lines around each.

        FAISS searches the lines. What was found stays in sight for a while, in a relevance buffer
        of 10 blocks.
        """
        return cls(
            crowding=0.0,
            doubt_embedder=False,
            lexical_weight=0.0,
            kernel=(1.0,),
            names_in_meaning=True,
            speaker_bonus=0.0,
            person_bonus=0.0,
            statement_bonus=0.0,
            meaning_first=False,
            latest_first=False,
            skip_repeats=False,
            passages=False,
            date_bonus=0.0,
            session_prior=0.0,
            k=3,
            max_tokens=None,
            threshold=0.8,
            window=3,
            budget_window=3,
            refill=False,
            cross_sessions=True,
            buffer_size=10,
            index="faiss",
        )


def _check_window(name: str, value: object) -> None:
    sides = value if isinstance(value, tuple) and len(value) == 2 else (value,)  # noqa: PLR2004
    if not all(isinstance(side, int) and side >= 0 for side in sides):
        msg = f"{name} must be a number of lines or a pair (before, behind), got {value!r}"
        raise ConfigError(msg)
