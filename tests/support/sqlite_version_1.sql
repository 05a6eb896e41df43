-- A log as schema version 1 wrote it: frozen. Two users and a thread of nobody; a tool loop, a
-- replaced answer, a summary, additions to metadata; position 10 was forgotten.
CREATE TABLE documents(
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (thread, name)
) WITHOUT ROWID;
INSERT INTO "documents" VALUES(1,'buffer',1795275235674657,'["a",1]');
CREATE TABLE entries(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  id BLOB NOT NULL,
  turn BLOB,
  role INTEGER NOT NULL,
  key_hash INTEGER,
  body TEXT NOT NULL,
  metadata TEXT
);
INSERT INTO "entries" VALUES(1,1,X'019C936E3BE8495E6DCF99F29EED5599',NULL,0,143175674,'{"v":1,"m":{"content":"Where did I park? 🦊","type":"human"}}','{"a":["seen"],"t":{"llmStart":1772000000500},"x":{"mood":"calm"}}');
INSERT INTO "entries" VALUES(2,1,X'019C936E3FD030D7277B081AB31CF622',X'019C936E3BE8495E6DCF99F29EED5599',1,387345683,'{"v":1,"m":{"content":"","id":"run-1","tool_calls":[{"name":"find_car","args":{"level":null},"id":"call-1","type":"tool_call"}],"type":"ai"}}',NULL);
INSERT INTO "entries" VALUES(3,1,X'019C936E43B853F7C5CFF42E37A48C1A',X'019C936E3BE8495E6DCF99F29EED5599',2,283114499,'{"v":1,"m":{"content":"Level C","id":"tool-1","tool_call_id":"call-1","type":"tool"}}',NULL);
INSERT INTO "entries" VALUES(4,1,X'019C936E47A01C0DBC43FD077B990A37',X'019C936E3BE8495E6DCF99F29EED5599',1,780320664,'{"v":1,"m":{"content":"Level B.","id":"run-2","type":"ai"}}',NULL);
INSERT INTO "entries" VALUES(5,1,X'019C936E4B8828D2DB273C614186B521',NULL,5,NULL,'{"v":1,"k":{"retracts":["01KJ9PWHX03G6VRGZX0XXSJ2HQ"],"reason":"replaced","replacement":"01KJ9PWKVG57PAB2G39Z6P6FDT"}}',NULL);
INSERT INTO "entries" VALUES(6,1,X'019C936E4F7029ECA58A034FCD633DBA',X'019C936E3BE8495E6DCF99F29EED5599',1,780320664,'{"v":1,"m":{"content":"Level C.","id":"run-2","type":"ai"}}',NULL);
INSERT INTO "entries" VALUES(7,1,X'019C936E535878628EA0C2327E543391',NULL,4,368922261,'{"v":1,"m":{"content":"Ana parked on level C.","type":"system"},"o":{"ranges":[[1,6]],"digest":"abc","model":"offline","prompt_version":"1"}}','{"s":["01KJ9PWEZ895F6VKWSYAFETNCS"]}');
INSERT INTO "entries" VALUES(8,2,X'019C936E57404ED2DE075E8E43A30280',NULL,0,202410554,'{"v":1,"m":{"content":"A thread of nobody.","id":"m1","type":"human"}}',NULL);
INSERT INTO "entries" VALUES(9,3,X'019C936E5B2822A020177E6904358996',NULL,0,572804646,'{"v":1,"m":{"content":"Bens thread of the same name.","type":"human"}}',NULL);
CREATE TABLE fingerprints(fingerprint INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO "fingerprints" VALUES(1,'static-256');
CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK (one = 1), forget_epoch INTEGER NOT NULL);
INSERT INTO "meta" VALUES(1,1);
CREATE TABLE owners(
  owner INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  lone_thread TEXT NOT NULL,
  generation INTEGER NOT NULL,
  UNIQUE (user_id, lone_thread)
);
INSERT INTO "owners" VALUES(1,'ana','',0);
INSERT INTO "owners" VALUES(2,'','lone',0);
INSERT INTO "owners" VALUES(3,'ben','',1);
CREATE TABLE segments(
  seq INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE,
  part INTEGER NOT NULL,
  segment INTEGER NOT NULL,
  fingerprint INTEGER NOT NULL REFERENCES fingerprints,
  terms TEXT NOT NULL,
  vector BLOB,
  UNIQUE (seq, part, segment, fingerprint)
);
INSERT INTO "segments" VALUES(1,0,0,1,'park',X'003C0040');
INSERT INTO "segments" VALUES(6,0,0,1,'level c',NULL);
CREATE TABLE threads(
  thread INTEGER PRIMARY KEY,
  owner INTEGER NOT NULL REFERENCES owners ON DELETE CASCADE,
  thread_id TEXT NOT NULL,
  UNIQUE (owner, thread_id)
);
INSERT INTO "threads" VALUES(1,1,'t1');
INSERT INTO "threads" VALUES(2,2,'lone');
INSERT INTO "threads" VALUES(3,3,'t1');
CREATE INDEX entries_by_thread ON entries(thread);
CREATE INDEX entries_by_key ON entries(thread, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX entries_by_id ON entries(thread, id);
CREATE INDEX entries_control ON entries(thread) WHERE role = 5;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('entries',10);
PRAGMA application_id = 1129137485;
PRAGMA user_version = 1;
