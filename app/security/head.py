"""HEAD for every address that answers GET: the same status and headers, no body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOT_TAKEN = 405


def answer_head(app: ASGIApp) -> ASGIApp:
    """An ASGI middleware: where an address has no HEAD of its own, it is answered as GET is, and ends when
    the headers are known."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await app(scope, receive, send)
            return
        if await own_answer(app, scope, receive, send):
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


async def own_answer(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> bool:
    """Whether the address has a HEAD of its own; it is sent then."""
    taken: list[Message] = []

    async def hold(message: Message) -> None:
        taken.append(message)

    await app(dict(scope), receive, hold)
    if not taken or taken[0].get("status") == NOT_TAKEN:
        return False
    for message in taken:
        await send(message)
    return True
