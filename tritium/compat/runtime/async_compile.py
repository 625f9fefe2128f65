"""Compiling in the background, where users of launches look for it."""

from tritium.compiler.background import AsyncCompileMode, FutureKernel, active_mode

__all__ = ["AsyncCompileMode", "FutureKernel", "active_mode"]
