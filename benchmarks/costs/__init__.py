"""What a memory costs beside what people use instead: a turn, a new process, the disk.

    python -m benchmarks.costs [--turns 10 200 2000] [--lines 10000] [--measured 40] [--json]

A user who has said 10,000 lines in earlier threads talks on in one that is as long as `--turns`
says. The model answers at once, so what is measured is the rest of the turn. Files are SQLite's
with `synchronous=FULL`, in a temporary folder that is removed; every system has its own for each
length. Turns are taken one of each system and length in turn, so that a machine that becomes busier
slows all alike. Of the turns before, all but ten are filled in directly.

Systems:
    bare                     the model alone, called with the user's message
    wrap, whole thread       `memory.wrap(model, recall=False)`: like the peers, it sends all of it
    wrap, 2,000 tokens       `memory.wrap(model, recall=False, history_tokens=2000)`
    wrap, recall             `memory.wrap(model, history_tokens=2000)`: 1,000 tokens of all that the
                             user ever said, its embedding by the default embedder included
    history in memory, SQL   `RunnableWithMessageHistory` over `InMemoryChatMessageHistory`, which
                             is gone with the process, and over benchmarks/sql_history.py
    LangGraph                a graph of one node that calls the model, with `SqliteSaver`
    SQLiteSession            of openai-agents, without an agent: `get_items` and two `add_items`, of
                             the question and of the answer; all items, and the last 40

Figures:
    added p50, p95           time of a turn less the median of `bare`, milliseconds; of the sessions
                             the whole time, since no model is called
    last : first             the median at the longest length : that at the shortest
    new process              from the start of a Python to the end of its first turn in a thread of
                             200 turns (`--kept`), imports included: median of three
    KiB                      the files of that thread, all of its turns taken one by one
    agent                    KiB of an agent's chat of as many turns (benchmarks/costs/agent.py)

Bar: `wrap, recall` is flat (last : first at most 1.3); aim: its p95 is at most 12 ms at the longest
length. A machine that is busy with something else fails the aim, not the ratio.
"""
