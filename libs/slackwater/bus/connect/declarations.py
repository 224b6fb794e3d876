"""What one bus declares in the broker: streams and consumers, at the start and after a loss, and replicas when the
cluster grows.
"""

from __future__ import annotations

from contextlib import suppress

from nats.aio.client import Client
from nats.js import JetStreamContext

from slackwater.bus.admin.stream_setup import declare, wanted_replicas
from slackwater.bus.admin.streams import Topology
from slackwater.bus.connect.nats_client import is_clustered
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class Declarations:
    """`setting` is the number of replicas; None leaves it to the cluster. With `declares=False` another process
    declares.
    """

    def __init__(
        self, client: Client, js: JetStreamContext, topology: Topology, setting: int | None, *, declares: bool
    ) -> None:
        self._client = client
        self._js = js
        self._topology = topology
        self._setting = setting
        self._replicas = 0
        self.declares = declares

    async def declare(self) -> None:
        """Create or update every stream and consumer of the topology. Raises Unavailable, Misconfigured."""
        self._replicas = await declare(self._js, self._topology, self._wanted())

    async def grow(self) -> None:
        """Declare the streams again if they have fewer replicas than the cluster may have room for by now."""
        if self.declares and self._replicas < self._wanted()[0] and self._client.is_connected:
            await self.declare()

    async def restore(self) -> None:
        """Declare again what the broker lost. A failure needs an operator and is logged; it must not end the reader
        that noticed it.
        """
        with suppress(Unavailable):
            try:
                await self.declare()
            except Misconfigured as error:
                log.error("streams cannot be declared", reason=error.message)

    def _wanted(self) -> tuple[int, ...]:
        return wanted_replicas(self._setting, clustered=is_clustered(self._client))
