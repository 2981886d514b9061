"""Tasks of asyncio that hold memory, and pass it on through a queue."""
import asyncio


async def make(queue, number):
    for at in range(40):
        await queue.put(bytearray([number * 16 + at % 16]) * 65536)
        await asyncio.sleep(0)


async def main():
    queue = asyncio.Queue()
    await asyncio.gather(*(make(queue, number) for number in range(12)))
    kept = [await queue.get() for _ in range(queue.qsize())]
    print(len(kept), sum(sum(block[::4096]) for block in kept))

asyncio.run(main())
