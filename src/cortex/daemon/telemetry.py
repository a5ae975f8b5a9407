"""Traces: exported where an OTLP endpoint is configured, else nothing is set up at all."""

from collections.abc import Callable

from cortex.settings.models import TelemetrySettings
from cortex.version import __version__


def configure_traces(settings: TelemetrySettings) -> Callable[[], None]:
    """Set up the exporter if there is an endpoint; returns what flushes and stops it."""
    if not settings.otlp_endpoint:
        return lambda: None
    # Loaded only here: most daemons export nothing, and the exporter is 20 MB of modules.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    resource = Resource.create(
        {"service.name": settings.service_name, "service.version": __version__}
    )
    provider = TracerProvider(resource=resource)
    endpoint = settings.otlp_endpoint.rstrip("/") + "/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    trace.set_tracer_provider(provider)
    return provider.shutdown
