"""Amounts as people read them."""

from __future__ import annotations


def amount(n: float) -> str:
    """A count.

    >>> amount(950), amount(2_147_483_648)
    ('950', '2.15 G')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n:.0f}"


def mean_text(x: float) -> str:
    """A count on average.

    >>> mean_text(3.984), mean_text(16.0), mean_text(1024.0)
    ('3.98', '16', '1024')
    """
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def bytes_text(n: float) -> str:
    """A number of bytes.

    >>> bytes_text(400), bytes_text(98304), bytes_text(3 << 30)
    ('400 B', '96 KiB', '3 GiB')
    """
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n < 999.5 * size else f"{n / size:.0f} {unit}"
    return f"{n:.0f} B"


def time_text(seconds: float) -> str:
    """A time.

    >>> time_text(2.5e-6), time_text(0.00076), time_text(3.2e-9)
    ('2.5 us', '760 us', '3.2 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def share(x: float) -> str:
    """A part of a whole.

    >>> share(0.256), share(0.004)
    ('26 %', '0.4 %')
    """
    return f"{x:.0%}".replace("%", " %") if x >= 0.01 else f"{x:.1%}".replace("%", " %")
