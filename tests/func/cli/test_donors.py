#!/usr/bin/python3
"""test_donors.py: farpage donors with real donors, and with addresses that no donor has."""
import json
import time

from donor import Donor, no_donors
from tap import done, farpage, make_key, ok, shown



def ask(*options):
    return farpage("donors", *options)


def rows(result):
    """Returns the table's rows without its head: the words of each row by its first word."""
    return {line.split()[0]: line.split() for line in result.stdout.splitlines()[1:]}


key, other_key = make_key(), make_key("other")
big = Donor("--donate", "256M", "--slab", "16M", "--key", key).uri
small = Donor("--donate", "64M", "--slab", "8M", "--key", key).uri

result = ask("--donor", big, "--key", key)
ok(result.returncode == 0 and result.stderr == "", "donors succeeds for a donor that answers", shown(result))
ok(rows(result) == {big: [big, "256M", "0", "256M", "0", "16M"]},
   "donors prints the memory, clients and slab size of a donor", shown(result))

result = ask("--donor", big, "--donor", small, "--key", key)
ok(result.returncode == 0 and list(rows(result)) == [big, small, "total"],
   "donors prints two donors in the order of the options", shown(result))
ok(rows(result)["total"][1:] == ["320M", "0", "320M", "0"], "donors prints the total of two donors", shown(result))

result = ask("--donor", f"{big},{small}", "--key", key, "--json")
answer = json.loads(result.stdout)["donors"]
ok(result.returncode == 0 and [donor["donor"] for donor in answer] == [big, small],
   "donors --json has two donors in the order of the options", shown(result))
ok(answer[1] == {"donor": small, "reachable": True, "donated_bytes": 64 << 20, "leased_bytes": 0,
                 "free_bytes": 64 << 20, "clients": 0, "state": "lending", "slab_bytes": 8 << 20},
                 "donors --json has sizes in bytes", answer)

# Without an RDMA device, or a donor that listens on it, auto:// uses TCP.
auto = "auto" + big[len("tcp"):] if big.startswith("tcp") else None
if auto:
    result = ask("--donor", auto, "--key", key)
    ok(result.returncode == 0 and list(rows(result)) == [big],
       "donors prints the fabric that an auto:// donor uses", shown(result))
    result = ask("--donor", auto, "--key", key, "--json")
    answer = json.loads(result.stdout)["donors"][0]
    ok(answer["donor"] == auto and answer["via"] == big,
       "donors --json has the auto:// address and the one that it uses", shown(result))
    result = ask("--donor", auto, "--key", other_key)
    ok(result.returncode == 1 and "wrong key" in result.stderr and result.stderr.count("\n") == 1,
       "donors tries no other fabric after an auto:// donor refuses the key", shown(result))

placed = Donor("--donate", "64M", "--slab", "8M", "--key", key, "--domain", "rack-1.a").uri
result = ask("--donor", placed, "--donor", small, "--key", key)
ok("DOMAIN" in result.stdout and rows(result)[placed][6:] == ["rack-1.a"] and rows(result)[small][6:] == ["-"],
   "donors prints a column of failure domains when a donor names one", shown(result))
answer = json.loads(ask("--donor", placed, "--key", key, "--json").stdout)["donors"][0]
ok(answer.get("domain") == "rack-1.a", "donors --json has the failure domain of a donor that names one", answer)

result = ask("--donor", big)
ok(result.returncode == 1 and "key" in " ".join(rows(result)[big]),
   "donors fails for a donor that wants a key when none is given", shown(result))
result = ask("--donor", big, "--key", other_key)
ok(result.returncode == 1 and big in result.stderr and "wrong key" in result.stderr,
   "donors tells of the wrong key on standard error", shown(result))

with no_donors() as (mute, nobody):
    start = time.monotonic()
    result = ask("--donor", mute, "--donor", nobody, "--donor", big, "--donor", "bogus", "--key", key)
    seconds = time.monotonic() - start
table = {name: " ".join(words[1:]) for name, words in rows(result).items()}
ok(result.returncode == 1, "donors has status 1 when a donor does not answer", shown(result))
ok(seconds < 2, "donors asks four donors within two seconds", f"{seconds} s")
ok(table.get(nobody) == "connection refused", "donors prints 'connection refused' where nobody listens",
   shown(result))
ok(table.get(mute) == "no answer", "donors prints 'no answer' of a silent donor", shown(result))
ok(table.get("bogus") == "not an address", "donors prints 'not an address' of a malformed address", shown(result))
ok(table.get(big, "").startswith("256M"), "donors prints a good donor beside bad ones", shown(result))
ok(all(name in result.stderr for name in (mute, nobody, "bogus")),
   "donors names each donor that does not answer on standard error", shown(result))

result = ask("--donor", nobody, "--json")
answer = json.loads(result.stdout)["donors"]
ok(result.returncode == 1 and answer == [{"donor": nobody, "reachable": False, "reason": "connection refused"}],
   "donors --json tells why a donor is not reachable", shown(result))
done()
