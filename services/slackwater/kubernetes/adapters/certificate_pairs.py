"""New certificates of the webhook: slackwater.kubernetes.ports.PairIssuer."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from slackwater.kubernetes.domain.webhook_certificates import CertificatePair


class AuthorityPairs:
    """Each call makes an authority of its own, whose key is deleted with its folder."""

    async def issue(self, hosts: Sequence[str], issued_at: datetime, lifetime: timedelta) -> CertificatePair:
        return await asyncio.to_thread(_issue, hosts, issued_at, lifetime)


def _issue(hosts: Sequence[str], issued_at: datetime, lifetime: timedelta) -> CertificatePair:
    """Certificates count whole days from the machine's clock: they live at least as long as is said."""
    from slackwater.runtime.authority import Authority  # 20 MB that a service without a webhook spares

    days = math.ceil(lifetime / timedelta(days=1))
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        authority = Authority(Path(folder) / "authority", days)
        authority.issue(certificate, key, hosts, days)
        texts = authority.certificate, certificate.read_text(encoding="ascii"), key.read_text(encoding="ascii")
    return CertificatePair(*texts, issued_at, issued_at + lifetime)
