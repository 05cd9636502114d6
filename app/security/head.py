"""HEAD for every address that answers GET: the same status and headers, no body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def answer_head(app: ASGIApp) -> ASGIApp:
    """An ASGI middleware: HEAD is answered as GET is, and ends when the headers are known."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await app(scope, receive, send)
            return
        started = False

        async def send_head(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def receive_head() -> Message:
            # What streams is told that nobody reads on.
            return {"type": "http.disconnect"} if started else await receive()

        await app({**scope, "method": "GET"}, receive_head, send_head)

    return answered
