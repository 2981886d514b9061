#!/usr/bin/python3
"""test_donors.py FARPAGE MEMSERVER: farpage donors against real donors, and against what is none."""
import json
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tap import done, ok, run, shown # noqa: E402
from memservers import start_donor, stop_donors # noqa: E402

farpage, memserver = sys.argv[1:3]


def ask(*options):
    return run(farpage, "donors", *options)


def rows(result):
    """The table without its head: words by first word."""
    return {line.split()[0]: line.split() for line in result.stdout.splitlines()[1:]}


def test(folder):
    key, other_key = Path(folder, "key"), Path(folder, "other")
    for path in (key, other_key):
        run(farpage, "key", path)
    big = start_donor(memserver, "--donate", "256M", "--slab", "16M", "--key", str(key))[1]
    small = start_donor(memserver, "--donate", "64M", "--slab", "8M", "--key", str(key))[1]

    result = ask("--donor", big, "--key", key)
    ok(result.returncode == 0 and result.stderr == "", "a donor answers", shown(result))
    ok(rows(result) == {big: [big, "256M", "0", "256M", "0", "16M"]}, "donated, leased, free, clients, slab",
       shown(result))

    result = ask("--donor", big, "--donor", small, "--key", key)
    ok(result.returncode == 0 and list(rows(result)) == [big, small, "total"], "two donors in the order asked",
       shown(result))
    ok(rows(result)["total"][1:] == ["320M", "0", "320M", "0"], "and their total", shown(result))

    result = ask("--donor", f"{big},{small}", "--key", key, "--json")
    answer = json.loads(result.stdout)["donors"]
    ok(result.returncode == 0 and [donor["donor"] for donor in answer] == [big, small], "as JSON", shown(result))
    ok(answer[1] == {"donor": small, "reachable": True, "donated_bytes": 64 << 20, "leased_bytes": 0,
                     "free_bytes": 64 << 20, "clients": 0, "state": "lending", "slab_bytes": 8 << 20}, "JSON has bytes", answer)

    # This host has no RDMA device, or the donor does not listen there: then it is TCP.
    auto = "auto" + big[len("tcp"):] if big.startswith("tcp") else None
    if auto:
        result = ask("--donor", auto, "--key", key)
        ok(result.returncode == 0 and list(rows(result)) == [big], "auto:// says which way it took", shown(result))
        result = ask("--donor", auto, "--key", key, "--json")
        answer = json.loads(result.stdout)["donors"][0]
        ok(answer["donor"] == auto and answer["via"] == big, "in JSON, both", shown(result))
        result = ask("--donor", auto, "--key", other_key)
        ok(result.returncode == 1 and "wrong key" in result.stderr and result.stderr.count("\n") == 1,
           "a refusal is final: there is no other way to try", shown(result))

    placed = start_donor(memserver, "--donate", "64M", "--slab", "8M", "--key", str(key), "--domain", "rack-1.a")[1]
    result = ask("--donor", placed, "--donor", small, "--key", key)
    ok("DOMAIN" in result.stdout and rows(result)[placed][6:] == ["rack-1.a"] and rows(result)[small][6:] == ["-"],
       "failure domains have a column when a donor names one", shown(result))
    answer = json.loads(ask("--donor", placed, "--key", key, "--json").stdout)["donors"][0]
    ok(answer.get("domain") == "rack-1.a", "and a member in JSON", answer)

    result = ask("--donor", big)
    ok(result.returncode == 1 and "key" in " ".join(rows(result)[big]), "without its key a donor refuses", shown(result))
    result = ask("--donor", big, "--key", other_key)
    ok(result.returncode == 1 and big in result.stderr and "wrong key" in result.stderr,
       "the wrong key is named on standard error", shown(result))

    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        unused = socket.create_server(("127.0.0.1", 0))
        nobody = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        unused.close()
        start = time.monotonic()
        result = ask("--donor", mute, "--donor", nobody, "--donor", big, "--donor", "bogus", "--key", key)
        seconds = time.monotonic() - start
    table = {name: " ".join(words[1:]) for name, words in rows(result).items()}
    ok(result.returncode == 1, "a donor that cannot be asked makes the status 1", shown(result))
    ok(seconds < 2, "all of it within two seconds", f"{seconds} s")
    ok(table.get(nobody) == "connection refused", "nobody listens: in the table", shown(result))
    ok(table.get(mute) == "no answer", "no answer: in the table", shown(result))
    ok(table.get("bogus") == "not an address", "not an address: in the table", shown(result))
    ok(table.get(big, "").startswith("256M"), "the others are shown all the same", shown(result))
    ok(all(name in result.stderr for name in (mute, nobody, "bogus")), "each is named on standard error", shown(result))

    result = ask("--donor", nobody, "--json")
    answer = json.loads(result.stdout)["donors"]
    ok(result.returncode == 1 and answer == [{"donor": nobody, "reachable": False, "reason": "connection refused"}],
       "as JSON too", shown(result))


try:
    with tempfile.TemporaryDirectory(prefix="farpage-test-") as temporary:
        test(temporary)
finally:
    stop_donors()
done()
