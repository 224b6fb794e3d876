"""The gRPC contract: generated stubs, lint, and changes that would break existing clients.

    python -m contracts.protos             lint, and compare with the baseline (exit 1 if something is found)
    python -m contracts.protos accept      write the baseline anew; refused while something breaks
    python -m contracts.protos accept --breaking    the same, knowing that clients will have to change

The baseline is a committed image of what was promised last: it needs neither a network nor the history of git.
Stubs are written by contracts.generate, like everything that is generated.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from contracts.proto_page import reference_page
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto

ROOT = Path(__file__).parents[1]
PROTOS = ROOT / "contracts" / "proto"
BASELINE = PROTOS / "baseline.binpb"
PACKAGE = Path("libs/slackwater/v1")
"""Where the stubs are kept: beside the libraries, so that a wheel has them and a client needs only the package."""
PAGE = Path("docs/reference/grpc.md")
FRONT_DOOR = '''"""The messages and the client of the gRPC API, generated from contracts/proto by contracts/generate.py.

Nothing here is written by hand, and nothing but edges and clients should import it.
"""
'''
PLUGINS_DOOR = '''"""Contracts of plugins of a node, generated from contracts/proto by contracts/generate.py."""
'''


def stubs() -> Mapping[Path, str]:
    """Every file of the package, and the reference page, with its text; by path below the root of the checkout."""
    from grpc_tools import protoc  # type: ignore[import-untyped]  # it has no annotations

    sources = sorted(PROTOS.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        known = Path(protoc.__file__).parent / "_proto"
        image = f"{scratch}/image.binpb"
        options = [f"-I{PROTOS}", f"-I{known}", f"--python_out={scratch}", f"--pyi_out={scratch}"]
        with_services = [str(source) for source in sources if "\nservice " in source.read_text()]
        _compile(
            protoc,
            [
                *options,
                "--include_imports",
                "--include_source_info",
                f"--descriptor_set_out={image}",
                *map(str, sources),
            ],
        )
        _compile(protoc, [*options[:2], f"--grpc_python_out={scratch}", *with_services])
        folder = Path(scratch, "slackwater/v1")
        written = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py*")}
        described = FileDescriptorSet.FromString(Path(image).read_bytes())
    typed = {_stub_name(file): typed_stub(file) for file in described.file if file.service}
    doors = {"__init__.py": FRONT_DOOR, "plugins/__init__.py": PLUGINS_DOOR}
    package = {PACKAGE / name: text for name, text in sorted({**doors, **written, **typed}.items())}
    return {**package, PAGE: reference_page(list(described.file))}


def _compile(protoc: object, arguments: list[str]) -> None:
    status = protoc.main(["protoc", *arguments])  # type: ignore[attr-defined]  # a module without annotations
    if status != 0:
        raise SystemExit(f"protoc found errors in {PROTOS} (see above)")


def typed_stub(file: FileDescriptorProto) -> str:
    """What grpcio-tools leaves out: the types of the client and the server of a file's services."""
    folder, _, name = file.name.removesuffix(".proto").rpartition("/")
    messages = f"{name}_pb2"
    lines = ["import grpc", "import grpc.aio", "from collections.abc import AsyncIterator, Awaitable", ""]
    lines += [f"from {folder.replace('/', '.')} import {messages}", ""]
    for service in file.service:
        lines += [f"class {service.name}Stub:", "    def __init__(self, channel: grpc.aio.Channel) -> None: ..."]
        lines += [f"    {method.name}: {_callable(method, messages)}" for method in service.method]
        lines += ["", f"class {service.name}Servicer:"]
        lines += [line for method in service.method for line in _served(method, messages)]
        lines += [
            "",
            f"def add_{service.name}Servicer_to_server(",
            f"    servicer: {service.name}Servicer, server: grpc.aio.Server",
            ") -> None: ...",
        ]
    return "\n".join(lines) + "\n"


def _callable(method: MethodDescriptorProto, messages: str) -> str:
    kind = f"{'Stream' if method.client_streaming else 'Unary'}{'Stream' if method.server_streaming else 'Unary'}"
    return f"grpc.aio.{kind}MultiCallable[{_types(method, messages)}]"


def _served(method: MethodDescriptorProto, messages: str) -> Iterator[str]:
    request, _, response = _types(method, messages).partition(", ")
    given = f"AsyncIterator[{request}]" if method.client_streaming else request
    answer = "None" if method.server_streaming else response
    yield f"    def {method.name}("
    yield f"        self, request: {given}, context: grpc.aio.ServicerContext[{request}, {response}]"
    yield f"    ) -> Awaitable[{answer}]: ..."


def _types(method: MethodDescriptorProto, messages: str) -> str:
    names = (method.input_type, method.output_type)
    return ", ".join(f"{messages}.{name.rpartition('.')[2]}" for name in names)


def _stub_name(file: FileDescriptorProto) -> str:
    return file.name.removesuffix(".proto").removeprefix("slackwater/v1/") + "_pb2_grpc.pyi"


def buf(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run buf (of the buf-bin wheel) without a network, from the root of the checkout."""
    program = Path(sys.executable).with_name("buf")
    with tempfile.TemporaryDirectory() as scratch:
        environment = {"PATH": os.defpath, "HOME": scratch, "BUF_CACHE_DIR": scratch}
        command = [str(program), *arguments]
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def lint(module: Path = PROTOS) -> list[str]:
    """One line per rule broken."""
    return _findings(buf("lint", str(module)))


def breaks(module: Path = PROTOS, baseline: Path = BASELINE) -> list[str]:
    """Returns one line per change that would break a client of the baseline."""
    return _findings(buf("breaking", str(module), "--against", str(baseline)))


def _findings(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [] if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()


def build(module: Path, image: Path) -> list[str]:
    """Write the image of a module; returns what went wrong."""
    return _findings(buf("build", str(module), "--exclude-source-info", "-o", str(image)))


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0 nothing found, 1 something found or refused."""
    found = lint()
    if "accept" in arguments:
        found += [] if "--breaking" in arguments else breaks()
        found = found or build(PROTOS, BASELINE)
    else:
        found += breaks()
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
