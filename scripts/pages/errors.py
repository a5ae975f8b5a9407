"""The page of all errors: codes, and how each reaches a caller."""

from collections.abc import Iterator

from cortex import errors
from cortex.edge.wire import jsonrpc_code
from cortex.errors import CortexError
from cortex.gateway.spec import Failure
from pages.markdown import NOTICE, table

INTRO = """\
Every error of a call carries the same object, in the `data` of a JSON-RPC error or in the
`structuredContent` of a result with `isError: true`; `cortex call` prints the same:

```json
{"error": {"code": "not_found", "message": "Unknown tool: nope", "details": {"kind": "tool"}}}
```

`details` says which field and what would be accepted (`issues`), which gate refused (`gate`) and
what an operator can do (`hint`), or when to come back (`retryAfterMs`). It never holds what was
sent, a secret, a stack trace, or the text of an exception that is not ours."""


def errors_page() -> str:
    """Every code, and the errors that carry it."""
    by_code: dict[str, list[type[CortexError]]] = {}
    for error in _leaves():
        by_code.setdefault(error.code, []).append(error)
    rows = [
        (
            f"`{code}`",
            " ".join(" ".join((error.__doc__ or "").split()) for error in kinds),
            _shape(kinds[0], "result"),
            _shape(kinds[0], "protocol"),
            "yes" if any(error.retryable for error in kinds) else "no",
        )
        for code, kinds in sorted(by_code.items())
    ]
    head = (
        "code",
        "what happened",
        "conversations, operations",
        "code, memory",
        "may work later",
    )
    return "\n\n".join(["# Errors", NOTICE, INTRO, table(head, rows)]) + "\n"


def _leaves() -> Iterator[type[CortexError]]:
    for name in sorted(vars(errors)):
        value = vars(errors)[name]
        if isinstance(value, type) and issubclass(value, CortexError) and value is not CortexError:
            yield value


def _shape(error: type[CortexError], failure: Failure) -> str:
    # An error by its class alone: the map looks at nothing but the code.
    code = jsonrpc_code(error.__new__(error), failure)
    return "result, `isError: true`" if code is None else f"JSON-RPC {code}"
