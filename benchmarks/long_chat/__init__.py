"""A chat of 2,000 turns with tools: is everything said still within the model's reach?

    python -m benchmarks.long_chat [--turns 2000] [--facts 200] [--style quoting retelling] [--json]
    python -m benchmarks.long_chat --compactions 500 [--style ...] [--json]

The chat is seeded: small talk, some of it full of other names and numbers, and tool calls, one or
two at once, in a quarter of the turns. In between, 200 facts are said once each, at random turns,
in varied words: names, codes, dates, amounts, places, tastes, things to do, some of them corrected
later, some of them said by the assistant. The last 200 turns ask for them, in other words than they
were said in, and a quarter are asked for earlier, too. Answers of the model tell nothing.

Systems, in the same run:
    convmem     `memory.wrap(chain, context_tokens=4000)` with a summariser, in the foreground, and
                recall, over a SQLite file
    middleware  `create_agent` with LangChain's `SummarizationMiddleware`, told to trim nothing
    deepagents  the same agent with the middleware of deepagents, which keeps what it summarised
    langmem     langmem's `summarize_messages` before the model; needs the group `bench`
    full        all messages, always
    last 20     the last 20 messages, cut forward to the next message of the user

All that summarise have the same marks, the same room for what summaries tell, and the same
scripted summariser, in two styles. `quoting` is the extractive one (ours is counted as if a model
had been sent the request). `retelling` is a model that says half of the sentences in other words
and alters a digit in one of fifty; each slip is noted. The peers have no log to search: for them a
fact is told where their summary or their latest messages tell it.

Measured of `convmem`, in every turn, with what its model was called with:
    invalid     messages that a provider would refuse, by the rules of the fuzz tests (tests/fuzz)
    too large   more tokens than the budget
    uncovered   entries that neither stand there nor are covered by the live summary chain
    prefix      whether all messages before the new one begin as in the turn before, byte for byte,
                where no compaction came between
and afterwards:
    findable    whether recall, asked with an evicted entry's own text, returns that text within the
                1,000 tokens that a turn recalls; on a sample of what the user and the assistant
                said (tool calls and results are no dialog lines: the summary alone tells them, and
                earlier askings of a question are no answers to it, so questions are not sought)
    tokens      mean of what the model got, by hundreds of turns
    facts       share of the questions for which the answer stands in what the model got
    time        of a whole turn, milliseconds: median, 95th percentile, longest
and of all that summarise:
    per token   tokens that the summariser read and wrote, prompts included, for each of the chat
    mis-said    facts asked for at the end beside which a slip of the summariser stands

Bars, which decide the exit code: nothing invalid, too large, uncovered or not findable; no broken
prefix; tokens of the last hundred turns at most 1.1 times those of the second (in the first the
budget is filled); 95 % of the facts, and more than by either peer; at most 1.2 summariser tokens
for each token of the chat.

With `--compactions` another chat is taken, of short messages and marks of 400 and 150 tokens, until
it was compacted so often. 240 facts of six kinds (prices, codes, names, promises, preferences,
dates) are said once each, evenly spread. At ten checkpoints some of them are asked for through
`memory.wrap(chain, remember=False)`, which leaves no trace, all of them at the last:
    in view       the answer stands there whatever is asked: in the summary or the latest turns
    own words     it stands in the context of a question with the words it was said in
    other words   it stands in the context of a question that shares no word of weight with it:
                  "the code for the bike shed" is "which digits open the hut for our two-wheelers"
With `--sayings unseen` the facts are of four kinds that no rule asks for: where a thing is, why
something ended, what somebody is like, how somebody does something; thirty compactions suffice.
The summarisers choose sentences by kinds of facts and know none of these: of other sentences they
quote those about the speakers, up to half of a summary. Recall has to find the rest.
Bars: nine facts of ten in other words at every checkpoint and at the end, no more than 0.05 less at
the end than at the first, and eight of ten of each kind.
"""
