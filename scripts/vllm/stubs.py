"""Stand-ins for CUDA libraries that PyPI's torch is linked with and never calls on a processor. usage: stubs.py SITE_PACKAGES

The real ones take gigabytes. Each stand-in defines the symbols that torch's own libraries lack, under the versions they ask for.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

LIBRARIES = [
    "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcufft.so.12", "libcurand.so.10", "libcusolver.so.12",
    "libcusparse.so.12", "libcusparseLt.so.0", "libnccl.so.2", "libnvrtc.so.13", "libnvshmem_host.so.3",
]


def owner(symbol, version):
    """The library that a symbol torch lacks is looked for in, or None."""
    if version in LIBRARIES:
        return version
    if version == "NVSHMEM":
        return "libnvshmem_host.so.3"
    if not version and re.match(r"p?nccl[A-Z]", symbol):
        return "libnccl.so.2"
    if not version and symbol.startswith("cusparseLt"):
        return "libcusparseLt.so.0"
    return None


def lacking(folder):
    """library -> {symbol: version}, over all of torch's own libraries."""
    found = {name: {} for name in LIBRARIES}
    for library in sorted(folder.glob("*.so")):
        listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            symbol, _, version = line.split()[-1].partition("@")
            version = version.lstrip("@")
            name = owner(symbol, version)
            if name:
                found[name][symbol] = version
    return found


def build(folder, name, symbols):
    with tempfile.TemporaryDirectory() as scratch:
        code, versions = pathlib.Path(scratch, "stub.c"), pathlib.Path(scratch, "versions.map")
        code.write_text("".join(f"int {symbol}(void) {{ return 1; }}\n" for symbol in symbols) or "int nothing;\n")
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{name}", "-o", folder / name, code]
        named = sorted(set(symbols.values()) - {""})
        if named:
            versions.write_text("".join("%s { global: %s; };\n" % (v, "; ".join(s for s in symbols if symbols[s] == v)) for v in named))
            command.append(f"-Wl,--version-script={versions}")
        subprocess.run(command, check=True)


torch = pathlib.Path(sys.argv[1], "torch", "lib")
for library, wanted in lacking(torch).items():
    build(torch, library, wanted)
