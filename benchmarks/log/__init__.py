"""What a turn costs in the log, beside other logs and beside SQLite itself.

    python -m benchmarks.log [--sizes N N N] [--json]

Everything happens in one run, in small rounds that alternate between the systems and the lengths of
the thread, because machines are noisy; times are medians, and a quotient is the median of the
rounds' own quotients. The checkpointer appends after the others, since its writes keep the disk
busy, which would hide what the others cost. Files lie in a temporary folder that is removed.

Systems:
    floor          plain INSERTs of the very bytes that `SQLiteLog` stores (id, turn, role, key,
                   body, metadata) with its pragmas (page_size, WAL, synchronous=FULL,
                   secure_delete) and its number of commits, into one table with the fewest indexes
                   that any log needs: a primary key and the thread. It encodes, checks and looks
                   up nothing.
    convmem        `SQLiteLog`: messages to drafts to rows, as `memory.wrap` writes them
    openai-agents  `SQLiteSession` of the OpenAI Agents SDK
    langgraph      `SqliteSaver` of LangGraph: a checkpoint of a `messages` channel per message, put
                   directly (a graph puts more), so that all have the same number of commits.
                   Long threads are one checkpoint with the whole state, since each put stores the
                   whole again: 100,000 messages grown turn by turn would fill a disk.

All four keep SQLite's default of `synchronous=FULL` in WAL mode: an acknowledged write survives a
power loss.

Figures:
    append   one turn: the user's message is committed, then the reply (with ids and token usage)
    load     what the next turn begins with, right after a turn was written; `cold` opens the file
             anew each time (the operating system's cache stays warm)
               2,000 tokens   a thread without a summary, cut to a budget
               last 40, all   what the floor and the peers offer
    bytes    the file after its write-ahead log was folded in, per entry; `payload` is what was
             handed over as compact UTF-8 JSON: type, content and whatever else of the message
             differs from its default, and the reply's timing. It is the least that gives them back;
             the peers do not store the timing
"""
