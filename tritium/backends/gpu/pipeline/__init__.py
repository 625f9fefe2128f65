"""Loops that overlap copies with computation: software pipelining and warp specialization."""
