"""rig: virtual machines for tests. vm.py uses one machine, pair.py two that are joined by rails.

A machine is QEMU with Debian's stock kernel (image.sh). Its root is the host's own /, read-only with a tmpfs over it. So
programs built here run there unchanged, and none of their changes stay. The rig uses KVM if a short trial boots this
kernel, because some hosts have a /dev/kvm that hangs. Otherwise it uses QEMU's own emulation (TCG; emulator.py).

Theory of operation. A machine and the rig talk through sockets that QEMU inherits: the machine's two outputs and its
requests (virtio-serial ports "out", "err" and "control"), and QEMU's monitor. guest_init.sh writes "up" to the control
port, runs the command, writes "exit STATUS UPTIME" and powers off. A machine that ends without this line has died. A
command's requests to the rig (guest.sh: kill, stop, continue or start a machine, take a rail up or down) are lines on the
control port. The rig answers "ok" or "error: CAUSE".

A rail is a pair of datagram sockets in the directory of the run. A process that waits for the end of a pipe removes this
directory. The kernel kills QEMU when the rig ends (PR_SET_PDEATHSIG). So no file and no machine is left whatever ends the
rig, SIGKILL included.

The rig has one thread, with asyncio.
"""
import asyncio
import collections
import ctypes
import json
import os
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

import emulator

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
BOOT_LIMIT = 120  # seconds; a boot usually takes twelve under emulation
TRIAL_LIMIT = 10  # seconds for a boot by KVM, which takes one
STATUS_TIMEOUT = 124
STATUS_DIED = 125
CONSOLE_TAIL = 60  # lines
CLOCK_SLACK = 2  # seconds that a machine's clock may be ahead of the rig's
CLOCK_AHEAD = "clock is ahead"
KERNEL_COMPLAINTS = re.compile(r"BUG:|WARNING:|Oops|Kernel panic|rcu.*stall|hung_task|soft lockup|Out of memory")

libc = ctypes.CDLL(None)


class Failure(Exception):
    """An error that ends the rig with one line and a status."""

    def __init__(self, message, status=STATUS_DIED):
        super().__init__(message)
        self.status = status


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def die_with_rig(number=signal.SIGKILL):
    """Returns a preexec_fn. The kernel sends @number to the child when the rig's process ends."""
    parent = os.getpid()

    def prepare():
        libc.prctl(1, int(number))  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return prepare


class Directory:
    """The directory of the run, which is removed when the rig ends."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="farpage-vm."))
        self.sweeper = subprocess.Popen(["sh", "-c", 'read -r _; rm -rf "$1"', "sh", self.path],
                                        stdin=subprocess.PIPE, start_new_session=True)
        return self.path

    def __exit__(self, *_):
        self.sweeper.stdin.close()
        self.sweeper.wait()


class Machine:
    """A machine, which can be started more than once. Its command runs anew in each life."""

    def __init__(self, rig, name, command, rails=(), memory=None):
        self.rig, self.name, self.rails, self.memory = rig, name, rails, memory or rig.options.memory
        self.directory = rig.directory / name
        self.console = self.directory / "console"
        self.boots = 0
        self.process = None  # QEMU, while it runs
        self.asked = False  # a request asked for its end
        self.overdue = self.stopped = False
        self.status = None  # of the command, once the machine has reported it
        self.ended = asyncio.Event()  # set when this life is over
        self.command = command
        (self.directory / "vm").mkdir(parents=True)
        shutil.copy(HERE / "guest_init.sh", self.directory / "vm")
        (self.directory / "vm" / "command").write_text(command + "\n", encoding="utf-8")

    def write_environment(self):
        """Writes the variables that guest_init.sh reads: VM_*, and FARPAGE_* of this process."""
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
            "-accel", "kvm" if kvm else "tcg,thread=multi", "-cpu", "host" if kvm else emulator.CPU,
            "-machine", "q35,usb=off,vmport=off,smbus=off,sata=off", "-smp", str(options.cpus), "-m", str(self.memory),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initrd",
            "-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr random.trust_cpu=on "
                       "net.ifnames=0 tsc=reliable no_timer_check " +
                       " ".join(self.rig.emulator_arguments + options.kernel_argument),
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
        """Switches the machine on. Returns when QEMU runs."""
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
        """Sets the links of the network cards to the state of the rails. A stopped machine gets them when it goes on."""
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
        """Ends this life when QEMU has ended and all of its output is passed on."""
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
        """Passes on the output of the machine, line by line if it gets a prefix."""
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
            pass  # no process reads the output any more; the command goes on
        except ConnectionError:
            pass  # the machine was killed during a write
        writer.close()

    async def serve(self, control):
        """Carries out the requests on the control port, one a line."""
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
        """Returns the machine's uptime, in seconds, when its kernel last wrote to the console in this life, or 0."""
        with open(self.console, "rb") as console:
            console.seek(self.console_start)
            clocks = re.findall(rb"^\[ *([0-9]+\.[0-9]+)\] ", console.read(), re.MULTILINE)
        return float(clocks[-1]) if clocks else 0

    def check_clock(self, uptime):
        """Reports a machine whose uptime is more than the time since its start: the emulator's clock is wrong."""
        here = time.monotonic() - self.started
        if uptime > here + CLOCK_SLACK and not self.rig.quiet:
            say(f"{self.name}'s {CLOCK_AHEAD}: {uptime:.1f} s since it began, and {here:.1f} s here")

    def kill(self):
        self.asked = True
        self.signal(signal.SIGKILL)

    def explain(self):
        """Prints why the machine died: the last lines of its console, and of QEMU."""
        for name in ("console", "qemu"):
            path = self.directory / name
            if path.exists() and (text := path.read_text(errors="replace").rstrip()):
                for line in text.splitlines()[-CONSOLE_TAIL:]:
                    print(f"vm: {name}| {line}", file=sys.stderr, flush=True)

    def complaints(self):
        """Prints the complaints of the machine's kernel (KERNEL_COMPLAINTS)."""
        if self.console.exists():
            for line in self.console.read_text(errors="replace").splitlines():
                if KERNEL_COMPLAINTS.search(line):
                    say(f"{self.name}'s kernel: {line.strip()}")


async def first_of(*events):
    """Waits until one of the events is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


class Monitor:
    """The part of QEMU's monitor protocol that the rig needs."""

    def __init__(self, connection):
        self.connection = connection
        self.lock = asyncio.Lock()
        self.reader = None

    async def command(self, execute, **arguments):
        async with self.lock:
            if not self.reader:
                self.reader, self.writer = await asyncio.open_connection(sock=self.connection)
                await self.reader.readline()  # skips the greeting
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
    """A wire between two machines. At each end is a network card that the kernel calls eth@number."""

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
    """The machines of one run, and the requests that they can make."""

    def __init__(self, options, image, accel, directory):
        self.options, self.image, self.accel, self.directory = options, image, accel, directory
        self.emulator_arguments = emulator.kernel_arguments() if accel == "tcg" else []
        self.machines = {}
        self.rails = []
        self.share = None
        self.quiet = False
        self.died = asyncio.Event()  # set when a machine other than the last ends unasked

    def outputs(self, machine):
        """Returns the targets of the two outputs, with their prefixes.

        The outputs of the last machine are those of the rig. Outputs of other machines go to standard error, prefixed."""
        out, err = sys.stdout.buffer, sys.stderr.buffer
        if self.quiet:
            return ((NOWHERE, b""), (NOWHERE, b""))
        if machine is list(self.machines.values())[-1]:
            return ((out, b""), (err, b""))
        prefix = machine.name.encode() + b"| "
        return ((err, prefix), (err, prefix))

    def add(self, name, command, memory=None):
        """Adds a machine. @memory is in MiB, by default as the options say."""
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
        """Carries out a request of a machine. Returns when it is done."""
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
        """Starts all machines and waits for the command of the last one, which may take several lives.

        Returns the status of that command, or STATUS_DIED if another machine dies unasked."""
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
                    while machine.ended.is_set():  # killed; another machine may start it again
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


NOWHERE = open(os.devnull, "wb")
Options = collections.namedtuple("Options", "memory cpus timeout kernel_argument variables", defaults=({},))


async def make_image(drivers):
    process = await asyncio.create_subprocess_exec(HERE / "image.sh", *drivers, stdin=subprocess.DEVNULL,
                                                   stdout=subprocess.PIPE, preexec_fn=die_with_rig(signal.SIGTERM))
    output, _ = await process.communicate()
    if process.returncode:
        raise Failure("there is no image to boot guests from; the lines above tell why")
    return Path(output.decode().strip())


async def choose_accel(image):
    """Returns "kvm" if KVM boots this image here, otherwise "tcg". Keeps the result for this host's kernel in the image."""
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
    parser.add_argument("--driver", action="append", default=[], metavar="DRIVER",
                        help="have this driver of image.sh at hand, too (siw, rnbd), which Debian leaves out; can be repeated")
    parser.add_argument("--hold", action="store_true",
                        help="show the output at the end; all once more if the emulator, by the console, has failed")


async def run_rig(arguments, build):
    image = await make_image(arguments.driver)
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


def clock_failed(errors):
    """Returns true if a machine's clock ran ahead of the rig's, so that all its time limits were too short."""
    return re.search(rf"^vm: .*{CLOCK_AHEAD}:", errors, re.MULTILINE) is not None


def held(words):
    """Runs the same command without --hold, once more if the emulator has failed. Shows the output at the end."""
    for attempt in (1, 2):
        process = subprocess.Popen([sys.executable, "-B", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   preexec_fn=die_with_rig(signal.SIGTERM))
        out, err = process.communicate()
        sys.stderr.write(err)
        failed = clock_failed(err) or process.returncode == STATUS_DIED and emulator.failed(err)
        if attempt == 1 and process.returncode and failed:
            say("this was the emulator's fault, not the machine's: all of it once more")
            continue
        sys.stdout.write(out)
        return process.returncode


def main(arguments, build):
    """Runs a rig, to which @build(rig) adds the machines. Returns the status of the last machine's command."""
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
