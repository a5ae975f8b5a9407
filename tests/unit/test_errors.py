from cortex.errors import (
    CortexError,
    DeadlineExceeded,
    GateClosed,
    InternalError,
    InvalidParams,
    NotFound,
    RateLimited,
    SizeLimitExceeded,
    Unavailable,
)


def test_the_text_of_an_error_is_one_line_with_its_hint() -> None:
    assert str(Unavailable("the disk is full", hint="free some")) == "the disk is full (free some)"
    assert str(Unavailable("the disk is full")) == "the disk is full"


def test_a_hint_travels_in_the_details_unless_they_have_one() -> None:
    assert CortexError("m", hint="h").details == {"hint": "h"}
    assert CortexError("m", hint="h", details={"hint": "other"}).details == {"hint": "other"}
    assert CortexError("m").details == {}


def test_details_are_a_copy_of_what_was_given() -> None:
    given: dict[str, object] = {"a": 1}
    error = CortexError("m", details=given)
    given["a"] = 2
    assert error.details == {"a": 1}


def test_an_internal_error_tells_its_number_and_nothing_else() -> None:
    error = InternalError("id-7")
    assert (error.code, error.details) == ("internal_error", {"correlationId": "id-7"})


def test_invalid_params_list_their_issues_if_there_are_any() -> None:
    assert InvalidParams("m").details == {}
    issue = {"path": "limit", "message": "too many"}
    assert InvalidParams("m", issues=[issue]).details == {"issues": [issue]}


def test_a_closed_gate_names_tool_gate_and_reason() -> None:
    error = GateClosed("t", "system.read", reason="no", hint="ask")
    assert error.message == "t is not allowed: no"
    assert error.details == {"tool": "t", "gate": "system.read", "hint": "ask"}


def test_not_found_lists_what_is_known_when_that_helps() -> None:
    assert NotFound("tool", "x").details == {"kind": "tool", "name": "x"}
    assert NotFound("toolset", "x", known=["a", "b"]).details["known"] == ["a", "b"]


def test_limits_say_what_was_measured_and_what_is_allowed() -> None:
    size = SizeLimitExceeded("The line", size_bytes=11, max_bytes=10)
    assert size.message == "The line is 11 bytes; at most 10 are accepted"
    assert size.details == {"sizeBytes": 11, "maxBytes": 10}
    rate = RateLimited("t", calls=50, window_s=10.0, retry_after_ms=7)
    assert rate.message == "Too many calls of t: at most 50 in 10 s"
    assert rate.details == {"tool": "t", "retryAfterMs": 7}
    deadline = DeadlineExceeded("t", timeout_s=0.25)
    assert deadline.message == "t was stopped after 0.25 s"
    assert deadline.details == {"timeoutMs": 250}


def test_only_what_may_work_later_is_called_retryable() -> None:
    assert Unavailable("m").retryable
    assert DeadlineExceeded("t", timeout_s=1).retryable
    assert not InvalidParams("m").retryable
