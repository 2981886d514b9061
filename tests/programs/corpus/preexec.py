"""Children that run Python code before they execute another program."""
import os
import subprocess

memory = bytearray(b"x") * (48 << 20)
for number in range(20):
    print(subprocess.run(["echo", str(number)], preexec_fn=os.setpgrp, stdout=subprocess.PIPE, check=True).stdout)
print(sum(memory[::4096]))
