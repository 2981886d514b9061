"""Eight threads, each with its own memory and a part of the shared memory."""
import threading

shared = bytearray(24 << 20)
sums = [0] * 8


def work(number):
    own = bytearray((number + 1) & 0xff for _ in range(1 << 18)) * 8
    for at in range(number * 4096, len(shared), 8 * 4096):
        shared[at] = (at >> 12) % 251
    sums[number] = sum(own[::4096])


threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sums, sum(shared[at] != (at >> 12) % 251 for at in range(0, len(shared), 4096)))
