"""Parse spans of time."""

from __future__ import annotations

import datetime as dt
import re

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def time_span(text: object) -> dt.timedelta | None:
    """The span of a text such as "7d", in seconds, minutes, hours, days or weeks; None for any other text.

    >>> time_span("12h"), time_span("soon")
    (datetime.timedelta(seconds=43200), None)
    """
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text) if isinstance(text, str) else None
    if found is None or not int(found[1]):
        return None
    return dt.timedelta(**{_UNITS[found[2]]: int(found[1])})
