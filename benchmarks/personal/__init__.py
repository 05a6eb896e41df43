"""Whether an assistant's memory finds what its user told it, among months of other messages.

    python -m benchmarks.personal [--embedder default|minilm] [--json]

The data are `benchmarks/data/personal`: what five people told an assistant over five months, and
what they ask later; its README describes them. The memory of a person holds all own exchanges at
their times, filled up to 125 user messages with other people's, those of `ordinary.json`.

Messages are stored as an application does: `memory.add_messages` for each thread, a HumanMessage
and an AIMessage without names, with their times. Each question is asked a day after the last line,
in a new thread.

Ways to ask:
    default         what a turn of a wrapped chain gets: a budget of 1,000 tokens, no other option
    default, 300    the same with a budget of 300 tokens
    plain           1,000 tokens with threshold -1.0, the ranking without abstaining
    bm25_lines      single lines by BM25, 1,000 tokens: a yardstick

Figures, of all people together:
    word, other      share of facts found by a question that shares a word with the fact, and by
                     one that shares none with the whole message; found is a fact whose own words
                     stand in the returned text, white space folded
    replies          the same of what stands in the assistant's replies alone
    new_present      of updates: share with the new value returned
    new_first        and share with it in an earlier block than the old one, or without that
    several, complete  of questions that need several facts: the mean share found, and the share
                     with all
    tokens           characters / 4 returned for all these questions, headers included
    off_topic, courtesies, near_topic  the same for requests that no memory helps with, for thanks
                     and greetings, and for questions about something that was mentioned, but not
                     that
    verdicts         how often a recall of the default way said what of itself, by kind of question
    95 %             intervals by bootstrap over the questions: 2,000 seeded draws

A table beside these, languages: one memory for each file in `languages`, its exchanges and 60 of
`ordinary.json`.
"""
