#!/usr/bin/python3
"""test_top.py: farpage top on a terminal of 80 columns and 24 rows, and without a terminal."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from donor import Donor, no_donors
from tap import FARPAGE, done, farpage, make_key, ok, refused, start

MIB = 1 << 20
FILL = f"memory = b'x' * {40 * MIB}; print('full', flush=True); input()"


class Terminal:
    """A command on its own terminal, a VT52 (DEC, 1975), because its few control codes are easy to read."""

    def __init__(self, *words, term="vt52", rows=24, columns=80):
        self.terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen([FARPAGE, *words], stdin=inside, stdout=inside, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "TERM": term}, start_new_session=True,
                                        preexec_fn=self.take_terminal)
        os.close(inside)
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.unread = ""

    @staticmethod
    def take_terminal():
        """In the new process: makes the terminal its controlling terminal, so that the process gets its Ctrl-C."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    @property
    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def clear(self, lines):
        self.cells[self.row][self.column:] = " " * (len(self.cells[0]) - self.column)
        for row in range(self.row + 1, len(self.cells) if lines else 0):
            self.cells[row] = [" "] * len(self.cells[0])

    def show(self, written):
        """Draws one control or character that the command has written."""
        self.unread += written
        while found := re.match(r"(?s)\x1bY(..)|\x1b([^Y])|([^\x1b])", self.unread):
            place, control, character = found.groups()
            if place:
                self.row, self.column = (ord(letter) - ord(" ") for letter in place)
            elif control == "H":
                self.row = self.column = 0
            elif control in ("J", "K"):
                self.clear(control == "J")
            elif character == "\n" and self.row == len(self.cells) - 1:
                self.cells = self.cells[1:] + [[" "] * len(self.cells[0])]
            elif control or character == "\n":
                self.row += {"A": -1, "B": 1, None: 1}.get(control, 0)
                self.column += {"C": 1, "D": -1}.get(control, 0)
            elif character == "\r":
                self.column = 0
            elif character == "\b":
                self.column -= 1
            elif character >= " ":
                self.cells[self.row][self.column] = character
                self.column = min(self.column + 1, len(self.cells[0]) - 1)
            self.unread = self.unread[found.end():]

    def wait_for(self, pattern, seconds=15):
        """Returns true if the screen shows @pattern within @seconds."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            if not select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]:
                return False
            try:
                self.show(os.read(self.terminal, 65536).decode("ascii"))
            except OSError:
                return False
        return True

    def press(self, keys):
        os.write(self.terminal, keys)

    def end(self):
        """Returns the exit status and the text on standard error."""
        try:
            error = self.process.communicate(timeout=10)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return None, "it had to be killed"
        finally:
            os.close(self.terminal)
        return self.process.returncode, error


def shows_donors_runs_and_quits():
    key = make_key()
    lender = Donor("--donate", "256M", "--slab", "8M", "--key", key).uri
    run = start("run", "--engine", "pager", "--local", "16M", "--donor", lender, "--key", key, "--quiet", "--",
                "/usr/bin/python3", "-c", FILL)
    run.stdout.readline()
    with no_donors() as (_, nobody):
        top = Terminal("top", "--interval", "1", "--donor", lender, "--donor", nobody, "--key", key)
        ok(top.wait_for("RUNS"), "top has a part of runs", top.text)
        ok(top.wait_for(r"(?s)256M.*connection refused +- +!"), "top shows what a donor lends, and why another does not answer",
           top.text)
        ok(top.wait_for(r"ms +\.\.") and top.wait_for("!!"), "top shows the history of donors that answer and that do not", top.text)
        top.press(b"x")
        ok(top.wait_for(r"ms +\.\.\.\."), "top goes on after a key that it does not know", top.text)
        top.press(b"q")
        status, error = top.end()
    ok(status == 0 and not error, "top ends with status 0 when q is pressed, and writes no error", (status, error))
    top = Terminal("top", "--interval", "1")
    found = top.wait_for(rf"{run.pid} +16M[^\n]*/usr/bin/python")
    ok(found, "top shows a run with its budget and its command", top.text)
    ok(top.wait_for("none is named"), "top says how donors are named", top.text)
    top.press(b"\x03")
    status, error = top.end()
    ok(status is not None and not error, "top ends at Ctrl-C", (status, error))
    run.terminate()
    run.communicate()


def fits_a_narrow_terminal():
    top = Terminal("top", "--interval", "1", rows=5, columns=40)
    ok(top.wait_for("RUNS"), "top works on a terminal of 40 columns and 5 rows", top.text)
    top.press(b"\x1bB" * 6)
    ok(top.wait_for("DONORS"), "top scrolls down with the arrow keys", top.text)
    os.close(top.terminal)
    try:
        status = top.process.wait(10)
    except subprocess.TimeoutExpired:
        top.process.kill()
        status = None
    ok(status is not None, "top ends when its terminal is gone", status)
    top.process.stderr.close()


def refuses_what_it_cannot_do():
    result = farpage("top")
    ok(result.returncode == 1 and "terminal" in result.stderr and "farpage status" in result.stderr,
       "top without a terminal names the commands that print once", result.stderr)
    top = Terminal("top", term="no-such-terminal")
    status, error = top.end()
    ok(status == 1 and error.count("\n") == 1 and "terminal" in error, "top refuses an unknown terminal in one line", error)
    refused(farpage("top", "what"), "top refuses an argument", status=2)
    refused(farpage("top", "--interval", "0"), "top refuses an interval of 0", status=2)


def lists_have_columns_to_choose():
    donor = Donor("--donate", "64M", "--slab", "8M").uri
    result = farpage("donors", "--donor", donor, "--output", "free,donor", "--noheadings")
    ok(result.stdout.split() == ["64M", donor], "--output chooses columns and their order, --noheadings leaves out the headings",
       result.stdout)
    result = farpage("donors", "--donor", donor, "--output", "FREE,NAME")
    ok(result.returncode == 2 and '"NAME"' in result.stderr and "DONATED" in result.stderr and result.stderr.count("\n") == 1,
       "--output refuses a column that does not exist, and names those that do", result.stderr)
    refused(farpage("status", "--output", ""), "--output refuses an empty list", status=2)


shows_donors_runs_and_quits()
fits_a_narrow_terminal()
refuses_what_it_cannot_do()
lists_have_columns_to_choose()
done()
