"""Ways a memory loses a message, tried on ours and on what people use instead.

    python -m benchmarks.loss [--only NAME ...] [--system NAME ...] [--json]

Every scenario is written once and run against every system in a folder of its own, offline, with
scripted models. There are two sets of them, each with systems of its own.

Chats (scenarios.py): failures, readers who
leave, turns at once, edits, tools that the application runs, objects instead of texts, pages
that send the whole chat. Afterwards the files are opened anew, the user says one thing more, and
what the model is then called with is judged:

    lost       something the user said, or was shown, that is no longer there
    doubled    something that is there more often than it was said, or though it was taken back
    misplaced  an answer that stands behind another question
    refused    an order that providers refuse, such as a tool call without its result
    swallowed  a write failed, and the call returned as if it had not

Systems, each the way its own documentation tells to write it:
    convmem          `memory.wrap(model)` over a SQLite file; tools run in a loop inside the chain
    convmem-talk     `memory.conversation(model, on_cancel="keep")` over the same; a turn that
                     raises is taken back, question included, so nothing of it may be there
    convmem-graph    `create_memory_graph` over `MessagesState`, or its nodes around ToolNode, and
                     LangGraph's SQLite checkpointer
    convmem-agent    `create_agent` with our middleware and the same checkpointer
    message-history  `RunnableWithMessageHistory` around a prompt and a model, over a SQL history
                     (benchmarks/sql_history.py; langchain-community's own is no dependency)
    checkpointer     a LangGraph graph over `MessagesState`, with ToolNode and the SQLite
                     checkpointer, called with `durability="sync"`, its safest setting
    langmem          the same graph with langmem's `SummarizationNode` before the model; nothing in
                     the chats is long enough to be summarised

Summaries (summaries.py): conversations that grow too long. Everything said
bears a mark, and the scripted summariser notes all that it reads; so what is neither in the last
call of the model nor in the summary there, no summariser ever saw, or it was dropped behind one.
Judged is the last call of the model:

    lost        what was said and is gone; a system message that is no longer one
    question    the question that waits for an answer is not there in the user's own words
    orphaned    a tool's result without its call, or a call without its result
    invented    a message that nobody said and no summariser wrote, such as a placeholder
    doubled     what stands there twice, or a second summary
    commanded   an order that somebody else gave stands in a message of the user, and not in a
                fenced summary that is labelled as data
    unanswered  a turn failed because its summary did
    evicted     no fault: messages that gave way to summaries; read: of these, seen by a summariser

Systems, all with the same marks and the same summariser:
    convmem          `memory.wrap(model)` with a summarizer, over a SQLite file
    convmem-step     `SummarizingMemory() | model`; it stores nothing
    middleware       `create_agent` with LangChain's `SummarizationMiddleware`, as it comes but for
                     the trigger, and LangGraph's SQLite checkpointer
    middleware-best  the same, told to keep tokens and to trim nothing before the summary
    langmem          langmem's `SummarizationNode` before the model, with one budget, as in its
                     example, and the SQLite checkpointer
    langmem-best     the same, with a window in which each conversation here fits at once

A dash means that the system has no such thing to try: a conversation is sent what is new, and an
agent runs its tools itself. In the chats, messages of the user have ids unless the scenario says
otherwise: an id is what tells a checkpointer a retry from a new message. Pages that send the whole
chat call our graph and agent without a checkpointer, as our pages say; the others keep theirs.
Objects: a graph of LangGraph's puts them under a key of their own, as `create_agent` does.

The bar is that all of ours, the `convmem` ones, are clean throughout; they decide the exit code.
All this needs the extra `agents` and the group `bench`.
"""
