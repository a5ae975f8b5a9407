"""Secrets here are invented and put together when a test runs: no scanner finds one in the file."""

import base64
import json
import random
import string

import pytest

from cortex.settings.models import RedactionSettings
from cortex.toolsets.conversations.redaction import Redacted, Redactor

LETTERS = string.ascii_letters
BASE62 = LETTERS + string.digits
BASE64URL = BASE62 + "-_"
HEX = "0123456789abcdef"


def made_of(alphabet: str, length: int, seed: int = 7) -> str:
    rng = random.Random(seed)
    return "".join(rng.choice(alphabet) for _ in range(length))


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def private_key(lines: int = 6) -> str:
    body = "\n".join(made_of(BASE62 + "+/", 64, seed) for seed in range(lines))
    name = "PRIVATE" + " KEY"
    return f"-----BEGIN {name}-----\n{body}\n-----END {name}-----"


TOKENS = {
    "aws-access-key": "AK" + "IA" + made_of(string.ascii_uppercase + "234567", 16),
    "gcp-api-key": "AI" + "za" + made_of(BASE64URL, 34) + "x",
    "gcp-oauth-token": "ya" + "29." + made_of(BASE64URL, 60),
    "github-token": "gh" + "p_" + made_of(BASE62, 36),
    "gitlab-token": "gl" + "pat-" + made_of(BASE64URL, 20),
    "slack-token": "xo" + "xb-" + "123456789012-1234567890123-" + made_of(BASE62, 24),
    "stripe-key": "sk" + "_live_" + made_of(BASE62, 24),
    "openai-key": "sk" + "-proj-" + made_of(BASE64URL, 120),
    "anthropic-key": "sk" + "-ant-api03-" + made_of(BASE64URL, 93),
    "huggingface-token": "h" + "f_" + made_of(LETTERS, 34),
    "npm-token": "np" + "m_" + made_of(BASE62, 36),
    "pypi-token": "py" + "pi-AgEIcHlwaS5vcmc" + made_of(BASE64URL, 150),
    "sendgrid-key": "S" + "G." + made_of(BASE64URL, 22) + "." + made_of(BASE64URL, 43),
    "discord-token": "MT" + made_of(BASE62, 24) + ".GaBcDe." + made_of(BASE64URL, 38),
    "digitalocean-token": "do" + "p_v1_" + made_of(HEX, 64),
    "databricks-token": "da" + "pi" + made_of(HEX, 32),
    "docker-token": "dc" + "kr_pat_" + made_of(BASE64URL, 27),
    "linear-key": "li" + "n_api_" + made_of(BASE62, 40),
    "notion-token": "nt" + "n_" + made_of(BASE62, 46),
    "jwt": f"{packed({'alg': 'HS256'})}.{packed({'sub': 'dev'})}.{made_of(BASE64URL, 43)}",
}


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(RedactionSettings())


@pytest.mark.parametrize("rule", TOKENS)
@pytest.mark.parametrize("frame", ["{}", "use {} here", "x={}", '{{"a":"{}"}}', "({})", "é{}—"])
def test_a_token_of_a_known_shape_is_replaced_wherever_it_stands(
    redactor: Redactor, rule: str, frame: str
) -> None:
    text = frame.format(TOKENS[rule])
    assert redactor.redact(text) == Redacted(frame.format(f"[REDACTED:{rule}]"), {rule: 1})


def test_several_secrets_in_one_text_are_counted_by_rule(redactor: Redactor) -> None:
    text = " ".join([*TOKENS.values(), TOKENS["jwt"]])
    found = redactor.redact(text)
    assert dict(found.counts) == {rule: 2 if rule == "jwt" else 1 for rule in TOKENS}
    assert not any(token in found.text for token in TOKENS.values())


def test_a_private_key_goes_with_all_its_lines(redactor: Redactor) -> None:
    found = redactor.redact(f"before\n{private_key()}\nafter")
    assert found == Redacted("before\n[REDACTED:private-key]\nafter", {"private-key": 1})


def test_a_private_key_escaped_in_json_goes_and_leaves_json(redactor: Redactor) -> None:
    text = json.dumps({"type": "service_account", "private_key": private_key() + "\n"})
    found = redactor.redact(text)
    assert json.loads(found.text)["private_key"] == "[REDACTED:private-key]\n"
    twice = redactor.redact(json.dumps({"out": text}))
    assert json.loads(json.loads(twice.text)["out"])["private_key"].startswith("[REDACTED")


def test_a_private_key_cut_before_its_end_loses_what_is_left_of_it(redactor: Redactor) -> None:
    found = redactor.redact(private_key()[:200] + " and the rest was cut")
    assert found.text == "[REDACTED:private-key] and the rest was cut"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("postgres://app:hunter2@db:5432/x", "postgres://app:[REDACTED:url-password]@db:5432/x"),
        ("redis://:p4ss!word@cache", "redis://:[REDACTED:url-password]@cache"),
        ("https://x-access:abc@git.example/r.git", "https://x-access:[REDACTED:url-password]@git"),
    ],
)
def test_the_password_in_a_url_goes_and_the_rest_stays(
    redactor: Redactor, text: str, wanted: str
) -> None:
    assert redactor.redact(text).text.startswith(wanted)


LONG = made_of(BASE62, 40)


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("password=hunter2", "hunter2", "password"),
        ('password = "correcthorse"', "correcthorse", "password"),
        ("PGPASSWORD=swordfish psql", "swordfish", "password"),
        ("db_passwd: tr0ub4dor", "tr0ub4dor", "password"),
        ('"password":"hunter2"', "hunter2", "password"),
        ('password: str = "hunter2"', "hunter2", "password"),
        ("dbPass='s3cr3t!x'", "s3cr3t!x", "password"),
        ("config['password'] = 'hunter2'", "hunter2", "password"),
        ('api_key: "abcd1234efgh5678"', "abcd1234efgh5678", "secret"),
        ("X-Api-Key: abcd1234efgh5678", "abcd1234efgh5678", "secret"),
        ("export TOKEN=abc123def456", "abc123def456", "secret"),
        ("export TOKEN='abc123def456'\n", "abc123def456", "secret"),
        ('{"secret": "abc123def456"}', "abc123def456", "secret"),
        (r'{"a": "{\"token\": \"abc123def456\"}"}', "abc123def456", "secret"),
        (r'{"a": "{\\\"token\\\": \\\"abc123def456\\\"}"}', "abc123def456", "secret"),
        ("token := `abc123def456`", "abc123def456", "secret"),
        (f"aws_secret_access_key = {LONG}", LONG, "aws-secret-key"),
        (f"AccountName=x;AccountKey={LONG}==;End", f"{LONG}==", "azure-key"),
        (f"https://x.blob.example/c?sv=1&sig={LONG}%3D", f"{LONG}%3D", "azure-key"),
        (f"Authorization: Bearer {LONG}", LONG, "bearer-token"),
        (f'"openaiKeyForTests": "{LONG}"', LONG, "high-entropy"),
        (f"SESSION_TOKEN_PROD={LONG}", LONG, "high-entropy"),
        (f"deploy_credentials: {LONG}", LONG, "high-entropy"),
    ],
)
def test_a_value_assigned_to_a_secret_name_goes(
    redactor: Redactor, text: str, value: str, rule: str
) -> None:
    found = redactor.redact(text)
    assert found == Redacted(text.replace(value, f"[REDACTED:{rule}]"), {rule: 1})


def test_a_long_session_token_goes_to_its_end(redactor: Redactor) -> None:
    value = made_of(BASE62 + "+/", 900)
    text = f'aws_session_token = "{value}"\nregion = "eu"'
    assert redactor.redact(text).text == 'aws_session_token = "[REDACTED:secret]"\nregion = "eu"'


ORDINARY = [
    "password = get_password()",
    "connect(user=user, password=password, token=token2)",
    "self._token = settings.api_key",
    "password: str",
    "password: string;",
    "password=os.environ['PASSWORD']",
    "password=$PASSWORD api_key=${API_KEY} token=<your-token>",
    '"password": "${DB_PASSWORD}", "api_key": "your-api-key-goes-here-1234"',
    'token = "identifier"; secret = None; key=lambda row: row.created_at_ms',
    "The token: a word that the parser reads, 3 at a time.",
    'usage {"input_tokens": 1234, "output_tokens": 99, "total_tokens":1333}',
    "max_tokens=4096 token=12345678",
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904 (HEAD -> main)",
    "sha256:" + made_of(HEX, 64),
    '"integrity": "sha512-' + made_of(BASE62 + "+/", 86) + '=="',
    'cache_key = "' + made_of(HEX, 64) + '"',
    '"key": "' + made_of(HEX, 40) + '"',
    "id=550e8400-e29b-41d4-a716-446655440000",
    "token 550e8400-e29b-41d4-a716-446655440000 seen",
    '"session_token": "550e8400-e29b-41d4-a716-446655440000"',
    '"signature": "' + made_of(BASE62 + "+/", 300) + '"',
    "data:image/png;base64,iVBORw0KGgo" + made_of(BASE62 + "+/", 4000),
    "public_key_id = " + made_of(BASE62, 30),
    "PWD=/home/dev/project OLDPWD=/home/dev",
    "test_the_reader_names_a_record_the_same_wherever_it_is_read_again_v2",
    "src/cortex/toolsets/conversations/sources/sqlite_file.py:120:1234567890",
    '{"cmd":"echo password:","next":"value1234"}',
    '{"a":["password=",12345678],"b":{"token":12345678901234567890}}',
    "-" * 200 + "|" + "=" * 100,
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + made_of(BASE62, 43) + " dev@laptop",
    "http://localhost:8080/@scope/package@1.2.3 and mailto:dev@example.com",
    "https://registry.example/a/-/a-1.0.0.tgz#" + made_of(HEX, 40),
    "toolu_01" + made_of(BASE62, 22) + " call_" + made_of(BASE62, 24),
    "getElementsByClassNameAndAttributeValue2(Base64EncoderDecoderStream)",
    "2026-11-15T04:33:07.123Z INFO cortex.ingest token=2026-11-15T04:33:07",
    'PASS = "pass"; token: OAuth2Token',
    'publicKeyToken="1fc8b3b9a1e18e3b"',
    'START = b"-----BEGIN OPENSSH PRIVATE ' + 'KEY-----"',
    "compass=north1234 bypass=enabled1 monkey=banana12",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_code_and_logs_stay_as_they_are(redactor: Redactor, text: str) -> None:
    assert redactor.redact(text) == Redacted(text, {})


def test_json_stays_json_with_every_kind_of_secret_in_it(redactor: Redactor) -> None:
    record = {
        "tokens": list(TOKENS.values()),
        "env": "\n".join(f"export {rule.upper()}_TOKEN={v}" for rule, v in TOKENS.items()),
        "nested": json.dumps({"password": "hunter2", "url": "ftp://a:b3c@d/", "n": 7}),
        "password": "hunter2",
        "token": 12345678901,
        "key": private_key(),
    }
    found = redactor.redact_json(json.dumps(record))
    value = json.loads(found.text)
    assert value["token"] == 12345678901
    assert json.loads(value["nested"])["password"] == "[REDACTED:password]"
    assert set(value["tokens"]) == {f"[REDACTED:{rule}]" for rule in TOKENS}


def test_doing_it_twice_changes_nothing_more(redactor: Redactor) -> None:
    text = f"password=hunter2 {private_key()} a://b:c1d@e " + " ".join(TOKENS.values())
    once = redactor.redact(text)
    assert redactor.redact(once.text) == Redacted(once.text, {})


def test_patterns_of_the_user_are_taken_out_too_and_only_once() -> None:
    redactor = Redactor(RedactionSettings(extra_patterns=(r"ACME-\d+", r"[A-Z]{8}")))
    once = redactor.redact("ticket ACME-42 of PROJECTX")
    assert once == Redacted("ticket [REDACTED:custom] of [REDACTED:custom]", {"custom": 2})
    assert redactor.redact(once.text) == Redacted(once.text, {})


def test_json_stays_json_even_when_a_users_pattern_eats_its_marks() -> None:
    redactor = Redactor(RedactionSettings(extra_patterns=(r'"a.*?1', r"\w+-internal")))
    found = redactor.redact_json('{"a": "x-internal", "b": [1, {"c": "y-internal"}]}')
    assert json.loads(found.text) == {
        "a": "[REDACTED:custom]",
        "b": [1, {"c": "[REDACTED:custom]"}],
    }
    assert dict(found.counts) == {"custom": 2}


def test_nothing_is_touched_where_redaction_is_switched_off() -> None:
    redactor = Redactor(RedactionSettings(dangerously_skip_secret_redaction=True))
    text = f"password=hunter2 {TOKENS['github-token']}"
    assert redactor.redact(text) == Redacted(text, {})
    assert redactor.redact_json(text) == Redacted(text, {})
