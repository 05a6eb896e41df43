"""How much of the evidence for a question comes back, beside what people would use instead.

    python -m benchmarks.recall --data DIR [--data DIR ...] [--max-tokens N]
        [--embedder default|minilm] [--json]

DIR holds dialogues, one JSON file each: `{conversation_id, user?, lines: [{id, session, time,
speaker, text}], questions: [{question, evidence, category, groups?}]}`. Evidence is a list of line
ids, or of `{line, part}` where a part of a long line answers. Dialogues of one `user` are searched
together, each a thread; without `user` each dialogue is a user. A question without evidence whose
category is `abstention` is one that nothing answers. `groups` may name the lines that said an old
and a new value, `original_info` and `updated_info`. Or DIR is the precision set: `beliefs.json`
and `cases.json` of precisionMemBench, each belief of its one user a message in its own thread.

Where all speakers are `User` and `Assistant`, our lines are stored by role without names, as
applications do; all other lines are stored as a named person's. The others store
`SPEAKER: TEXT`. One that is not installed is left out, and named with the line that installs it.

Systems, all on the same embedder, without a model, a key or the network:
    convmem_default  what a wrapped chain's turn gets: the default settings, abstaining
    convmem          the same with threshold -1.0: the plain ranking
    ensemble_lines   LangChain's EnsembleRetriever of BM25Retriever and FAISS, halves, over lines
    ensemble_chunks  the same over chunks of 1,000 characters by RecursiveCharacterTextSplitter
    faiss_lines      LangChain's FAISS as a retriever, over lines
    faiss_chunks     the same over chunks
    chroma           langchain-chroma, cosine, in memory
    store            LangGraph's InMemoryStore with an index
    langmem          langmem's tools that store and search, on that store; of what its search tool
                     prints, the memories alone are counted
    mem0             mem0 with `infer=False`, threshold 0 and Qdrant in a folder; its search by
                     words and entities needs models that have to be fetched, and is off

Each of the others is asked for 50 results. All answers are cut at the budget, by characters / 4.

Figures:
    evidence_recall  share of a question's evidence that was returned: a line whole and under its
                     own speaker label, a part verbatim; mean over the questions with evidence
    touched          share of a question's evidence of which 60 characters were returned, begun at
                     any tenth character and white space folded; less than that has to be whole
    all_touched      share of questions all of whose evidence is touched
    new_value_present  of questions with an old and a new value: share with the new one touched
    surplus          share of all that was returned, for all questions together and headers
                     included, that stands in lines without a piece of evidence
    mean_tokens      characters / 4 of what was returned
    nothing_on_answerable      share of questions with evidence for which nothing was returned
    something_on_unanswerable  share of questions that nothing answers for which something was
    95 %             interval by bootstrap over the dialogues (of the precision set, the cases):
                     2,000 seeded draws
    write_ms         milliseconds a line, stored one after another, each so that it can be found;
                     what cannot take a line more (ensembles, chunks) is built once of all lines
    query_ms         median time of a question
    mb               the most memory of the process, with Python, the embedder and all modules

Shares are measured with each text embedded once for all systems. Times and memory are the least of
three new processes for each system, which take turns, the embedder within the time and nothing
kept between, on the first dialogue of the first DIR.

`benchmarks/data/long_replies` is a folder for --data, of one user's dialogues with long replies.
"""
