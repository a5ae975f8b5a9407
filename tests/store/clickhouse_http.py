"""ClickHouse's HTTP interface in front of the embedded engine, for tests, in its own process.

Speaks what clickhouse-connect asks for: statements in the body, the URL or a form; parameters,
settings, formats, gzip/lz4/zstd bodies, errors with their codes, basic auth, /ping. Prints its port
once it listens, and ends when its standard input does.
"""

import argparse
import base64
import gzip
import io
import json
import re
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.frame
from clickhouse_connect.driver._backend.httpcommon import decompress_response

# URL parameters that are part of the protocol; `param_*` are query parameters, the rest settings.
PROTOCOL = {
    "query", "database", "default_format", "query_id", "user", "password", "role", "quota_key",
    "session_id", "session_timeout", "session_check", "compress", "decompress", "buffer_size",
    "wait_end_of_query", "client_protocol_version", "stacktrace",
}  # fmt: skip
STATUS = {62: 400, 60: 404, 81: 404, 516: 403}
HAS_ROWS = re.compile(r"\s*(SELECT|WITH|SHOW|DESC|EXISTS|EXPLAIN|KILL)", re.IGNORECASE)
INSERT = re.compile(rb"(INSERT INTO .*?)\s+FORMAT\s+(\w+)\n", re.DOTALL)
FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*$", re.IGNORECASE)
CODE = re.compile(r"Code: (\d+)")


class Refused(Exception):
    """An answer with a ClickHouse error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {text}")


class Engine:
    """Runs one request on a connection of its own, so that settings end with it."""

    def __init__(self, path: str, user: str, password: str) -> None:
        self.path = path
        self.credentials = (user, password)

    def run(
        self, body: bytes, url: Mapping[str, str], credentials: tuple[str, str]
    ) -> tuple[Any, str]:
        if credentials != self.credentials:
            raise Refused(516, "default: Authentication failed. (AUTHENTICATION_FAILED)")
        connection = chdb.connect(self.path)
        try:
            for name, value in url.items():
                if name not in PROTOCOL and not name.startswith("param_"):
                    connection.query(f"SET {name} = {literal(value)}")
            # The embedded engine gives queries ids of its own; ours is kept in the comment.
            connection.query(f"SET log_comment = {literal(url['query_id'])}")
            if "database" in url:
                connection.query(f"USE `{url['database']}`")
            return self.execute(connection, body, url)
        finally:
            connection.close()

    def execute(self, connection: Any, body: bytes, url: Mapping[str, str]) -> tuple[Any, str]:
        insert = INSERT.match(url.get("query", "").encode() + b"\n" + body) or INSERT.match(body)
        if insert:
            with tempfile.NamedTemporaryFile() as file:
                file.write(insert.string[insert.end() :])
                file.flush()
                into = f"{insert[1].decode()} FROM INFILE '{file.name}' FORMAT {insert[2].decode()}"
                return connection.query(into), ""
        sql = "\n".join(part for part in (url.get("query", ""), body.decode()) if part)
        if "system.processes" in sql or sql.startswith("KILL QUERY"):
            sql = re.sub(r"\bquery_id\b", "Settings['log_comment']", sql)
        params = {name[6:]: value for name, value in url.items() if name.startswith("param_")}
        named = FORMAT.search(sql)
        answer_format = named[1] if named else url.get("default_format", "TabSeparated")
        result = connection.query(sql, answer_format, params=params)
        return result, answer_format if HAS_ROWS.match(sql) else ""


def literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two cost 40 ms each, by Nagle and delayed ACK

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/ping":
            self.answer(200, b"Ok.\n", {})
        else:
            self.do_POST()

    def do_POST(self) -> None:
        url = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        url["query_id"] = url.get("query_id") or str(uuid.uuid4())
        headers = {"X-ClickHouse-Query-Id": url["query_id"], "X-ClickHouse-Timezone": "UTC"}
        engine = cast("Server", self.server).engine
        try:
            body = self.read_body(url)
            result, answer_format = engine.run(body, url, self.credentials(url))
        except (RuntimeError, Refused) as error:
            code = int(found[1]) if (found := CODE.search(str(error))) else 1002
            headers["X-ClickHouse-Exception-Code"] = str(code)
            text = f"{str(error).strip()} (version {chdb.engine_version} (official build))\n"
            self.answer(STATUS.get(code, 500), text.encode(), headers)
            return
        if answer_format:
            headers["X-ClickHouse-Format"] = answer_format
        counts = {"read_rows": result.rows_read(), "read_bytes": result.bytes_read()}
        summary = {name: str(count) for name, count in counts.items()}
        headers["X-ClickHouse-Summary"] = json.dumps(summary)
        self.answer(200, result.bytes() or b"", headers)

    def read_body(self, url: dict[str, str]) -> bytes:
        """Read the body; what a form holds is treated as if it were in the URL."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self.read_chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        encoding = self.headers.get("Content-Encoding")
        if encoding == "lz4":  # one frame for each block, which the client's own reader cannot join
            with lz4.frame.open(io.BytesIO(body)) as frames:
                body = cast("bytes", frames.read())
        else:
            body = decompress_response(body, encoding)
        content_type = self.headers.get("Content-Type", "")
        if not content_type.startswith("multipart/form-data"):
            return body
        form = message_from_bytes(f"Content-Type: {content_type}\n\n".encode() + body)
        for part in cast("list[Message]", form.get_payload()):
            name = str(part.get_param("name", header="content-disposition"))
            url[name] = cast("bytes", part.get_payload(decode=True)).decode()
        return b""

    def read_chunk(self) -> bytes:
        size = int(self.rfile.readline(), 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def credentials(self, url: Mapping[str, str]) -> tuple[str, str]:
        scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Basic":
            user, _, password = base64.b64decode(encoded).decode().partition(":")
            return user, password
        if user := self.headers.get("X-ClickHouse-User"):
            return user, self.headers.get("X-ClickHouse-Key", "")
        return url.get("user", "default"), url.get("password", "")

    def answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent: the tests read standard output."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    engine: Engine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report what went wrong; that a client did not wait for its answer is no fault."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", required=True)
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    arguments = parser.parse_args()
    kept_open = chdb.connect(arguments.path)
    server = Server(("127.0.0.1", 0), Handler)
    server.engine = Engine(arguments.path, arguments.user, arguments.password)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    kept_open.close()


if __name__ == "__main__":
    main()
