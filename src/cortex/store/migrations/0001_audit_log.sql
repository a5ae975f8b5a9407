-- The readable mirror of the hash-chained audit ledger. The ledger in the home is the truth: this
-- table can be dropped and mirrored again, and a record mirrored twice collapses into one.
--
-- Sorted by (chain, seq), the order of the ledger. Time rises with seq, so the minmax index makes
-- a time range as cheap as a range of seq; the bloom filter finds the two records of one call.
--
-- shard: cityHash64(chain)
CREATE TABLE IF NOT EXISTS audit_log
(
    chain        LowCardinality(String) COMMENT 'the ledger, so that two homes can share a server',
    seq          UInt64 COMMENT 'position in the ledger, without gaps' CODEC(Delta, ZSTD(1)),
    at           DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    kind         LowCardinality(String) COMMENT 'intent, outcome, ...',
    call_id      String COMMENT 'joins the intent and the outcome of a call' CODEC(ZSTD(1)),
    tool         LowCardinality(String),
    principal    LowCardinality(String),
    client       LowCardinality(String) COMMENT 'name and version of the MCP client',
    outcome      LowCardinality(String) COMMENT 'empty for an intent',
    code         LowCardinality(String) COMMENT 'the error code, empty when it went well',
    duration_ms  Float64,
    input_digest String COMMENT 'SHA-256 of the validated arguments, in hex' CODEC(ZSTD(1)),
    record       String COMMENT 'the whole record, canonical JSON (RFC 8785)' CODEC(ZSTD(3)),
    hash         String COMMENT 'SHA-256 of the record, in hex' CODEC(ZSTD(1)),
    prev_hash    String COMMENT 'hash of the record before' CODEC(ZSTD(1)),
    INDEX at_range at TYPE minmax GRANULARITY 1,
    INDEX call_id_bloom call_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (chain, seq);
