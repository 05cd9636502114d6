"""Identifiers: short, safe in a URL; random, or derived where a retry must find the same one."""

import hashlib
import secrets

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """Sixteen random characters (80 bits) of Crockford's base 32."""
    return "".join(secrets.choice(ALPHABET) for _ in range(16))


def derived_id(*parts: object) -> str:
    """Sixteen characters that depend on the parts alone."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return "".join(ALPHABET[byte % 32] for byte in digest[:16])
