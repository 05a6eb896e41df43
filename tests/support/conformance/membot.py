"""Cases of recall: hand-made vectors, and what comes back for a thread's newest line."""

from dataclasses import replace

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage

from conformance.cases import INFORMATION, alternatives, check_any, check_equal, check_keys
from langchain_convmem import ConversationMemory, RecallSettings
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.turns.memory import get_turn_memory

CONFIG = {"top_k", "threshold", "before", "after", "buffer_size", "exclude_recent"}
SPEAKERS = {"user": "HUMAN", "assistant": "AI"}


def run_recall_case(case):
    known = {"config", "embeddings", "other_vector", "ops", "expect", "accept"}
    check_keys("case", set(case.fields) - known, INFORMATION)
    check_keys("config", case.fields["config"], CONFIG)
    bot = Membot(case.fields)
    with bot.memory:
        for op in case.fields["ops"]:
            bot.do(op)

    def compare(expect):
        for key, expected in expect.items():
            CHECKS[key](bot, expected)

    check_any(alternatives(case, CHECKS), compare)


class CaseEmbeddings(Embeddings):
    """Vectors by text, as the case gives them; notes what was asked for."""

    def __init__(self, vectors, other):
        self._vectors = vectors
        self._other = other
        self.asked = []

    def embed_documents(self, texts):
        self.asked += texts
        return [[float(x) for x in self._vectors.get(text, self._other)] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class Membot:
    """A memory whose only recall is dialog lines by meaning, as the settings of the case say."""

    def __init__(self, fields):
        config = fields["config"]
        self.recent = config["exclude_recent"]
        self.embeddings = CaseEmbeddings(fields["embeddings"], fields["other_vector"])
        settings = replace(
            RecallSettings.spec(),
            k=config["top_k"],
            threshold=config["threshold"],
            window=(config["before"], config["after"]),
            buffer_size=config["buffer_size"],
        )
        self.memory = ConversationMemory.open(
            ":memory:", embeddings=self.embeddings, settings=settings
        )
        self.results = []
        self.numbers = {}

    def do(self, op):
        name, *arguments = op
        check_keys("operations", [name], {"add", "recall"})
        self.results.append((self.add if name == "add" else self.recall)(*arguments))

    def add(self, user, thread, speaker, text):
        message = {"human": HumanMessage, "ai": AIMessage}[speaker](text)
        [entry] = self.memory.add_messages([message], thread_id=thread, user_id=user)
        same = [at for at in self.numbers.values() if at[0] == f"{user}/{thread}"]
        self.numbers[entry.id] = f"{user}/{thread}", len(same) + 1

    def recall(self, user, thread):
        key = ThreadKey(user, thread)
        spoken = self.memory.history(thread, user_id=user).entries
        recent = [entry.position for entry in spoken[max(len(spoken) - self.recent, 0) :]]
        query = spoken[-1].contents[0]
        return get_turn_memory(self.memory).line_recall.recall(
            Owner(user_id=user), query, exclude={key: recent}, buffer=key
        )

    def number_of(self, entry_id):
        owner, number = self.numbers[entry_id]
        return [owner.partition("/")[2], number]

    def shown(self, blocks):
        return [[f"{SPEAKERS[line.role]}: {line.text}" for line in block.lines] for block in blocks]


def _results(bot, expected):
    for number, result in expected.items():
        recall = bot.results[int(number)]
        assert recall is not None, f"operation {number} is no recall"
        check_keys(f"result {number}", result, RESULTS)
        for key, wanted in result.items():
            RESULTS[key](bot, recall, wanted)


def _matches(bot, recall):
    """Return the hits behind the blocks, best first."""
    hits = [match for block in recall.blocks for match in block.matches]
    hits.sort(key=lambda match: -match.relevance)
    return [bot.number_of(match.line.entry_id) for match in hits]


def _no_line_repeated(bot, recall, wanted):
    ids = [line.line_id for block in recall.blocks for line in block.lines]
    assert not wanted or len(ids) == len(set(ids)), f"lines are repeated: {ids}"


def _lines_covered(bot, recall, wanted):
    covered = [bot.number_of(line.entry_id) for block in recall.blocks for line in block.lines]
    shown = [line for block in bot.shown(recall.blocks) for line in block]
    missing = [line for line in wanted if line not in covered and line not in shown]
    check_equal("lines not covered", missing, [])


def _block_text(bot, recall, wanted):
    text = "\n".join("\n".join(block) for block in bot.shown(recall.blocks))
    check_equal("not in a block", [line for line in wanted if line not in text], [])
    bodies = [line.partition(": ")[2] for line in wanted]
    # Further lines of a text are indented, by which nothing but white space changes.
    rendered = " ".join(" ".join(block.text for block in recall.blocks).split())
    bodies = [" ".join(body.split()) for body in bodies]
    check_equal("not in a block's text", [body for body in bodies if body not in rendered], [])


RESULTS = {
    "matches": lambda bot, recall, wanted: check_equal("matches", _matches(bot, recall), wanted),
    "match_count": lambda bot, recall, wanted: check_equal(
        "match_count", len(_matches(bot, recall)), wanted
    ),
    "match_set": lambda bot, recall, wanted: check_equal(
        "match_set", sorted(_matches(bot, recall)), sorted(wanted)
    ),
    "blocks": lambda bot, recall, wanted: check_equal("blocks", bot.shown(recall.blocks), wanted),
    "buffer": lambda bot, recall, wanted: check_equal("buffer", bot.shown(recall.buffer), wanted),
    "no_line_repeated": _no_line_repeated,
    "lines_covered_include": _lines_covered,
    "block_text_contains": _block_text,
}


CHECKS = {
    "results": _results,
    "embed_texts_include": lambda bot, expected: check_equal(
        "texts that were not embedded", set(expected) - set(bot.embeddings.asked), set()
    ),
    "embed_texts_exclude": lambda bot, expected: check_equal(
        "texts that were embedded", set(expected) & set(bot.embeddings.asked), set()
    ),
}
