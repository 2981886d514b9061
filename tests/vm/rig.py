"""rig: virtual machines for tests. Used by vm.py (one machine) and pair.py (two on a wire).

A machine is QEMU with Debian's stock kernel (image.sh) whose root is this machine's own /, read-only with a tmpfs over
it, so that what was built here runs there unchanged and nothing it does stays. KVM is used where a short trial shows that
it really boots this kernel (some hosts have a /dev/kvm that hangs), else QEMU's own emulation (TCG).

Theory of operation. Everything between a machine and the rig goes through file descriptors that QEMU inherits: its two
outputs (virtio-serial ports "out" and "err", each a pipe), its requests ("control", a socket), QEMU's monitor (a socket).
guest_init.sh says "up" on the control port, runs the command, says "exit STATUS" and powers off. A machine that ends
without having said so has died. What a command asks of the rig (the functions of guest.sh: kill, stop, continue or start
a machine, take a rail down) is a line on the control port too, answered by "ok" or "error: why".

Two machines are joined by rails: each a pair of datagram sockets in the run's directory. That directory is removed by a
process that waits for the end of a pipe, and QEMU is killed by the kernel when the rig ends (PR_SET_PDEATHSIG); so
nothing is left whatever ends the rig, SIGKILL included.

One thread; asyncio.
"""
import asyncio
import collections
import ctypes
import json
import mmap
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
BOOT_LIMIT = 120  # seconds; four are usual under emulation
TRIAL_LIMIT = 10  # for KVM, which takes one
STATUS_TIMEOUT = 124
STATUS_DIED = 125
CONSOLE_TAIL = 60  # lines
CLOCK_SLACK = 2  # seconds that a machine's clock may be ahead of ours
CLOCK_AHEAD = "clock is ahead"
KERNEL_COMPLAINTS = re.compile(r"BUG:|WARNING:|Oops|Kernel panic|rcu.*stall|hung_task|soft lockup|Out of memory")

libc = ctypes.CDLL(None)


class Failure(Exception):
    """Ends the rig with one line and a status."""

    def __init__(self, message, status=STATUS_DIED):
        super().__init__(message)
        self.status = status


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def die_with_rig(number=signal.SIGKILL):
    """To be run in a new child: @number is sent to it when the rig's process ends."""
    parent = os.getpid()

    def prepare():
        libc.prctl(1, int(number))  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def tsc_khz():
    """How fast this machine's time stamp counter counts; an emulated machine's is this one. 0: not known."""
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


class Directory:
    """The run's own directory; it goes when the rig goes."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="farpage-vm."))
        self.sweeper = subprocess.Popen(["sh", "-c", 'read -r _; rm -rf "$1"', "sh", self.path],
                                        stdin=subprocess.PIPE, start_new_session=True)
        return self.path

    def __exit__(self, *_):
        self.sweeper.stdin.close()
        self.sweeper.wait()


class Machine:
    """One machine, which can be started more than once. Its command runs anew in each life."""

    def __init__(self, rig, name, command, rails=(), memory=None):
        self.rig, self.name, self.rails, self.memory = rig, name, rails, memory or rig.options.memory
        self.directory = rig.directory / name
        self.console = self.directory / "console"
        self.boots = 0
        self.process = None  # QEMU, while there is one
        self.asked = False  # its end was asked for
        self.overdue = self.stopped = False
        self.status = None  # of the command, once it said so
        self.ended = asyncio.Event()  # this life is over
        self.command = command
        (self.directory / "vm").mkdir(parents=True)
        shutil.copy(HERE / "guest_init.sh", self.directory / "vm")
        (self.directory / "vm" / "command").write_text(command + "\n", encoding="utf-8")

    def write_environment(self):
        """What guest_init.sh reads: VM_*, and the FARPAGE_* of this process."""
        variables = {name: value for name, value in os.environ.items()
                     if name.startswith("FARPAGE_") and not name.startswith("FARPAGE_VM_")}
        variables |= self.rig.options.variables
        variables |= {"VM_NAME": self.name, "VM_BOOT": str(self.boots), "VM_DIRECTORY": os.getcwd(),
                      "VM_IMAGE": str(self.rig.image), "VM_RIG": str(HERE),
                      "VM_SHARE": "/share" if self.rig.share else "", "VM_RAILS": str(len(self.rails)),
                      "VM_TIMEOUT": str(int(self.rig.options.timeout))}
        text = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        (self.directory / "vm" / "environment").write_text(text, encoding="utf-8")

    def arguments(self, descriptors):
        options, image = self.rig.options, self.rig.image
        kvm = self.rig.accel == "kvm"
        out, err, control, monitor = descriptors
        words = [
            "qemu-system-x86_64", "-name", f"farpage-vm-{self.name}",
            "-accel", "kvm" if kvm else "tcg,thread=multi", "-cpu", "host" if kvm else "max",
            "-machine", "q35,usb=off,vmport=off,smbus=off,sata=off", "-smp", str(options.cpus), "-m", str(self.memory),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initrd",
            "-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr random.trust_cpu=on "
                       "net.ifnames=0 tsc=reliable no_timer_check " + " ".join(self.rig.clock + options.kernel_argument),
            "-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=out,fd={out}", "-device", "virtserialport,chardev=out,name=out",
            "-chardev", f"socket,id=err,fd={err}", "-device", "virtserialport,chardev=err,name=err",
            "-chardev", f"socket,id=control,fd={control}", "-device", "virtserialport,chardev=control,name=control",
            "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control",
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            "-virtfs", f"local,path={self.directory}/vm,mount_tag=vm,security_model=none,readonly=on",
        ]
        if self.rig.share:
            words += ["-virtfs", f"local,path={self.rig.share},mount_tag=share,security_model=none"]
        for rail in self.rails:
            words += rail.arguments(self.name)
        return words if self.rails else words + ["-nic", "none"]

    async def start(self):
        """Switches it on; returns when QEMU runs."""
        self.boots += 1
        self.asked = self.overdue = self.stopped = False
        self.status = None
        self.links = {}
        self.ended.clear()
        self.started = time.monotonic()
        self.console_start = self.console.stat().st_size if self.console.exists() else 0
        self.write_environment()
        for rail in self.rails:
            rail.unbind(self.name)
        pairs = [socket.socketpair() for _ in range(4)]
        out, err, control, monitor = (pair[0] for pair in pairs)
        inherited = [pair[1].fileno() for pair in pairs]
        with open(self.directory / "qemu", "ab") as complaints:
            self.process = await asyncio.create_subprocess_exec(
                *self.arguments(inherited), pass_fds=inherited, stdin=subprocess.DEVNULL, stdout=complaints,
                stderr=complaints, start_new_session=True, preexec_fn=die_with_rig())
        for pair in pairs:
            pair[1].close()
        self.monitor = Monitor(monitor)
        relays = [asyncio.create_task(self.relay(*ends)) for ends in zip((out, err), self.rig.outputs(self))]
        self.boot_timer = asyncio.get_running_loop().call_later(BOOT_LIMIT, self.give_up)
        self.tasks = [asyncio.create_task(self.serve(control)), asyncio.create_task(self.watch(relays))]

        await self.set_links()

    async def set_links(self):
        """Lets its network cards know the state of the rails. One that is stopped learns it when it goes on."""
        if not self.process or self.stopped:
            return
        for rail in self.rails:
            if rail.up != self.links.get(rail, True):
                await self.monitor.command("set_link", name=f"rail{rail.number}", up=rail.up)
                self.links[rail] = rail.up

    def give_up(self):
        self.overdue = True
        self.signal(signal.SIGKILL)

    def signal(self, number):
        if self.process and self.process.returncode is None:
            self.process.send_signal(number)

    async def watch(self, relays):
        """Ends this life when QEMU ends and all that it wrote is passed on."""
        await self.process.wait()
        self.boot_timer.cancel()
        await asyncio.gather(*relays)
        self.tasks[0].cancel()
        self.monitor.close()
        self.check_clock(self.console_clock())
        self.process = None
        self.ended.set()
        self.rig.machine_ended(self)

    async def relay(self, port, output):
        """Passes on what the machine writes; line by line if it gets a prefix."""
        reader, writer = await asyncio.open_connection(sock=port, limit=1 << 20)
        stream, prefix = output
        try:
            while True:
                chunk = await (reader.readline() if prefix else reader.read(1 << 16))
                if not chunk:
                    break
                stream.write(prefix + chunk)
                stream.flush()
        except BrokenPipeError:
            pass  # nobody listens; the command goes on
        except ConnectionError:
            pass  # killed in the middle of a write
        writer.close()

    async def serve(self, control):
        """The control port: one request a line."""
        reader, writer = await asyncio.open_connection(sock=control, limit=1 << 16)
        try:
            while line := await reader.readline():
                words = line.decode(errors="replace").split()
                if words == ["up"]:
                    self.boot_timer.cancel()
                elif words[:1] == ["exit"]:
                    self.status = int(words[1])
                    self.check_clock(float(words[2]))
                elif words:
                    try:
                        await self.rig.request(*words)
                        answer = "ok"
                    except (Failure, TypeError) as error:
                        answer = f"error: {error}"
                    writer.write(answer.encode() + b"\n")
                    await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def console_clock(self):
        """Its clock when its kernel last wrote to the console in this life, s."""
        with open(self.console, "rb") as console:
            console.seek(self.console_start)
            clocks = re.findall(rb"^\[ *([0-9]+\.[0-9]+)\] ", console.read(), re.MULTILINE)
        return float(clocks[-1]) if clocks else 0

    def check_clock(self, uptime):
        """No machine can have run for longer than it has been there: its emulator's clock has run away (held())."""
        here = time.monotonic() - self.started
        if uptime > here + CLOCK_SLACK and not self.rig.quiet:
            say(f"{self.name}'s {CLOCK_AHEAD}: {uptime:.1f} s since it began, and {here:.1f} s here")

    def kill(self):
        self.asked = True
        self.signal(signal.SIGKILL)

    def explain(self):
        """Why it died: the last lines of its console, and QEMU's own."""
        for name in ("console", "qemu"):
            path = self.directory / name
            if path.exists() and (text := path.read_text(errors="replace").rstrip()):
                for line in text.splitlines()[-CONSOLE_TAIL:]:
                    print(f"vm: {name}| {line}", file=sys.stderr, flush=True)

    def complaints(self):
        """What its kernel complained of, BUG to OOM."""
        if self.console.exists():
            for line in self.console.read_text(errors="replace").splitlines():
                if KERNEL_COMPLAINTS.search(line):
                    say(f"{self.name}'s kernel: {line.strip()}")


async def first_of(*events):
    """Until one of them is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


class Monitor:
    """QEMU's monitor protocol, the little that is needed of it."""

    def __init__(self, connection):
        self.connection = connection
        self.lock = asyncio.Lock()
        self.reader = None

    async def command(self, execute, **arguments):
        async with self.lock:
            if not self.reader:
                self.reader, self.writer = await asyncio.open_connection(sock=self.connection)
                await self.reader.readline()  # its greeting
                await self.call("qmp_capabilities")
            await self.call(execute, **arguments)

    async def call(self, execute, **arguments):
        self.writer.write(json.dumps({"execute": execute, "arguments": arguments}).encode() + b"\n")
        while line := await self.reader.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise Failure(answer["error"]["desc"])
            if "return" in answer:
                return
        raise Failure("the machine is gone")

    def close(self):
        if self.reader:
            self.writer.close()
        else:
            self.connection.close()


class Rail:
    """A wire between two machines: at each end a network card, by the kernel's name eth@number."""

    def __init__(self, directory, number, ends):
        self.directory, self.number, self.ends = directory, number, ends
        self.up = True

    def path(self, name):
        return self.directory / f"rail{self.number}.{name}"

    def unbind(self, name):
        self.path(name).unlink(missing_ok=True)

    def arguments(self, name):
        index = self.ends.index(name)
        other = self.ends[1 - index]
        return ["-netdev", f"dgram,id=rail{self.number},local.type=unix,local.path={self.path(name)},"
                           f"remote.type=unix,remote.path={self.path(other)}",
                "-device", f"virtio-net-pci,netdev=rail{self.number},host_mtu=9000,"
                           f"mac=52:54:00:77:{self.number:02x}:{index + 1:02x}"]


class Rig:
    """The machines of one run, and what may be asked of it from inside them."""

    def __init__(self, options, image, accel, directory):
        self.options, self.image, self.accel, self.directory = options, image, accel, directory
        # On a busy machine the kernel in an emulated one measures its time stamp counter wrongly, by 16 times once, and
        # its clock runs that much too fast. So it is told.
        khz = tsc_khz() if accel == "tcg" else 0
        self.clock = [f"tsc_early_khz={khz}"] if khz else []
        self.machines = {}
        self.rails = []
        self.share = None
        self.quiet = False
        self.died = asyncio.Event()  # another machine than the last, unasked

    def outputs(self, machine):
        """Where its two outputs go: the last machine's are the rig's own; others' are prefixed, to standard error."""
        out, err = sys.stdout.buffer, sys.stderr.buffer
        if self.quiet:
            return ((NOWHERE, b""), (NOWHERE, b""))
        if machine is list(self.machines.values())[-1]:
            return ((out, b""), (err, b""))
        prefix = machine.name.encode() + b"| "
        return ((err, prefix), (err, prefix))

    def add(self, name, command, memory=None):
        """@memory: MiB, if not what the options say."""
        self.machines[name] = Machine(self, name, command, self.rails, memory)

    def add_rails(self, count, ends):
        self.share = self.directory / "share"
        self.share.mkdir()
        self.rails = [Rail(self.directory, number, ends) for number in range(count)]

    def machine_ended(self, machine):
        if machine is list(self.machines.values())[-1] or self.quiet:
            return
        if machine.status is None and not machine.asked:
            say(f"{machine.name} died; the end of its console:")
            machine.explain()
            self.died.set()
        elif machine.status:
            say(f"{machine.name}'s command ended with status {machine.status}")

    async def request(self, verb, *words):
        """One request from a machine; returns when it is done."""
        if verb == "rail":
            number, state = words
            if state not in ("up", "down") or not number.isdigit() or int(number) >= len(self.rails):
                raise Failure("rail NUMBER up|down")
            self.rails[int(number)].up = state == "up"
            for machine in self.machines.values():
                await machine.set_links()
            return
        (name,) = words
        machine = self.machines.get(name)
        if not machine:
            raise Failure(f"no machine {name}")
        if verb == "start":
            if machine.process:
                raise Failure(f"{name} runs")
            await machine.start()
            return
        if not machine.process:
            raise Failure(f"{name} does not run")
        if verb == "kill":
            machine.kill()
            await machine.ended.wait()
        elif verb in ("stop", "continue"):
            machine.stopped = verb == "stop"
            machine.signal(signal.SIGSTOP if machine.stopped else signal.SIGCONT)
            await machine.set_links()
        else:
            raise Failure(f"unknown request {verb}")

    async def run(self):
        """Starts all machines and waits for the last one's command, which may take several of its lives. Its status; or, when
        another machine dies unasked, that one's."""
        for machine in self.machines.values():
            await machine.start()
        machine = list(self.machines.values())[-1]
        try:
            async with asyncio.timeout(self.options.timeout or None):
                while True:
                    await first_of(machine.ended, self.died)
                    if self.died.is_set() and not machine.ended.is_set():
                        return STATUS_DIED
                    if machine.status is not None:
                        return machine.status
                    if not machine.asked:
                        break
                    while machine.ended.is_set():  # killed; until somebody starts it again
                        await asyncio.sleep(0.1)
        except TimeoutError:
            return self.lost(machine, f"not done after {self.options.timeout} s", STATUS_TIMEOUT)
        if machine.overdue:
            return self.lost(machine, f"did not boot in {BOOT_LIMIT} s", STATUS_TIMEOUT)
        return self.lost(machine, "died before its command ended", STATUS_DIED)

    def lost(self, machine, what, status):
        if not self.quiet:
            say(f"{machine.name}: {what} (status {status}); the end of its console:")
            machine.explain()
        return status

    async def close(self):
        for machine in self.machines.values():
            machine.kill()
        for machine in self.machines.values():
            if machine.boots:
                await machine.ended.wait()
            if not self.quiet:
                machine.complaints()


class Nowhere:
    def write(self, _):
        pass

    def flush(self):
        pass


NOWHERE = Nowhere()
Options = collections.namedtuple("Options", "memory cpus timeout kernel_argument variables", defaults=({},))


async def make_image(siw):
    process = await asyncio.create_subprocess_exec(HERE / "image.sh", *(["siw"] if siw else []), stdin=subprocess.DEVNULL,
                                                   stdout=subprocess.PIPE, preexec_fn=die_with_rig(signal.SIGTERM))
    output, _ = await process.communicate()
    if process.returncode:
        raise Failure("there is no image to boot guests from; the lines above tell why")
    return Path(output.decode().strip())


async def choose_accel(image):
    """KVM if it boots this image here. What a trial gave is kept with the image, for this host's kernel."""
    forced = os.environ.get("FARPAGE_VM_ACCEL")
    if forced in ("kvm", "tcg"):
        return forced
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    known = image / f"accel-{os.uname().release}"
    if known.exists():
        return known.read_text(encoding="ascii").strip()
    with Directory() as directory:
        rig = Rig(Options(512, 1, TRIAL_LIMIT, []), image, "kvm", directory)
        rig.quiet = True
        rig.add("trial", "true")
        try:
            accel = "kvm" if await rig.run() == 0 else "tcg"
        finally:
            await rig.close()
    if accel == "tcg":
        say(f"KVM does not boot a guest here within {TRIAL_LIMIT} s: emulating from now on (kept in {known})")
    new = known.with_suffix(f".{os.getpid()}")
    new.write_text(accel + "\n", encoding="ascii")
    new.rename(known)
    return accel


def add_options(parser, memory, cpus):
    parser.add_argument("-m", "--memory", type=int, default=memory, metavar="MIB", help="each machine's memory (%(default)s)")
    parser.add_argument("-c", "--cpus", type=int, default=cpus, help="each machine's processors (%(default)s)")
    parser.add_argument("-t", "--timeout", type=float, default=0, metavar="S",
                        help="kill it after this long (status 124); default: never")
    parser.add_argument("-k", "--kernel-argument", action="append", default=[], metavar="ARG")
    parser.add_argument("-e", "--environment", action="append", default=[], metavar="NAME=VALUE",
                        help="for the command; FARPAGE_* of here are there already")
    parser.add_argument("--siw", action="store_true", help="have the iWARP driver at hand, too")
    parser.add_argument("--hold", action="store_true",
                        help="show the output at the end; all once more if the emulator, by the console, has failed")


async def run_rig(arguments, build):
    image = await make_image(arguments.siw)
    accel = await choose_accel(image)
    variables = dict(word.split("=", 1) for word in arguments.environment)
    options = Options(arguments.memory, arguments.cpus, arguments.timeout, arguments.kernel_argument, variables)
    with Directory() as directory:
        rig = Rig(options, image, accel, directory)
        build(rig)
        try:
            return await rig.run()
        finally:
            await rig.close()


def emulator_failed(console):
    """Whether a machine died of what no processor does: bits set in EFLAGS that there are not, or a breakpoint that its
    kernel did not write. QEMU 7.2's TCG has done both now and then; nothing that runs in the machine can."""
    flags = re.findall(r"console\| .*EFLAGS: ([0-9a-f]{8})", console)
    return "Oops: int3" in console or any(int(value, 16) >> 22 for value in flags)


def clock_failed(errors):
    """Whether a machine's clock ran ahead of ours: all its time limits were too short then."""
    return re.search(rf"^vm: .*{CLOCK_AHEAD}:", errors, re.MULTILINE) is not None


def held(words):
    """Runs this again without --hold and shows its output when it has ended; once more if the emulator has failed."""
    for attempt in (1, 2):
        process = subprocess.Popen([sys.executable, "-B", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   preexec_fn=die_with_rig(signal.SIGTERM))
        out, err = process.communicate()
        sys.stderr.write(err)
        failed = clock_failed(err) or process.returncode == STATUS_DIED and emulator_failed(err)
        if attempt == 1 and process.returncode and failed:
            say("this was the emulator's fault, not the machine's: all of it once more")
            continue
        sys.stdout.write(out)
        return process.returncode


def main(arguments, build):
    """Runs a rig whose machines @build(rig) adds; the status of the last one's command."""
    if arguments.hold:
        at = sys.argv.index("--hold")
        return held(sys.argv[:at] + sys.argv[at + 1:])
    if not shutil.which("qemu-system-x86_64"):
        say("qemu-system-x86_64 is not installed; ./dev vm installs what is needed")
        return STATUS_DIED
    caught = []

    async def guarded():
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, lambda number=number: (caught.append(number), task.cancel()))
        return await run_rig(arguments, build)

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        return 128 + caught[0]
    except Failure as failure:
        say(str(failure))
        return failure.status
