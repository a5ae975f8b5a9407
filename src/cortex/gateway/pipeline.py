"""The one way to run a tool: resolve, authorise, limit, validate, cache, run, check, audit.

The order is fixed by docs/architecture.md. Every call leaves an audit record, refusals included.
"""

import logging
from dataclasses import dataclass

import anyio
from opentelemetry import trace
from pydantic import ValidationError

from cortex.clock import Clock, IdSource
from cortex.errors import (
    CortexError,
    DeadlineExceeded,
    InternalError,
    InvalidParams,
    SizeLimitExceeded,
)
from cortex.gateway import arguments
from cortex.gateway.audit import CANCELLED, SUCCESS, AuditTrail, CallFacts, digest_of
from cortex.gateway.cache import Generations, ResultCache
from cortex.gateway.limits import RateLimiter
from cortex.gateway.policy import Authorizer
from cortex.gateway.registry import ToolRegistry
from cortex.gateway.spec import Caller, Params, RateLimit, Result, ToolCall, ToolSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What holds for a tool that declares nothing else."""

    rate: RateLimit
    timeout_s: float
    max_input_bytes: int
    max_result_bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's result and how it came about."""

    result: Result
    call_id: str
    duration_ms: float
    cached: bool


class Pipeline:
    """Runs calls. Its parts are passed in; it holds no state of its own."""

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        authorizer: Authorizer,
        limiter: RateLimiter,
        cache: ResultCache,
        generations: Generations,
        audit: AuditTrail,
        limits: Limits,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self.registry = registry
        self.limits = limits
        self._authorizer = authorizer
        self._limiter = limiter
        self._cache = cache
        self._generations = generations
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._tracer = trace.get_tracer("cortex.gateway")
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """How many calls run at this moment."""
        return self._in_flight

    async def call(
        self, name: str, raw: object, caller: Caller, *, refusal: CortexError | None = None
    ) -> Answer:
        """Run one call to its end and return its answer, or raise the `CortexError` it ended in.

        A call whose frame was refused before it got here comes with that `refusal`, for the record.
        """
        facts = CallFacts(self._ids.new(), name, caller, digest_of(raw))
        started = self._clock.monotonic()
        code, cached = InternalError.code, False
        self._in_flight += 1
        with self._tracer.start_as_current_span(
            "cortex.call",
            attributes={"cortex.tool": name[:128], "cortex.call_id": facts.call_id},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result, cached = await self._answer(facts, raw, caller, refusal)
                code = SUCCESS
            except CortexError as error:
                code = error.code
                if code != InternalError.code:
                    raise
                raise self._fault(facts, error) from error
            except anyio.get_cancelled_exc_class():
                code = CANCELLED
                raise
            except Exception as error:
                raise self._fault(facts, error) from error
            finally:
                self._in_flight -= 1
                duration_ms = (self._clock.monotonic() - started) * 1000
                span.set_attributes({"cortex.code": code, "cortex.cached": cached})
                # A caller that went away does not take the record of its call along.
                with anyio.CancelScope(shield=True):
                    await self._audit.outcome(
                        facts, code=code, duration_ms=duration_ms, cached=cached
                    )
        return Answer(result, facts.call_id, duration_ms, cached)

    def _fault(self, facts: CallFacts, error: Exception) -> InternalError:
        """Keep a fault of ours whole in the log; the caller gets its number only."""
        log.error("call %s of %s failed", facts.call_id, facts.tool[:128], exc_info=error)
        return InternalError(facts.call_id)

    async def _answer(
        self, facts: CallFacts, raw: object, caller: Caller, refusal: CortexError | None
    ) -> tuple[Result, bool]:
        if refusal is not None:
            raise refusal
        spec = self.registry.get(facts.tool)
        self._authorizer.authorise(spec, caller)
        await self._limiter.hit(caller.principal, spec.name, spec.policy.limit or self.limits.rate)
        params = self._validate(spec, raw)
        call = ToolCall(facts.call_id, spec.name, caller)
        if spec.policy.cache is not None:
            return await self._cached(spec, params, call, ttl_s=spec.policy.cache.ttl_s)
        if spec.policy.mutates:
            await self._audit.intent(facts, spec, params)
            try:
                return (await self._run(spec, params, call))[0], False
            finally:
                # Also after a failure: half a change is a change.
                self._generations.bump([spec.toolset])
        return (await self._run(spec, params, call))[0], False

    def _validate(self, spec: ToolSpec, raw: object) -> Params:
        max_bytes = spec.policy.max_input_bytes or self.limits.max_input_bytes
        try:
            size_bytes = arguments.size_bytes(raw)
        except RecursionError:
            raise InvalidParams("Arguments are nested too deeply") from None
        if size_bytes > max_bytes:
            raise SizeLimitExceeded(
                f"The arguments of {spec.name}", size_bytes=size_bytes, max_bytes=max_bytes
            )
        return arguments.validate(spec.params, raw)

    async def _cached(
        self, spec: ToolSpec, params: Params, call: ToolCall, *, ttl_s: float
    ) -> tuple[Result, bool]:
        generation = self._generations.of(spec.toolset)
        key = self._cache.key(spec, params, call.caller, generation)
        known = self._cache.get(key)
        if known is not None:
            return known, True
        result, size_bytes = await self._run(spec, params, call)
        if generation == self._generations.of(spec.toolset):
            self._cache.put(key, result, ttl_s=ttl_s, size_bytes=size_bytes)
        return result, False

    async def _run(self, spec: ToolSpec, params: Params, call: ToolCall) -> tuple[Result, int]:
        timeout_s = spec.policy.timeout_s or self.limits.timeout_s
        with anyio.move_on_after(timeout_s):
            return self._checked(spec, await spec.handler(params, call))
        raise DeadlineExceeded(spec.name, timeout_s=timeout_s)

    def _checked(self, spec: ToolSpec, result: Result) -> tuple[Result, int]:
        try:
            checked = spec.result.model_validate(result)
        except ValidationError as error:
            raise RuntimeError(f"{spec.name} broke its result schema") from error
        size_bytes = arguments.size_bytes(checked.to_data())
        if size_bytes > self.limits.max_result_bytes:
            raise SizeLimitExceeded(
                f"The result of {spec.name}",
                size_bytes=size_bytes,
                max_bytes=self.limits.max_result_bytes,
            )
        return checked, size_bytes
