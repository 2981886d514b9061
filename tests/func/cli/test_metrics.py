#!/usr/bin/python3
"""test_metrics.py MEMSERVER BLOCKDEV ALERTS: the metrics of real daemons, as Prometheus scrapes them."""
import http.client
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import disks
from donor import Donor
from tap import done, farpage, ok, run, shown, skip, wait_until

memserver, blockdev, alerts = sys.argv[1:4]
SAMPLE = re.compile(r'^([a-z_]+)(?:\{([a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*)\})? (\S+)$')


def ask(port, method="GET", path="/metrics"):
    """Returns status, headers and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


def scrape(port):
    """Returns the values by name and labels, as in 'x_total{op="read"}'."""
    lines = [line for line in ask(port)[2].splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def raw(port, request):
    """Sends bytes. Returns the first line of the answer, if there is one."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(4096).split(b"\r\n")[0].decode(errors="replace")
        except OSError:
            return ""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def metrics_port(donor):
    return int(re.search(r"metrics are at http://127.0.0.1:(\d+)/metrics", donor.log.read_text()).group(1))


def is_format(name, text):
    bad = [line for line in text.splitlines() if not line.startswith(("# HELP ", "# TYPE ")) and not SAMPLE.match(line)]
    ok(len(text) > 1000 and text.endswith("\n") and not bad, f"each line of {name} is a comment or a sample", *bad)
    if not shutil.which("promtool"):
        skip(f"promtool accepts {name}", "promtool is not installed (Debian: prometheus)")
        return
    checked = run("promtool", "check", "metrics", stdin=None, input=text)
    ok(checked.returncode == 0 and not checked.stderr, f"promtool accepts {name}", shown(checked))


def http_is_answered(port):
    status, headers, _ = ask(port)
    ok(status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), "/metrics has text of 0.0.4", headers)
    ok(ask(port, path="/")[0] == 404 and ask(port, path="/metrics/x")[0] == 404, "any other path is 404")
    ok(ask(port, "POST")[0] == 405, "any other method is 405")
    for garbage in (b"\0\xff\0\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100000,
                    b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\r\n" * 1000, b""):
        line = raw(port, garbage)
        ok(" 200 " not in line, f"a request that begins {garbage[:12]!r} gets no metrics", line)
    ok(ask(port)[0] == 200, "metrics are served after garbage")


def wrong_options_are_refused(port):
    for program, options in ((memserver, ("--donate", "64M", "--listen", "tcp://127.0.0.1:0")),
                             (blockdev, ("--name", "m0", "--size", "16M", "--memory", "--frontend", disks.FRONTEND))):
        for value, word in (("nonsense", "not an address"), ("127.0.0.1", "not an address"), (port, "in use")):
            if value == port and program == blockdev and os.geteuid() != 0:
                skip("a port in use ends the device's daemon", "block devices need root")
                continue
            result = run(program, *options, "--metrics", value)
            ok(result.returncode == (1 if value == port else 2) and result.stderr.count("\n") == 1 and word in result.stderr and not result.stdout,
               f"{os.path.basename(program)} --metrics {'PORT in use' if value == port else value} is refused in one line",
               shown(result))


def donor_counts_what_is_leased(donor, port):
    said, values = donor.says(), scrape(port)
    ok(values["farpage_memserver_capacity_bytes"] == 64 << 20 and values["farpage_memserver_slab_bytes"] == 16 << 20,
       "the donor's capacity and its slabs are those of its settings", values)
    ok(values["farpage_memserver_leased_bytes"] == said["leased_bytes"], "as much is leased as `farpage donors` says", said)
    ok(values["farpage_memserver_free_bytes"] == values["farpage_memserver_donated_bytes"] - said["leased_bytes"],
       "what is not leased is free", values)
    return values


def device_is_measured(donor, port):
    own = free_port()
    # A page that is scrubbed counts as one more live page meanwhile.
    made = disks.attach("m1", "32M", "--donor", donor.uri, "--metrics", own, "--scrub-rate", "0")
    if not ok(made.returncode == 0, "a device with metrics is made", shown(made)):
        return
    path = made.stdout.split()[0]
    dd = run("dd", "if=/dev/urandom", f"of={path}", "bs=1M", "count=8", "oflag=direct")
    ok(dd.returncode == 0, "the device is written", shown(dd))
    label = '{device="m1"}'
    ok(wait_until(lambda: scrape(own)[f"farpage_blockdev_live_pages{label}"] >= 2048), "the 8 MiB written are live pages")
    values, disk = scrape(own), disks.known()["m1"]
    ok(values[f"farpage_blockdev_size_bytes{label}"] == 32 << 20, "the size is the device's")
    for metric, key in (("live_pages", "pages_live"), ("leased_bytes", "bytes_leased"), ("lost_pages_total", "pages_lost")):
        ok(values[f"farpage_blockdev_{metric}{label}"] == disk[key], f"{metric} is what disk list --json says", disk[key])
    ok(values['farpage_blockdev_request_bytes_total{device="m1",op="write"}'] >= 8 << 20, "the bytes written are counted")
    ok(values['farpage_blockdev_request_duration_seconds_count{device="m1",op="write"}'] ==
       values['farpage_blockdev_requests_total{device="m1",op="write"}'], "each write has its time in the histogram")
    ok(values['farpage_blockdev_state{device="m1",state="serving"}'] == 1, "the device is serving")
    reachable = f'farpage_blockdev_donor_reachable{{device="m1",donor="{donor.uri}"}}'
    ok(values[reachable] == 1, "the device's metrics have its donor as reachable", values)
    leased = donor_counts_what_is_leased(donor, port)
    ok(leased["farpage_memserver_leased_bytes"] >= 16 << 20 and leased["farpage_memserver_slabs_granted_total"] >= 1,
       "the donor counts the device's slabs", leased)
    ok(wait_until(lambda: scrape(port)["farpage_memserver_clients"] == 1), # `farpage donors` leaves after a moment
       "the donor counts the device as its client")
    if donor.uri.startswith("tcp:"):
        ok(wait_until(lambda: scrape(port)['farpage_memserver_tcp_bytes_total{op="write"}'] >= 8 << 20),
           "the donor counts the bytes that came over TCP")
    is_format("the device's metrics", ask(own)[2])
    open_connections_delay_nobody(path, (own, port))
    donor.signal(signal.SIGSTOP)
    ok(wait_until(lambda: scrape(own)[reachable] == 0 and
                  scrape(own)['farpage_blockdev_state{device="m1",state="degraded"}'] == 1), "a silent donor shows")
    donor.signal(signal.SIGCONT)
    ok(wait_until(lambda: scrape(own)[reachable] == 1), "the donor that is back shows")
    gone = disks.detach("m1")
    ok(gone.returncode == 0 and wait_until(lambda: not disks.left_over()), "the device is removed", shown(gone))
    ok(wait_until(lambda: scrape(port)["farpage_memserver_leased_bytes"] == 0), "the donor has its memory back")


def donor_counts_the_use_of_each_key():
    """Two names with two keys each may lease from one donor. The device belongs to alice."""
    with tempfile.TemporaryDirectory(prefix="farpage-metrics-") as folder:
        keys = Path(folder, "keys")
        keys.mkdir(mode=0o700)
        for name in ("alice.key", "alice.new.key", "bob.key"):
            farpage("key", str(keys / name))
        donor = Donor("--donate", "64M", "--slab", "16M", "--metrics", "0", "--keys", str(keys), "--client-quota", "alice=32M")
        port = metrics_port(donor)
        def leased(name):
            return scrape(port).get(f'farpage_memserver_key_leased_bytes{{key="{name}"}}')
        is_format("the metrics of a donor with keys", ask(port)[2])
        values = scrape(port)
        ok(leased("alice") == 0 and leased("bob") == 0, "each name leases nothing at first", values)
        ok(values.get('farpage_memserver_key_quota_bytes{key="alice"}') == 32 << 20 and
           'farpage_memserver_key_quota_bytes{key="bob"}' not in values, "a name's quota is shown, if it has one", values)
        made = disks.attach("m3", "32M", "--donor", donor.uri, "--key", str(keys / "alice.new.key"))
        ok(made.returncode == 0, "a device with alice's second key is made", shown(made))
        run("dd", "if=/dev/urandom", f"of={made.stdout.split()[0]}", "bs=1M", "count=8", "oflag=direct")
        ok(wait_until(lambda: leased("alice") == scrape(port)["farpage_memserver_leased_bytes"] > 0) and leased("bob") == 0,
           "what the device leases counts as alice's", scrape(port))
        (keys / "bob.key").unlink()
        farpage("key", str(keys / "carol.key"))
        donor.signal(signal.SIGHUP)
        ok(wait_until(lambda: leased("carol") == 0 and leased("bob") is None) and leased("alice") > 0,
           "after a reload the names are those of the new keys", scrape(port))
        gone = disks.detach("m3")
        ok(gone.returncode == 0 and wait_until(lambda: leased("alice") == 0), "a removed device no longer counts as alice's",
           shown(gone))


def open_connections_delay_nobody(path, ports):
    held = []
    for port in ports:
        for at in range(40):
            try:
                held.append(socket.create_connection(("127.0.0.1", port), timeout=1))
            except OSError: # the socket's queue is full
                break
            held[-1].sendall(b"GET /metrics HTTP/1.1\r\n"[:at])
    began = time.monotonic()
    dd = run("dd", f"if={path}", "of=/dev/null", "bs=1M", "count=8", "iflag=direct")
    took = time.monotonic() - began
    ok(len(held) >= 2 * 16 and dd.returncode == 0 and took < 5, "the device is read while many connections are held open", took)
    for connection in held:
        connection.close()
    ok(all(ask(port)[0] == 200 for port in ports), "metrics are served again after the connections have ended")


def alerts_are_rules():
    if not shutil.which("promtool"):
        skip("promtool accepts the alerts", "promtool is not installed (Debian: prometheus)")
        return
    checked = run("promtool", "check", "rules", alerts)
    ok(checked.returncode == 0 and "SUCCESS" in checked.stdout, "promtool accepts the alerts", shown(checked))


def alerts_name_metrics_that_exist(names):
    with open(alerts, encoding="utf-8") as file:
        text = file.read()
    used = set(re.findall(r"\bfarpage_[a-z_]+", text))
    ok(len(used) > 5 and used <= names, "each metric in the alerts exists", used - names)
    count = len(re.findall(r"^ +- alert: ", text, re.MULTILINE))
    ok(count > 5 and len(re.findall(r"^ +summary: ", text, re.MULTILINE)) == count and
       len(re.findall(r"^ +description: ", text, re.MULTILINE)) == count, "each alert has a summary and a description", count)


def families(text):
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


donor = Donor("--donate", "64M", "--slab", "16M", "--metrics", "0", "--grace", "60")
port = metrics_port(donor)
is_format("the donor's metrics", ask(port)[2])
http_is_answered(port)
wrong_options_are_refused(port)
donor_counts_what_is_leased(donor, port)
alerts_are_rules()
drained = farpage("donors", "drain", donor.uri)
ok(drained.returncode == 0 and wait_until(lambda: scrape(port)["farpage_memserver_draining"] == 1), "a drained donor shows",
   shown(drained))
farpage("donors", "undrain", donor.uri)
source = "".join(open(os.path.join(os.path.dirname(alerts), "..", file), encoding="utf-8").read()
                 for file in ("memserver/donor_metrics.c", "blockdev/daemon/device_metrics.c", "blockdev/daemon/status.c"))
NAMES = {f"farpage_memserver_{name}" for name in re.findall(r'FIGURE\(\s*"([a-z_]+)"', source)}
NAMES |= {f"farpage_blockdev_{name}" for name in re.findall(r'NAME\("([a-z_]+)"\)', source)}
NAMES |= {f"farpage_blockdev_{name}" for name in re.findall(r'FIGURE\(\s*"[a-z_]+",\s*"([a-z_]+)"', source)}
NAMES |= families(ask(port)[2])
NAMES |= {"farpage_blockdev_request_duration_seconds_bucket"}
alerts_name_metrics_that_exist(NAMES)
if os.geteuid() == 0:
    disks.require()
    device_is_measured(donor, port)
    donor_counts_the_use_of_each_key()
else:
    skip("a device's metrics are what it does", "block devices need root")
done()
