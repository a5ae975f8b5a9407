"""cortex-embed: the contract of `POST /embed` on the loopback, for us and for project-cortex."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from cortex.embedding.provider import DIMENSIONS, Mode, Provider
from cortex.errors import CortexError

HOST, PORT = "127.0.0.1", 8121
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_TEXTS = 2048


class EmbedRequest(BaseModel):
    """What is asked: texts, and whether they are questions or passages."""

    texts: Annotated[list[str], Field(max_length=MAX_TEXTS)]
    mode: Mode = "passage"


def embed_app(provider: Provider, *, max_tokens: int) -> Starlette:
    """Return the service around a provider."""

    async def root(_request: Request) -> JSONResponse:
        known = {"model": await provider.model(), "dimensions": DIMENSIONS}
        return JSONResponse({"status": "ok", **known, "max_tokens": max_tokens})

    async def model_info(_request: Request) -> JSONResponse:
        known = {"name": await provider.model(), "dimensions": DIMENSIONS}
        return JSONResponse({**known, "max_tokens": max_tokens})

    async def embed(request: Request) -> JSONResponse:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                return JSONResponse({"detail": f"at most {MAX_BODY_BYTES} bytes"}, 413)
        try:
            asked = EmbedRequest.model_validate_json(bytes(body))
        except ValidationError as error:
            return JSONResponse({"detail": _detail(error)}, 422)
        if not asked.texts:
            return JSONResponse({"embeddings": []})
        vectors = await provider.embed(asked.texts, asked.mode)
        return JSONResponse({"embeddings": vectors.tolist()})

    async def failed(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 503)

    return Starlette(
        routes=[
            Route("/", root),
            Route("/model_info", model_info),
            Route("/embed", embed, methods=["POST"]),
        ],
        exception_handlers={CortexError: failed},
    )


def _detail(error: ValidationError) -> list[dict[str, Any]]:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [
        {"loc": ["body", *item["loc"]], "msg": item["msg"], "type": item["type"]} for item in found
    ]
