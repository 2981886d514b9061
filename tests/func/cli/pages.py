"""The beginning of programs that work on all their memory: each page has its number and its count of writes."""
PAGES = """
import random, select, struct, sys
PAGES = 12288
memory = bytearray(PAGES * 4096)
written = [0] * PAGES
def write(page):
    written[page] += 1
    struct.pack_into('<QQ', memory, page * 4096 + 100, page, written[page])
def check(page):
    if struct.unpack_from('<QQ', memory, page * 4096 + 100) != (page, written[page]):
        print('wrong page', page, flush=True)
        sys.exit(3)
"""
