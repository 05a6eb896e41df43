"""How long a recall takes, beside other ways to search the same lines by the same vectors.

    python -m benchmarks.recall_speed [--sizes 1000 10000 100000]
                                      [--json]

One user has said so many lines, in threads of 40 (benchmarks/synthetic_dialogue.py). Every system
embeds the question with the default embedder, which is loaded beforehand, and searches all lines:

    convmem       `LineRecall.recall` with its defaults over a SQLite file: meaning, words,
                  neighbours, speakers, sessions, blocks of 1,000 tokens; it asks for news first
    python        a dialog-line memory in plain Python: cosine of every line, the best three
    in-memory     LangChain's `InMemoryVectorStore`
    chroma        `langchain-chroma`, in memory
    qdrant        `langchain-qdrant` in local mode, in memory
    numpy         the yardstick: `rows @ query` and `argpartition` on one thread, without embedding

All take turns, a few questions a round; one that has used up its seconds sits the others out.

Figures, for each number of lines:
    p50, p95      milliseconds of one recall
    : numpy       the median, over the rounds, of the time divided by that of the yardstick
    add           milliseconds until one more line can be found, its embedding included
    cold          milliseconds of the first recall in a new process, modules and model loaded, terms
                  and vectors stored in the file
    MB            what that process holds more than before, per 100,000 lines

Bars: at most 4 times the yardstick at 10,000 lines, at most twice at 100,000, and ahead of every
other system from 10,000 lines on. Aims: p95 of 3 ms and 10 ms there, cold in 150 ms and 1 s.
"""
