"""Ids that a client makes before it sends, so that what was sent can be sent again.

They are UUIDs of version 7: the moment first, then random bits.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
import uuid

#: Bits of a workflow's id that number its tasks; the server takes them as 0.
_PLACE_BITS = 34


def _uuid7() -> int:
    moment = time.time_ns() // 1_000_000 & (1 << 48) - 1
    return moment << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)


def task_id() -> str:
    """A new id for a task. The first three of its last 34 bits are ones: no step of a workflow has such an id."""
    return str(uuid.UUID(int=_uuid7() | 0b111 << _PLACE_BITS - 3))


def workflow_id() -> str:
    """A new id for a workflow."""
    return str(uuid.UUID(int=_uuid7() >> _PLACE_BITS << _PLACE_BITS))


def worker_id() -> str:
    """A new id for a worker, `host-pid-random`: fresh at every start, and never mistaken for the one before it."""
    host = re.sub(r"[^A-Za-z0-9.-]", "", socket.gethostname())[:64] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(6)}"


def worker_secret() -> str:
    """A new secret for a worker: what proves to the server that a caller is that worker."""
    return f"wlw_{secrets.token_hex(32)}"
