"""What a secret looks like: the shapes that issuers give theirs, and values named as secret.

Every quantifier is bounded or possessive, so no text takes more than linear time.
"""

import math
import re
from collections import Counter

# One group for each issuer; the name of the group is the name of the rule.
TOKEN = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      (?P<aws_access_key>(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9]))
    | (?P<gcp_api_key>AIza[\w-]{35}(?![\w-]))
    | (?P<gcp_oauth_token>ya29\.[\w-]{20,1024}+|GOCSPX-[\w-]{28})
    | (?P<github_token>gh[pousr]_[A-Za-z0-9]{36,255}+|github_pat_\w{22,255}+)
    | (?P<gitlab_token>gl(?:pat|dt|rt|ft|soat|ptt|cbt|agent)-[\w-]{20,128}+)
    | (?P<slack_token>(?:xox[abeoprs]-|xapp-\d-)[A-Za-z0-9-]{10,255}+)
    | (?P<stripe_key>(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,255}+)
    | (?P<anthropic_key>sk-ant-[\w-]{20,255}+)
    | (?P<openai_key>sk-(?:proj-|svcacct-|admin-|None-)[\w-]{20,255}+|sk-[A-Za-z0-9]{32,64}+)
    | (?P<huggingface_token>(?:hf_|api_org_)[A-Za-z0-9]{30,64}+)
    | (?P<npm_token>npm_[A-Za-z0-9]{36,64}+)
    | (?P<pypi_token>pypi-[\w-]{50,1024}+)
    | (?P<sendgrid_key>SG\.[\w-]{16,32}+\.[\w-]{32,64}+)
    | (?P<discord_token>[MNO][\w-]{23,27}+\.[\w-]{6,7}+\.[\w-]{27,64}+)
    | (?P<digitalocean_token>do[opr]_v1_[a-f0-9]{64})
    | (?P<databricks_token>dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9]))
    | (?P<docker_token>dckr_(?:pat|oat)_[\w-]{24,64}+)
    | (?P<linear_key>lin_(?:api|oauth)_[A-Za-z0-9]{32,64}+)
    | (?P<notion_token>(?:secret_|ntn_)[A-Za-z0-9]{40,64}+)
    | (?P<jwt>eyJ[\w-]{10,8192}+\.eyJ[\w-]{8,8192}+\.[\w-]{0,8192}+)
    )""",
    re.VERBOSE | re.ASCII,
)
# What a long unbroken text must contain before TOKEN is tried on it.
TOKEN_BEGINNINGS = tuple(
    b"AKIA ASIA ABIA ACCA AIza GOCSPX- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- "
    b"glft- glsoat- glptt- glcbt- glagent- xox xapp- k_live_ k_test_ whsec_ sk- hf_ api_org_ npm_ "
    b"pypi- _v1_ dapi dckr_ lin_ secret_ ntn_ ya29. SG. .eyJ".split()
)
_PEM_NAME = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
# Lines as they are, or escaped in JSON. Cut before its end, only what is surely key is taken.
PEM = re.compile(
    rf"-----BEGIN {_PEM_NAME}"
    rf"(?:(?:[A-Za-z0-9+/=:,.\s]|-(?!-)|\\{{1,8}}[nrt/]){{0,65536}}+-----END {_PEM_NAME}"
    r"|(?:(?:\s|\\{1,8}[nrt]){0,8}+[A-Za-z0-9+/=]{16,128}+){1,2048}+)"
)
URL_PASSWORD = re.compile(r"://[^\s/:@\"'\\<>]{0,128}+:(?P<value>[^\s/@\"'\\<>]{1,256}+)@")

# What follows a name that promises a secret: how it is assigned, and the value.
ASSIGNED = re.compile(
    r"""(?P<key_quote>\\{0,8}["'`])?\]?[ \t]{0,16}+
    (?::[ \t]{0,4}[A-Za-z_][\w\[\].|]{0,40}[ \t]{0,4}=(?!=)|(?P<sign>=>|:=|={1,3}|:))
    (?P<gap>[ \t]{0,16}+)
    (?:[rbu]{0,2}(?P<quote>\\{0,8}["'`])(?![,:}\]])(?P<quoted>[^\s"'`\\]{3,128}+)(?!\s)
    |(?P<bare>[^\s"'`\\,;<>(){}\[\]&|]{4,128}+))""",
    re.VERBOSE | re.ASCII,
)
_QUOTED_REST = re.compile(r"[^\s\"'`\\]{0,8192}+")
_BARE_REST = re.compile(r"[^\s\"'`\\,;<>(){}\[\]&|]{0,8192}+")
_PLACEHOLDER = re.compile(
    r"\$[\w{(]|<|\{|%[sd({]|\[|\*{3}|\.{3}|[/~.]|x{3,}|https?:|your|example|changeme|placeholder"
    r"|(?:string|str|null|none|nil|undefined|true|false|password|passwd|pass|secret|token|key|hidden"
    r"|optional|required|redacted|dummy)$",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PIECES = re.compile(r"[A-Za-z0-9]{8,}+")
_TURNS = re.compile(r"[A-Za-z][0-9]|[0-9](?=[A-Za-z])")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_PASSWORD_PARTS = frozenset(("password", "passwd", "pwd", "pass", "passphrase"))
_KEY_PARTS = frozenset(("key", "apikey", "token", "secret", "auth", "authorization", "access"))
_SECRET_PARTS = _PASSWORD_PARTS | _KEY_PARTS | {"credential", "credentials", "creds", "sig"}
SECRET_BEGINNINGS = ("key", "token", "secret", "pass", "pwd", "cred", "auth", "access", "sig")
_STRONG_PARTS = frozenset(("apikey", "token", "secret", "password", "passwd", "pwd", "api", "auth"))
# A name with one of these names something that points at a secret, or at nothing secret.
_HASH_PARTS = frozenset(("cache", "hash", "sha", "commit", "digest", "fingerprint", "version"))
_PLACE_PARTS = frozenset(("path", "file", "name", "type", "count", "index", "id", "ids"))
_HARMLESS_PARTS = _HASH_PARTS | _PLACE_PARTS | {"public", "pub", "primary", "foreign", "sort"}


def entropy(value: str) -> float:
    """Return Shannon's entropy in bits for each character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


def looks_random(value: str) -> bool:
    """Say whether letters and digits alternate as nobody writes them; names and paths do not."""
    if _UUID.fullmatch(value) or _DATE.match(value):
        return False
    return any(
        len(_TURNS.findall(piece)) >= 3 and entropy(piece) >= 2.5
        for piece in _PIECES.findall(value)
    )


def is_password(value: str, *, is_quoted: bool, is_environment: bool, is_code: bool) -> bool:
    """Say whether what is assigned to a password is one, not a variable, type or placeholder."""
    if _PLACEHOLDER.match(value):
        return False
    if is_quoted:
        return len(value) >= 4
    if is_environment:
        return not (value.isupper() and value.replace("_", "").isalpha())
    is_name = _IDENTIFIER.fullmatch(value) is not None
    if is_code and is_name:
        return looks_random(value)
    return len(value) >= 6 and not (is_name and not any(c.isdigit() for c in value))


def is_secret(value: str, *, is_code: bool) -> bool:
    """Say whether what is assigned to a token, key or secret is one: words are not, mixtures are.

    UUIDs name things more often than they open them, and stay.
    """
    if len(value) < 8 or _PLACEHOLDER.match(value) or _UUID.fullmatch(value) or _DATE.match(value):
        return False
    if is_code and _IDENTIFIER.fullmatch(value):
        return looks_random(value)
    has_letter = any(c.isalpha() for c in value)
    if has_letter and any(c.isdigit() for c in value):
        is_path = "." in value and _IDENTIFIER.fullmatch(value) is not None
        return not is_path or looks_random(value)
    return len(value) >= 20 and has_letter and value.lower() != value and entropy(value) > 4.0


def end_of_value(text: str, place: int, *, is_quoted: bool) -> int:
    """Return where a value ends of which only the beginning was judged."""
    rest = (_QUOTED_REST if is_quoted else _BARE_REST).match(text, place)
    return rest.end() if rest else place


def named_secret(name: str, value: str) -> bool:
    """Say whether a long value is secret by its name and its disorder."""
    lower = name.lower()
    if len(value) < 20 or not any(part in lower for part in SECRET_BEGINNINGS):
        return False
    parts = name_parts(name)
    if not parts & _SECRET_PARTS or not looks_random(value):
        return False
    if parts & _HARMLESS_PARTS and not parts & {"secret", "password"}:
        return False
    if _HEX.fullmatch(value):
        # A lone `key` of hex is a hash that finds something in a cache.
        return bool(parts & _STRONG_PARTS) and entropy(value) > 3.0
    return entropy(value) > 3.5


def name_parts(name: str) -> frozenset[str]:
    """Return the words of an identifier, in whichever style it is written."""
    return frozenset(part.lower() for part in _NAME_PARTS.findall(name))


def rule_of(name: str, *, is_password: bool) -> str:
    """Return the rule that a secret of this name is counted under."""
    parts = name_parts(name)
    if {"secret", "access", "key"} <= parts or {"aws", "secret"} <= parts:
        return "aws-secret-key"
    if parts & {"accountkey", "sig"} or {"account", "key"} <= parts:
        return "azure-key"
    return "password" if is_password else "secret"
