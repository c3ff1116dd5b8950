"""Where the server is, and how to prove that one may use it."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Dict, Optional
from urllib.parse import urlsplit

from ._version import __version__

_DEFAULT = "http://127.0.0.1:7070"


@dataclass(frozen=True)
class Address:
    """A server, as it was named."""

    host: str
    port: int
    #: What comes before `/v1`, for servers behind a proxy.
    prefix: str
    tls: Optional[ssl.SSLContext] = field(repr=False)
    token: Optional[str] = field(repr=False)

    @classmethod
    def parse(cls, url: Optional[str], token: Optional[str], ca_file: Optional[str]) -> Address:
        """Reads an address; what is not given is taken from WINDLASS_SERVER and WINDLASS_TOKEN."""
        text = url or os.environ.get("WINDLASS_SERVER") or _DEFAULT
        token = token or os.environ.get("WINDLASS_TOKEN") or None
        wanted = f"expected http://HOST:PORT or https://HOST:PORT, but the server's address is {text!r}"
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(wanted)
        try:
            port = parts.port
        except ValueError:
            raise ValueError(wanted) from None
        tls = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        if ca_file is not None and tls is None:
            raise ValueError(f"a CA file is of use with https:// only, and the server's address is {text!r}")
        return cls(parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"), tls, token)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"

    @property
    def authority(self) -> str:
        """What the header `Host` says."""
        return str(self).split("//", 1)[1].split("/", 1)[0]

    def headers(self) -> Dict[str, str]:
        """What every request says."""
        headers = {"user-agent": f"windlass-python/{__version__}", "accept": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        return headers
