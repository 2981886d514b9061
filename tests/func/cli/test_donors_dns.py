#!/usr/bin/python3
"""
test_donors_dns.py: "--donor dns+srv://NAME" finds donors by SRV records. The test runs in a network namespace of its own,
with a name server of its own.
"""
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

if len(sys.argv) == 1:
    os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, "-B", __file__, "inside"])

import json  # noqa: E402

from donor import donors  # noqa: E402
from tap import FOLDER, done, farpage, ok, refused, shown  # noqa: E402

SRV, A = 33, 1
NO_SUCH_NAME, FAILED = 3, 2


def labels(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


class NameServer(threading.Thread):
    """Answers from @records: {(name, type): [data, ...]}. Names below "broken" get an error."""

    def __init__(self, records):
        super().__init__(daemon=True)
        self.records = records
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.start()

    def run(self):
        while True:
            query, client = self.socket.recvfrom(512)
            self.socket.sendto(self.answer(query), client)

    def answer(self, query):
        end = query.index(b"\0", 12)
        name, at = [], 12
        while at < end:
            name.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        name = ".".join(name)
        kind = struct.unpack(">H", query[end + 1:end + 3])[0]
        found = self.records.get((name, kind), [])
        known = any(name == other for other, _ in self.records)
        status = FAILED if "broken" in name else 0 if known else NO_SUCH_NAME
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(data)) + data for data in found)
        return query[:2] + struct.pack(">HHHHH", 0x8180 | status, 1, len(found), 0, 0) + query[12:end + 5] + records


def srv(port, target):
    return struct.pack(">HHH", 10, 5, port) + labels(target)


def donors_of(*options):
    result = farpage("donors", "--json", *options)
    return [donor["donor"] for donor in json.loads(result.stdout)["donors"]] if result.returncode == 0 else shown(result)


subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
resolv = FOLDER / "resolv.conf"
resolv.write_text("nameserver 127.0.0.1\n", encoding="ascii")
subprocess.run(["mount", "--bind", resolv, Path("/etc/resolv.conf").resolve()], check=True)

lenders = donors(2, "--donate", "64M")
ports = [int(lender.uri.rsplit(":", 1)[1]) for lender in lenders]
here = socket.inet_aton("127.0.0.1")
NameServer({
    ("_farpage._tcp.rack1.example", SRV): [srv(ports[1], "two.example"), srv(ports[0], "one.example")],
    ("_farpage._tcp.empty.example", SRV): [srv(0, ".")],
    ("_farpage._tcp.text.example", 16): [b"\x04text"],
    ("one.example", A): [here],
    ("two.example", A): [here],
})
found = [f"tcp://one.example:{ports[0]}", f"tcp://two.example:{ports[1]}"]

answer = donors_of("--donor", "dns+srv://rack1.example")
ok(answer == found, "the SRV records of a name give its donors, in the order of their addresses", answer)
answer = donors_of("--donor", "dns+srv://_farpage._tcp.rack1.example")
ok(answer == found, "a name with its own service label gives the same donors", answer)
answer = donors_of("--donor", lenders[0].uri, "--donor", "dns+srv://rack1.example")
ok(answer == [lenders[0].uri] + found, "donors of DNS and other donors can be named together", answer)

result = farpage("donors", "--donor", "dns+srv://rack1.example", "--noheadings", "--output", "DONOR")
ok(result.stdout.split() == found, "farpage donors writes the lines of a donors file from DNS", shown(result))

result = farpage("donors", "drain", "dns+srv://rack1.example")
ok(result.returncode == 0 and all(f"{uri} is empty" in result.stdout for uri in found),
   "donors drain drains all donors that DNS names", shown(result))
result = farpage("donors", "undrain", "dns+srv://rack1.example")
ok(result.returncode == 0 and all(f"{uri} lends again" in result.stdout for uri in found),
   "donors undrain lets them lend again", shown(result))

program = "import sys; block = bytearray(range(256)) * (48 << 12); print(sum(block) % 1000003)"
wanted = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
result = farpage("run", "--engine", "pager", "--local", "16M", "--donor", "dns+srv://rack1.example", "--", sys.executable,
                 "-c", program)
ok(result.returncode == 0 and result.stdout == wanted and "evicted" in result.stderr,
   "a program runs on the donors that DNS names", shown(result))

for name, line, text in (
        ("nothing.example", "DNS has no SRV record _farpage._tcp.nothing.example", "a name without records is refused"),
        ("text.example", "DNS has no SRV record", "a name without SRV records is refused"),
        ("empty.example", "name no donor", "a service that its record declares absent is refused"),
        ("broken.example", "no DNS server answers for _farpage._tcp.broken.example", "a failing name server is told"),
        ("rack1.example:7470", "give dns+srv://NAME", "a name with a port is refused")):
    refused(farpage("donors", "--donor", "dns+srv://" + name), text, line)
done()
