"""Where batch work may go now, and what happens to it: `python examples/place_work.py` (SLACKWATER_SERVER: where)."""

from slackwater.client import Client

with Client() as client:
    now = {node.name: {c.type for c in node.conditions if c.status == "True"} for node in client.list_nodes()}
    offers = [offer for offer in client.list_offers(degraded=False) if "SchedulingClosed" not in now[offer.node]]
    best = max(offers, key=lambda offer: offer.batch.cpu_milli)
    print(f"place on {best.node}: {best.batch.cpu_milli / 1000} cores, {best.batch.memory_bytes >> 20} MiB of batch")
    for event in client.watch_events(types=["eviction.*", "decision.recorded"], since="15m"):
        print(event.data["time"], event.data["node"], event.type)
