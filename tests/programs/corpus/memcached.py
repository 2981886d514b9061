"""Sets and gets of a memcached server on a socket in this folder."""
import socket
import subprocess
import time

server = subprocess.Popen(["memcached", "-u", "root", "-m", "128", "-t", "2", "-s", "memcached.socket"])
try:
    for _ in range(200):
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect("memcached.socket")
            break
        except OSError:
            time.sleep(0.05)
    lines = client.makefile("rwb")
    for number in range(40000):
        lines.write(b"set key%d 0 0 1000 noreply\r\n%s\r\n" % (number, (b"%d " % number * 1000)[:1000]))
    lines.flush()
    total = 0
    for number in range(40000):
        key = number * 7919 % 40000
        lines.write(b"get key%d\r\n" % key)
        lines.flush()
        if lines.readline().startswith(b"VALUE"):
            value = lines.read(1002)
            total += value[:1000] == (b"%d " % key * 1000)[:1000]
            lines.readline()
    print(total, "of 40000")
finally:
    server.terminate()
print(server.wait())
