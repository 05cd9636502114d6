"""Numbers, sizes and times as a person reads them. Three significant digits; what is absent is a dash."""

import math
import time

MINUS = "\u2212"
ABSENT = "–"


def number(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits with a real minus sign; |x| < 1e-12 is 0; None is a dash, NaN stays NaN."""
    if value is None:
        return ABSENT
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if abs(value) < 1e-12:
        return "0"
    if value == int(value) and abs(value) < 1e6:
        return integer(int(value))
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude >= 6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{_trim(mantissa)}e{int(exponent)}".replace("-", MINUS)
    return _trim(f"{value:.{max(0, digits - 1 - magnitude)}f}").replace("-", MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """Like `number`, with a plus sign where it is positive."""
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 and text != "0" else text


def integer(value: int | None) -> str:
    """Thousands apart by a narrow no-break space."""
    return ABSENT if value is None else f"{value:,}".replace(",", "\u202f").replace("-", MINUS)


def percent(part: float | None, whole: float | None = 1.0) -> str:
    """A share in per cent; a dash where there is nothing to share, or where it is no number."""
    if part is None or not whole:
        return ABSENT
    share = 100.0 * part / whole
    if not math.isfinite(share):
        return ABSENT
    return f"{share:.0f} %" if share >= 10 or share == int(share) else f"{share:.1f} %"


def size(count: int | None) -> str:
    """Bytes in binary units."""
    if count is None:
        return ABSENT
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float | None) -> str:
    """How long something took."""
    if seconds is None:
        return ABSENT
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def ago(moment: float | None, now: float | None = None) -> str:
    """How long before now a Unix time was, in the largest unit that is at least one."""
    if moment is None:
        return ABSENT
    seconds = max(0.0, (time.time() if now is None else now) - moment)
    if seconds < 45:
        return "just now"
    for unit, width in (("min", 60), ("h", 3600), ("day", 86400), ("month", 2629800), ("year", 31557600)):
        following = {"min": 3600, "h": 86400, "day": 2629800, "month": 31557600}.get(unit)
        if following is None or seconds < 0.9 * following:
            count = max(1, round(seconds / width))
            return f"{count} {unit}{'s' if count > 1 and unit in ('day', 'month', 'year') else ''} ago"
    return ABSENT


def iso(moment: float | None) -> str:
    """A Unix time as ISO 8601 in UTC, for the `datetime` attribute."""
    return "" if moment is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def plural(count: int, singular: str, several: str | None = None) -> str:
    """`1 group`, `3 groups`."""
    return f"{integer(count)} {singular if count == 1 else several or singular + 's'}"


def _trim(text: str) -> str:
    """Without zeros that say nothing: 1.50 is 1.5, 2.00 is 2."""
    return text.rstrip("0").rstrip(".") if "." in text else text
