"""How much of the evidence for a question comes back within a budget, beside simpler systems.

    python -m benchmarks.recall --data DIR [--data DIR ...] [--max-tokens N]
        [--embedder default|minilm] [--json]

DIR holds dialogues, one JSON file each: `{conversation_id, user?, lines: [{id, session, time,
speaker, text}], questions: [{question, evidence, category, groups?}]}`. Evidence is a list of line
ids, or of `{line, part}` where a part of a long line answers. Dialogues of one `user` are searched
together, each a thread; without `user` each dialogue is a user. A question without evidence whose
category is `abstention` is one that nothing answers. `groups` may name the lines that said an old
and a new value, `original_info` and `updated_info`.

Where all speakers are `User` and `Assistant`, lines are stored by role without names, as
applications do; all other lines are stored as a named person's.

Systems, all on the same embedder, the same analysis of words and the same budget:
    convmem              the default settings, threshold -1.0: the plain ranking
    convmem_default      what a wrapped chain's turn gets: the same, abstaining by default
    spec                 plain dialog-line memory: cosine alone, 3 lines on each side, no threshold
    chunks_dense         lines packed into chunks of 1,000 characters, ranked by cosine; only a line
                         longer than that is cut
    chunks_bm25          the same chunks, ranked by BM25 (k1 1.2, b 0.75)
    chunks_hybrid        the same chunks, both scores standardised and added
    lines_bm25           single lines by BM25
    lines_rrf            single lines, both rankings by reciprocal rank fusion (60)

Figures:
    evidence_recall  share of a question's evidence that was returned: a line whole and under its
                     own speaker label, a part verbatim; mean over the questions with evidence
    touched          share of a question's evidence of which 60 characters were returned, begun at
                     any tenth character and white space folded; less than that has to be whole
    all_touched      share of questions all of whose evidence is touched
    new_value_present  of questions with an old and a new value: share with the new one touched
    new_value_first    and share with it touched in an earlier block than any old one
    mean_tokens      characters / 4 of what was returned, headers included
    nothing_on_answerable      share of questions with evidence for which nothing was returned
    something_on_unanswerable  share of questions that nothing answers for which something was
    p50_ms           median time of one retrieval with a warm index
    95 %             interval by bootstrap over the questions: 2,000 seeded draws

`benchmarks/data/long_replies` is a folder for --data, of one user's dialogues with long replies.
"""
