"""One request seen from outside: its id, its log line, its metrics, and the answer where something
unforeseen broke."""

import re
import time
from collections.abc import Callable, Iterator

import structlog
from fastapi import Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.attempts import FAILED
from app.logs import get_logger
from storage.ids import new_id

log = get_logger("vantage.web")

REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
SECONDS = (0.005, 0.02, 0.05, 0.1, 0.3, 1.0, 5.0, 30.0)


class Metrics:
    """The counters of one process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "vantage_http_requests",
            "Answered requests.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "vantage_http_request_seconds",
            "Seconds from a request to the start of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.registry.register(FailedChecks())


class FailedChecks(Collector):
    """How often each check raised in this process."""

    def collect(self) -> Iterator[Metric]:
        name, text = "vantage_checks_failed", "Checks that raised in this process."
        counted = CounterMetricFamily(name, text, labels=("check",))
        for check, times in sorted(FAILED.items()):
            counted.add_metric((check,), times)
        yield counted


def observe(app: ASGIApp, metrics: Metrics, unforeseen: Callable[[Request], Response]) -> ASGIApp:
    """An ASGI middleware. An exception that nothing handled is logged with the request's id and answered by
    `unforeseen`, without a word of it; once an answer has begun, the connection is cut instead."""

    async def observed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request_id = request_id_of(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.perf_counter()
        status = 0

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
                count(metrics, scope, status, time.perf_counter() - started)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await app(scope, receive, send_observed)
            except Exception:
                log.exception("unforeseen error", method=scope["method"], route=route_of(scope))
                if status:
                    raise
                await unforeseen(Request(scope))(scope, receive, send_observed)

    return observed


def request_id_of(scope: Scope) -> str:
    """The caller's X-Request-Id where it is a plain word, else a new one."""
    given = Request(scope).headers.get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else new_id()


def route_of(scope: Scope) -> str:
    """The route's template, never the path: ids and share tokens belong in no metric and no log."""
    return str(getattr(scope.get("route"), "path", None) or "other")


def count(metrics: Metrics, scope: Scope, status: int, seconds: float) -> None:
    route = route_of(scope)
    metrics.requests.labels(scope["method"], route, str(status)).inc()
    metrics.seconds.labels(route).observe(seconds)
    log.info("request", method=scope["method"], route=route, status=status, ms=round(seconds * 1000, 1))
