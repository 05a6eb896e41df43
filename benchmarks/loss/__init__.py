"""Ways a memory loses a message, tried on ours and on what people use instead.

    python -m benchmarks.loss [--only NAME ...] [--system NAME ...] [--json]

Every scenario is written once (scenarios.py, tool_scenarios.py and processes.py in this package)
and run against every system in a folder of its own, offline, with scripted models. Afterwards the
files are opened anew, the user says one thing more, and what the model is then called with is
judged:

    lost       something the user said, or was shown, that is no longer there
    doubled    something that is there more often than it was said, or though it was taken back
    misplaced  an answer that stands behind another question
    refused    an order that providers refuse, such as a tool call without its result
    swallowed  a write failed, and the call returned as if it had not

Systems, each the way its own documentation tells to write it:
    convmem          `memory.wrap(model)` over a SQLite file; tools run in a loop inside the chain
    convmem-agent    `create_agent` with our middleware and LangGraph's SQLite checkpointer
    message-history  `RunnableWithMessageHistory` around a prompt and a model, over a SQL history
                     (benchmarks/sql_history.py; langchain-community's own is no dependency)
    checkpointer     a LangGraph graph over `MessagesState`, with ToolNode and the SQLite
                     checkpointer, called with `durability="sync"`, its safest setting

A dash means that the system has no such thing to try. Every message of the user has an id, which is
what lets a checkpointer tell a retry from a new message; it would double without. The bar is that
`convmem` is clean throughout; it alone decides the exit code. All this needs the extra `agents` and
the group `bench`.
"""
