#!/usr/bin/python3
"""guide_command.py DOCUMENT LINE: prints the command of a document that begins with this line, with all of its lines.

Status 1: the document has no such command. So a test that types its commands by this program fails if they and the
document drift apart.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "func/docs"))
from documents import Document

commands = {text for _, text in Document(Path(sys.argv[1])).commands if text.split("\n")[0] == sys.argv[2]}
if len(commands) != 1:
    sys.exit(f"guide_command: {sys.argv[1]} has {len(commands)} commands that begin with: {sys.argv[2]}")
print(commands.pop())
