"""emulator: QEMU's emulation of a processor (TCG): what makes it faster, its clock, and its own failures."""
import ctypes
import mmap
import platform
import re
import time

# QEMU emulates `rep movsb` byte by byte. Without ERMS, kernel and C library copy by larger words. With SMAP, the kernel's
# accesses to user memory have a TLB of their own in QEMU, and its copies take twice as long.
CPU = "max,erms=off,smap=off"


def tsc_khz():
    """Returns the rate of this host's time stamp counter, which emulated machines have, too; 0 if it is not known."""
    if platform.machine() != "x86_64":
        return 0
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("0f31" "48c1e220" "4809d0" "c3"))  # rdtsc; shl rdx, 32; or rax, rdx; ret
    entry = ctypes.c_char.from_buffer(code)
    count = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(entry))

    def look():
        looks = [(time.monotonic_ns(), count(), time.monotonic_ns()) for _ in range(50)]
        before, counted, after = min(looks, key=lambda one: one[2] - one[0])
        return (before + after) / 2, counted

    begin, first = look()
    time.sleep(0.1)
    end, last = look()
    return round((last - first) / (end - begin) * 1e6)


def kernel_arguments():
    """Returns arguments for the kernel of an emulated machine."""
    # QEMU translates code again when a program starts at other addresses.
    arguments = ["norandmaps"]
    # On a busy host the kernel measures its time stamp counter wrongly, once by a factor of 16. Its clock then runs too
    # fast by this factor. So the kernel gets the rate as an argument.
    if khz := tsc_khz():
        arguments.append(f"tsc_early_khz={khz}")
    return arguments


def failed(console):
    """Returns true if a machine died of an error that no processor makes.

    Such an error is a bit in EFLAGS that does not exist, or a breakpoint that the kernel did not write. QEMU 7.2's TCG
    makes both now and then. No program in the machine can cause them."""
    flags = re.findall(r"console\| .*EFLAGS: ([0-9a-f]{8})", console)
    return "Oops: int3" in console or any(int(value, 16) >> 22 for value in flags)
