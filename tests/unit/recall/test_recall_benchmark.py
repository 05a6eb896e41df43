from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage

from benchmarks.recall.data import load_dialogues, message_of
from benchmarks.recall.embedders import CachingEmbeddings
from benchmarks.recall.measuring import (
    figures,
    is_touched,
    measure,
    measure_unanswerable,
)
from benchmarks.recall.report import table
from benchmarks.recall.running import main
from benchmarks.recall.systems import Found, Recaller, chunks, recall_of
from langchain_convmem.recall import EmbeddedEmbeddings

ROOT = Path(__file__).parents[3]
DATA = ROOT / "benchmarks" / "data" / "long_replies"
DIALOGUE = {
    "conversation_id": "tiny",
    "lines": [
        {
            "id": f"L{number}",
            "session": number // 4,
            "time": "1:56 pm on 8 May, 2023",
            "speaker": "Ana" if number % 2 else "Bo",
            "text": text,
        }
        for number, text in enumerate(
            ["Yes", "Yes, of course", "I parked on floor three", "The dog is at the vet"]
            + [f"Small talk number {n}, about nothing in particular" for n in range(40)]
        )
    ],
    "questions": [
        {"question": "Where did Bo park?", "evidence": ["L2"], "category": 4},
        {"question": "Where are dog and car?", "evidence": ["L2", "L3"], "category": 1},
        {"question": "What was never said?", "evidence": [], "category": 5},
    ],
}
LONG = "The boiler in the cellar was replaced on Tuesday by a firm from the next village over."
BY_ROLE = {
    "conversation_id": "roles",
    "lines": [
        {
            "id": f"R{number}",
            "session": number // 2,
            "time": f"2025-03-0{number + 1}T09:00:00Z",
            "speaker": "Assistant" if number % 2 else "User",
            "text": text,
        }
        for number, text in enumerate(
            ["I drive a red van", "Nice van.", "Now I drive a blue bus", "Mind the height.", LONG]
        )
    ],
    "questions": [
        {
            "question": "What do I drive?",
            "evidence": ["R2"],
            "category": "knowledge_update",
            "groups": {"original_info": ["R0"], "updated_info": ["R2"]},
        },
        {"question": "Advice for my bus?", "evidence": ["R2", "R3"], "category": "several"},
        {"question": "How old is my sister?", "evidence": [], "category": "abstention"},
        {"question": "Not labelled?", "evidence": [], "category": "several"},
    ],
}


class Scripted:
    """A system that returns the same blocks for every question."""

    def __init__(self, *texts):
        self._texts = list(texts)

    def find(self, question, max_tokens):
        return Found(self._texts, [])


def roles(tmp_path):
    (tmp_path / "roles.json").write_text(json.dumps(BY_ROLE))
    [dialogue] = load_dialogues(tmp_path)
    return dialogue


def run(folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.recall", "--data", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_report_is_one_json_object_with_every_system(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps(DIALOGUE))
    done = run(tmp_path, "--json", "--max-tokens", "60", "--embedder", "static")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["dataset"], report["questions"]) == (tmp_path.name, 2)
    assert list(report["systems"]) == [
        "convmem",
        "convmem_default",
        "spec",
        "chunks_dense",
        "chunks_bm25",
        "chunks_hybrid",
        "lines_bm25",
        "lines_rrf",
    ]
    for row in report["systems"].values():
        assert list(row) == [
            "evidence_recall",
            "full_evidence",
            "recall_at_20",
            "touched",
            "all_touched",
            "mean_tokens",
            "nothing_on_answerable",
            "something_on_unanswerable",
            "tokens_on_unanswerable",
            "new_value_present",
            "new_value_first",
            "p50_ms",
            "p95_ms",
            "by_category",
            "touched_by_category",
            "touched_by_role",
            "interval_95",
        ]
        assert 0 < row["mean_tokens"] <= 60
    ours = report["systems"]["convmem"]
    assert ours["evidence_recall"] == ours["full_evidence"] == 1.0
    assert ours["by_category"] == {"1": 1.0, "4": 1.0}


def test_the_studies_stand_in_the_same_report(tmp_path, capsys):
    for name in ("tiny", "second"):
        value = json.dumps({**DIALOGUE, "conversation_id": name})
        (tmp_path / f"{name}.json").write_text(value)
    off_topic = tmp_path / "off_topic.txt"
    off_topic.write_text('{"questions": ["What did {speaker} say about caesium?"]}')
    studies = ["--ablation", "--cross-validate", "--off-topic", str(off_topic)]
    options = ["--data", str(tmp_path), "--max-tokens", "60", "--embedder", "static"]
    assert main([*options, *studies, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    parts = report["ablation"]["parts"]
    assert list(parts)[:3] == ["dense", "lexical", "smoothing"]
    assert all(set(row) == {"alone", "left_out"} for row in parts.values())
    assert set(report["cross_validation"]["left_out"]) == {"tiny", "second"}
    off_topic = report["off_topic"]
    assert (off_topic["questions"], off_topic["injected"], off_topic["tokens"]) == (2, 0.0, 0.0)
    printed = table(report)
    assert "session prior" in printed
    assert "2 off-topic questions" in printed


def test_dialogues_of_one_user_are_searched_together_each_a_thread(tmp_path):
    for name in ("a", "b"):
        lines = [{**line, "id": f"{name}-{line['id']}"} for line in DIALOGUE["lines"][:4]]
        value = {"user": "nora", "lines": lines, "questions": DIALOGUE["questions"][2:]}
        evidence = [{"line": f"{name}-L2", "part": "floor three"}]
        value["questions"] = [{"question": "Which floor?", "evidence": evidence, "category": 1}]
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    [dialogue] = load_dialogues(tmp_path)
    assert (dialogue.name, len(dialogue.lines), len(dialogue.questions)) == ("nora", 8, 2)
    assert {line.thread for line in dialogue.lines.values()} == {"a", "b"}


def test_a_chunk_holds_at_most_a_thousand_characters_and_loses_none():
    [dialogue] = load_dialogues(DATA)
    lines = list(dialogue.lines.values())
    packed = chunks(lines)
    assert max(len("\n".join(line.labelled for line in chunk)) for chunk in packed) <= 1000
    said = "".join(line.text for chunk in packed for line in chunk)
    assert "".join(said.split()) == "".join("".join(line.text for line in lines).split())


def test_evidence_in_long_replies_comes_back_within_a_thousand_tokens():
    [dialogue] = load_dialogues(DATA)
    assert len(dialogue.questions) == 100
    warm = recall_of(dialogue, EmbeddedEmbeddings())
    found = figures(measure(Recaller(warm), dialogue, 1000))
    assert found["evidence_recall"] >= 0.85
    assert found["mean_tokens"] <= 1000


# -- a user and an assistant ----------------------------------------------------------------------


def test_a_user_and_an_assistant_are_stored_by_role_and_others_by_name(tmp_path):
    dialogue = roles(tmp_path)
    user, assistant = [message_of(line) for line in list(dialogue.lines.values())[:2]]
    assert (type(user), user.name) == (HumanMessage, None)
    assert (type(assistant), assistant.name) == (AIMessage, None)
    assert user.additional_kwargs["session"] == "0"
    [nora] = load_dialogues(DATA)
    assert {message_of(line).name for line in nora.lines.values()} == {"Nora", "Assistant"}


def test_only_questions_marked_as_such_count_as_unanswerable(tmp_path):
    dialogue = roles(tmp_path)
    assert [question.text for question in dialogue.unanswerable] == ["How old is my sister?"]
    assert len(dialogue.questions) == 2


def test_a_line_is_touched_by_sixty_characters_begun_at_any_tenth():
    assert is_touched(LONG, LONG[10:70])
    assert not is_touched(LONG, LONG[11:70] + "|" + LONG[:60].replace("boiler", "heater"))
    assert is_touched("Mind  the\nheight.", "Assistant: Mind the height.")
    assert not is_touched("Mind the height.", "Mind the heigh")


def test_updates_roles_and_silence_are_counted(tmp_path):
    dialogue = roles(tmp_path)
    old, new = "[2025]\nUser: I drive a red van", "[2025]\nUser: Now I drive a blue bus"

    def measured(*texts):
        system = Scripted(*texts)
        return figures(measure(system, dialogue, 100), measure_unanswerable(system, dialogue, 100))

    first, last = measured(new, old), measured(old, new)
    assert (first["new_value_present"], first["new_value_first"]) == (1.0, 1.0)
    assert (last["new_value_present"], last["new_value_first"]) == (1.0, 0.0)
    assert measured(f"{new}\n{old}")["new_value_first"] == 0.0
    assert (first["touched"], first["all_touched"]) == (0.75, 0.5)
    assert first["touched_by_role"] == {"user": 1.0, "assistant": 0.0}
    assert first["touched_by_category"] == {"knowledge_update": 1.0, "several": 0.5}
    assert first["something_on_unanswerable"] == 1.0
    assert first["tokens_on_unanswerable"] == len(old + new) / 4
    silent = measured()
    assert (silent["nothing_on_answerable"], silent["something_on_unanswerable"]) == (1.0, 0.0)


def test_several_folders_are_judged_each_by_its_kind_and_one_by_the_others(tmp_path, capsys):
    folders = tmp_path / "people", tmp_path / "assistants"
    for folder, value in zip(folders, (DIALOGUE, BY_ROLE), strict=True):
        folder.mkdir()
        (folder / "one.json").write_text(json.dumps(value))
    data = [part for folder in folders for part in ("--data", str(folder))]
    studies = ["--ablation", "--cross-validate", "--embedder", "static", "--max-tokens", "60"]
    assert main([*data, *studies, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    kinds = {name: part["ablation"]["judged_by"] for name, part in report["folders"].items()}
    assert kinds == {"people": "evidence_recall", "assistants": "touched"}
    folds = report["cross_validation_of_kinds"]["left_out"]
    assert {name: fold["judged_by"] for name, fold in folds.items()} == kinds
    assert folds["people"]["score"] == folds["people"]["best_on_it"] == 1.0
    printed = table(report)
    assert "people: 2 questions with evidence, 0 without" in printed
    assert "settings chosen on the other folders" in printed


class Counting(Embeddings):
    def __init__(self):
        self.sent = []

    def embed_documents(self, texts):
        self.sent += texts
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text):
        self.sent.append(text)
        return [float(len(text)), 1.0]


def test_a_text_is_embedded_once_and_a_question_too_where_nothing_is_timed():
    inner = Counting()
    cached = CachingEmbeddings(inner, caches_questions=True)
    assert cached.embed_documents(["a", "bb", "a"]) == [[1.0, 1.0], [2.0, 1.0], [1.0, 1.0]]
    assert cached.embed_documents(["bb"]) == [[2.0, 1.0]]
    assert cached.embed_query("ccc") == cached.embed_query("ccc") == [3.0, 1.0]
    assert inner.sent == ["a", "bb", "ccc"]
    timed = CachingEmbeddings(inner)
    timed.embed_query("ccc")
    timed.embed_query("ccc")
    assert inner.sent[3:] == ["ccc", "ccc"]
