"""Ask for a node over gRPC without a token, with a wrong one and with the right one; one status a line.

python caller.py HOST:PORT TOKEN
"""

from __future__ import annotations

import sys

import grpc

from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import colocation_service_pb2_grpc as stubs


def status(address: str, token: str | None) -> str:
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(address) as channel:
        try:
            stubs.ColocationServiceStub(channel).GetNode(
                api.GetNodeRequest(name="sim-01"), metadata=metadata, timeout=20
            )
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


if __name__ == "__main__":
    for shown in (None, sys.argv[2][:-1], sys.argv[2]):
        sys.stdout.write(f"{status(sys.argv[1], shown)}\n")
