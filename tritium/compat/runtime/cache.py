"""The disk cache, where Triton's users look for it; it lives in `tritium.cache`, below the backends that use it too.

    >>> stats().misses >= 0
    True
"""

from tritium import knobs
from tritium.cache import (
    CacheManager,
    CacheStats,
    FileCacheManager,
    RedisRemoteCacheBackend,
    RemoteCacheBackend,
    RemoteCacheManager,
    get_cache_manager,
    get_dump_manager,
    get_override_manager,
    reset_stats,
    stats,
)
from tritium.cache import base32 as _base32  # PyTorch finds the folders of compiled kernels with it
from tritium.cache import fingerprint as triton_key

__all__ = [
    "CacheManager", "CacheStats", "FileCacheManager", "RedisRemoteCacheBackend", "RemoteCacheBackend",
    "RemoteCacheManager", "_base32", "get_cache_manager", "get_dump_manager", "get_override_manager", "knobs",
    "reset_stats", "stats", "triton_key",
]  # fmt: skip
