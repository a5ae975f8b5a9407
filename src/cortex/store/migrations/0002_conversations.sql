-- What agents said and did, and the index over it.
--
-- Written in batches. A batch counts when `ingest_batches` says it is done; one that a crash cut off
-- is deleted by its number before anything else happens. So no row is double and nothing needs FINAL.
-- Files of removed rows are looked for every few seconds (cleanup_delay_period), so that what a person
-- had forgotten soon leaves the disk.
--
-- doc_id = 44 bits that number a stream (one session in one file) and 20 bits that count its events,
-- so the neighbours of an event are its neighbours here, and its window is a range of the key.
-- Streams are numbered as they come: what is read together lies together, and a part of a table holds
-- a range of numbers that few other parts overlap.

-- shard: batch
CREATE TABLE IF NOT EXISTS ingest_batches
(
    batch      UInt64,
    state      UInt8 COMMENT '1 open, 2 done, 3 void',
    -- Said before anything is done, so that what a crash cut off can be found and undone.
    plan       String COMMENT 'numbers it takes and records it replaces, JSON' CODEC(ZSTD(1)),
    redactions Map(LowCardinality(String), UInt32) COMMENT 'secrets taken out, by rule',
    at         DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(state)
ORDER BY batch;

-- shard: cityHash64(source_file)
CREATE TABLE IF NOT EXISTS ingest_checkpoints
(
    source_name       LowCardinality(String),
    source_file       String,
    batch             UInt64,
    origin            String COMMENT 'its name when it was first read: moving it changes no number',
    source_inode      UInt64,
    source_generation UInt32 COMMENT 'counts how often the file was replaced or cut',
    last_offset       UInt64 COMMENT 'everything before this byte is in the store',
    last_line_no      UInt64,
    head              String COMMENT 'names the first bytes: a moved file has the same',
    tail              String COMMENT 'names the bytes before last_offset: a replaced file has others',
    carry             String COMMENT 'what its reader remembers, JSON' CODEC(ZSTD(1)),
    updated_at        DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(batch)
ORDER BY (source_name, source_file);

-- shard: cityHash64(session_id)
CREATE TABLE IF NOT EXISTS ingest_streams
(
    batch             UInt64,
    session_id        String CODEC(ZSTD(1)),
    origin            String COMMENT 'the file, by its name when it was first read' CODEC(ZSTD(1)),
    source_generation UInt32,
    part              UInt32 COMMENT 'one that is full goes on in its next part',
    stream            UInt64
)
ENGINE = MergeTree
ORDER BY (session_id, origin, source_generation, part)
SETTINGS auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- shard: cityHash64(session_id)
CREATE TABLE IF NOT EXISTS raw_events
(
    batch             UInt64 CODEC(ZSTD(1)),
    session_id        String CODEC(ZSTD(1)),
    record_key        String COMMENT 'the same record wherever it is read again' CODEC(ZSTD(1)),
    reading_mark      UInt64 COMMENT 'names what a rewritable record said; 0 for a line' CODEC(ZSTD(1)),
    doc_id            UInt64 COMMENT 'its first event; the others follow' CODEC(Delta, ZSTD(1)),
    event_count       UInt32 CODEC(ZSTD(1)),
    source_name       LowCardinality(String),
    harness           LowCardinality(String),
    source_file       LowCardinality(String),
    source_generation UInt32 CODEC(ZSTD(1)),
    source_line_no    UInt64 CODEC(Delta, ZSTD(1)),
    source_offset     UInt64 CODEC(Delta, ZSTD(1)),
    top_type          LowCardinality(String),
    record_ts         DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    raw_json          String COMMENT 'the record, secrets redacted' CODEC(ZSTD(1)),
    ingested_at       DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta, ZSTD(1))
)
ENGINE = MergeTree
ORDER BY (session_id, source_file, source_generation, source_line_no)
SETTINGS index_granularity = 1024,
    auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- shard: bitShiftRight(doc_id, 20)
CREATE TABLE IF NOT EXISTS events
(
    doc_id             UInt64 CODEC(Delta, ZSTD(1)),
    batch              UInt64 CODEC(ZSTD(1)),
    event_uid          String CODEC(ZSTD(1)),
    session_id         String CODEC(ZSTD(1)),
    event_ts           DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    turn_seq           UInt32 COMMENT 'how many prompts of a person came so far' CODEC(ZSTD(1)),
    source_name        LowCardinality(String),
    harness            LowCardinality(String),
    inference_provider LowCardinality(String),
    source_file        LowCardinality(String),
    source_generation  UInt32 CODEC(ZSTD(1)),
    source_line_no     UInt64 CODEC(Delta, ZSTD(1)),
    block              UInt16 COMMENT 'order inside the record' CODEC(ZSTD(1)),
    event_kind         LowCardinality(String),
    payload_type       LowCardinality(String),
    actor_kind         LowCardinality(String),
    item_id            String COMMENT 'id the agent gave the record' CODEC(ZSTD(1)),
    op_status          LowCardinality(String),
    tool_name          LowCardinality(String),
    tool_call_id       String CODEC(ZSTD(1)),
    tool_phase         LowCardinality(String),
    tool_error         UInt8 CODEC(ZSTD(1)),
    model              LowCardinality(String),
    agent_label        LowCardinality(String),
    is_turn            UInt8 COMMENT 'a prompt of a person' CODEC(ZSTD(1)),
    is_substream       UInt8 COMMENT 'said inside a subagent' CODEC(ZSTD(1)),
    is_mirror          UInt8 COMMENT 'says again what another record says' CODEC(ZSTD(1)),
    project            LowCardinality(String) COMMENT 'working directory of the agent',
    title              String CODEC(ZSTD(1)),
    input_tokens       UInt32 CODEC(ZSTD(1)),
    output_tokens      UInt32 CODEC(ZSTD(1)),
    cache_read_tokens  UInt32 CODEC(ZSTD(1)),
    cache_write_tokens UInt32 CODEC(ZSTD(1)),
    reasoning_tokens   UInt32 CODEC(ZSTD(1)),
    text_content       String CODEC(ZSTD(1)),
    -- What search and open show of an event, in one piece: of a scattered row, each column is a read.
    card               String MATERIALIZED toJSONString((
        event_uid, session_id, toUnixTimestamp64Milli(event_ts), turn_seq, source_name, harness,
        inference_provider, source_file, source_generation, source_line_no, event_kind, payload_type,
        actor_kind, item_id, op_status, tool_name, tool_call_id, tool_phase, project, title,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens
    )) CODEC(ZSTD(1)),
    INDEX event_uid_bloom event_uid TYPE bloom_filter(0.001) GRANULARITY 4
)
ENGINE = MergeTree
ORDER BY doc_id
-- Read by twos and tens: 20 scattered events take 13 ms so, and 31 ms in granules of 128.
-- Merged column by column and few parts at once: so a merge needs little memory.
SETTINGS index_granularity = 32, min_compress_block_size = 8192, max_compress_block_size = 65536,
    vertical_merge_algorithm_min_rows_to_activate = 1, max_parts_to_merge_at_once = 10,
    auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- shard: cityHash64(session_id)
CREATE TABLE IF NOT EXISTS event_links
(
    batch              UInt64 CODEC(ZSTD(1)),
    session_id         String CODEC(ZSTD(1)),
    event_uid          String CODEC(ZSTD(1)),
    link_type          LowCardinality(String),
    linked_external_id String COMMENT 'an id the agent gave' CODEC(ZSTD(1)),
    harness            LowCardinality(String)
)
ENGINE = MergeTree
ORDER BY (session_id, link_type, linked_external_id)
SETTINGS auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- Which call an event belongs to; the texts stand in `events`, once.
-- shard: cityHash64(session_id)
CREATE TABLE IF NOT EXISTS tool_io
(
    batch        UInt64 CODEC(ZSTD(1)),
    session_id   String CODEC(ZSTD(1)),
    tool_call_id String CODEC(ZSTD(1)),
    event_uid    String CODEC(ZSTD(1)),
    tool_name    LowCardinality(String),
    tool_phase   LowCardinality(String),
    tool_error   UInt8 CODEC(ZSTD(1)),
    text_chars   UInt32 CODEC(ZSTD(1)),
    event_ts     DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = MergeTree
ORDER BY (session_id, tool_call_id, tool_phase)
SETTINGS auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- shard: cityHash64(source_file)
CREATE TABLE IF NOT EXISTS ingest_errors
(
    batch             UInt64,
    source_name       LowCardinality(String),
    harness           LowCardinality(String),
    source_file       String,
    source_generation UInt32,
    source_line_no    UInt64,
    source_offset     UInt64,
    error_id          UInt64 COMMENT 'the same fault, however often it is met',
    error_kind        LowCardinality(String),
    error_text        String,
    raw_fragment      String CODEC(ZSTD(3)),
    at                DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
ORDER BY (source_name, source_file, source_generation, source_offset)
SETTINGS auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- The way into the index: one row a document comes in, and goes on as one document and a posting for
-- each term, three times as fast as sending each posting.
-- shard: bitShiftRight(doc_id, 20)
CREATE TABLE IF NOT EXISTS search_entries
(
    doc_id     UInt64,
    batch      UInt64,
    session    UInt64,
    class      UInt8,
    doc_len    UInt32,
    event_ts   DateTime64(3, 'UTC'),
    harness    LowCardinality(String),
    event_kind LowCardinality(String),
    project    LowCardinality(String),
    position   UInt32,
    terms      String COMMENT 'a line for each',
    tfs        String COMMENT 'how often each term occurs: UInt16 after UInt16'
)
ENGINE = Null;

-- What a search has to know of a document before it reads it. Kept in memory as well: 40 bytes each.
-- shard: bitShiftRight(doc_id, 20)
CREATE TABLE IF NOT EXISTS search_documents
(
    doc_id     UInt64 CODEC(Delta, ZSTD(1)),
    batch      UInt64 CODEC(ZSTD(1)),
    session    UInt64 COMMENT 'names the session' CODEC(ZSTD(1)),
    class      UInt8 COMMENT 'see docs/explain/ranking.md' CODEC(ZSTD(1)),
    doc_len    UInt32 COMMENT 'words' CODEC(ZSTD(1)),
    event_ts   DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    harness    LowCardinality(String),
    event_kind LowCardinality(String),
    project    LowCardinality(String),
    position   UInt32 COMMENT 'among the ranked events of the stream' CODEC(ZSTD(1)),
    said       UInt64 COMMENT 'names its words: a message written twice has the same' CODEC(ZSTD(1))
)
ENGINE = MergeTree
ORDER BY doc_id
SETTINGS auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- A number in place of the term: half of the time to find and read them. Its last bit tells what people
-- and agents said from what tools did, so that neither is read for the other.
-- shard: bitShiftRight(doc_id, 20)
CREATE TABLE IF NOT EXISTS search_postings
(
    key    UInt64 COMMENT 'xxHash64 of the term, its last bit: is ranked' CODEC(ZSTD(1)),
    doc_id UInt64 CODEC(Delta, ZSTD(1)),
    tf     UInt16 CODEC(ZSTD(1)),
    term   String CODEC(ZSTD(1))
)
ENGINE = MergeTree
ORDER BY (key, doc_id)
-- Small blocks: a rare term reads a few kilobytes of each column, not a megabyte, and so does a broad
-- term in some hundred documents.
SETTINGS index_granularity = 256, min_compress_block_size = 16384, max_compress_block_size = 65536,
    auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

CREATE MATERIALIZED VIEW IF NOT EXISTS search_documents_of_entries TO search_documents AS
SELECT doc_id, batch, session, class, doc_len, event_ts, harness, event_kind, project, position,
    cityHash64(terms, tfs) AS said
FROM search_entries;

CREATE MATERIALIZED VIEW IF NOT EXISTS search_postings_of_entries TO search_postings AS
SELECT bitOr(bitAnd(xxHash64(term), bitNot(toUInt64(1))), class <= 5) AS key, doc_id, tf, term
FROM search_entries ARRAY JOIN splitByChar('\n', terms) AS term, reinterpret(tfs, 'Array(UInt16)') AS tf;

CREATE VIEW IF NOT EXISTS search_term_stats AS
SELECT term, count() AS docs FROM search_postings WHERE bitTest(key, 0) GROUP BY term;

CREATE VIEW IF NOT EXISTS search_corpus_stats AS
SELECT count() AS docs, sum(doc_len) AS total_doc_len, uniqExact(session) AS sessions
FROM search_documents WHERE class <= 5 AND doc_len > 0;

-- shard: cityHash64(query_id)
CREATE TABLE IF NOT EXISTS search_query_log
(
    ts                  DateTime64(3, 'UTC'),
    query_id            String,
    source              LowCardinality(String),
    session_hint        String,
    raw_query           String CODEC(ZSTD(3)),
    normalized_terms    Array(String),
    result_limit        UInt16,
    min_should_match    UInt16,
    min_score           Float64,
    include_tool_events UInt8,
    exclude_codex_mcp   UInt8,
    response_ms         Float64,
    result_count        UInt16
)
ENGINE = MergeTree
ORDER BY (ts, query_id)
TTL toDateTime(ts) + INTERVAL 90 DAY
SETTINGS auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- shard: cityHash64(query_id)
CREATE TABLE IF NOT EXISTS search_hit_log
(
    ts            DateTime64(3, 'UTC'),
    query_id      String,
    rank          UInt16,
    event_uid     String,
    session_id    String,
    score         Float64,
    bm25          Float64,
    matched_terms UInt16
)
ENGINE = MergeTree
ORDER BY (ts, query_id, rank)
TTL toDateTime(ts) + INTERVAL 90 DAY
SETTINGS auto_statistics_types = '', cleanup_delay_period = 5, max_cleanup_delay_period = 30;

-- The record of an event stands in raw_events, once, however many events it has.
CREATE VIEW IF NOT EXISTS v_conversation_trace AS
SELECT
    event.session_id AS session_id,
    event.event_uid AS event_uid,
    row_number() OVER (PARTITION BY event.session_id ORDER BY event.event_ts, event.doc_id) AS event_order,
    event.turn_seq AS turn_seq,
    event.event_ts AS event_time,
    event.actor_kind AS actor_role,
    event.event_kind AS event_class,
    event.payload_type AS payload_type,
    event.tool_call_id AS call_id,
    event.tool_name AS name,
    if(event.tool_phase != '', event.tool_phase, event.op_status) AS phase,
    event.item_id AS item_id,
    concat(event.source_file, ':', toString(event.source_generation), ':',
        toString(event.source_line_no)) AS source_ref,
    event.text_content AS text_content,
    record.raw_json AS payload_json
FROM events AS event
ASOF LEFT JOIN raw_events AS record
    ON event.session_id = record.session_id AND event.doc_id >= record.doc_id;
