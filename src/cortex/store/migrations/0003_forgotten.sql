-- What people had forgotten, kept so that it does not come back when a file is read again.

-- shard: cityHash64(rule_id)
CREATE TABLE IF NOT EXISTS forgotten
(
    rule_id   String,
    state     UInt8 COMMENT '1 being removed, 2 removed, 3 off the disk, 4 undone',
    scope     LowCardinality(String) COMMENT 'session, project, before',
    value     String COMMENT 'a session, a folder, a moment',
    cutoff_ms Int64 COMMENT 'records before this moment are meant',
    counts    Map(LowCardinality(String), UInt64) COMMENT 'rows that went, by table',
    files     Array(Tuple(String, String)) COMMENT 'source and file, read again when undone' CODEC(ZSTD(3)),
    principal String,
    at        DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(state)
ORDER BY rule_id;

-- shard: cityHash64(rule_id)
CREATE TABLE IF NOT EXISTS forgotten_sessions
(
    rule_id    String,
    session_id String
)
ENGINE = MergeTree
ORDER BY (rule_id, session_id);
