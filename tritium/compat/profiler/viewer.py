"""The viewer of Proton's profiles; see `tritium.profiler`."""

from ..experimental.absent import Absent
from . import INSTEAD

NAMES = ("get_min_time_bytes", "get_min_time_flops", "parse", "print_tree", "read", "show_metrics", "write_html")

__all__ = list(NAMES)

globals().update({name: Absent(f"proton.viewer.{name}", INSTEAD) for name in NAMES})
