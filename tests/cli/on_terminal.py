#!/usr/bin/env python3
"""on_terminal.py COLUMNS LOG PROGRAM ARGS...: runs a program on a terminal of that many columns and passes its
output and exit status on. Writes to LOG, under the command line: lines wider than 80 columns; on a narrower
terminal, words that a wide one shows and this one does not; and the signal that ended the program."""
import fcntl, os, pty, re, struct, subprocess, sys, termios, threading, unicodedata

USUAL = 80
WIDE = 400
PROGRAMS = "plimsoll|python|pip|torchrun|accelerate|deepspeed|llamafactory-cli|tune|sbatch|srun|export|unset|git"
TO_PASTE = re.compile(rf"\s*(help: |fix: )?'?(\w+=\S+ )*({PROGRAMS}) |\s*-->")
DIFF_BEGINS = re.compile(r"changes to your files|diff --git |--- ")
DIFF_LINE = re.compile(r"[-+ @\\]|diff --git |new file |index |changes to your files|$")
BAR = re.compile(r"\[[A-Za-z~|.]{30,}\]")  # as wide as the terminal
UNCHANGED = {"on", "off", "none", "all", "adamw", "unchanged", "default"}  # values that a narrow table omits
CHANGES_FILES = {"apply", "undo"}


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def terminal(columns):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    mode = termios.tcgetattr(theirs)
    mode[1] &= ~termios.OPOST  # line ends as they are written
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    return ours, theirs


def read_all(fd, into):
    while True:
        try:
            chunk = os.read(fd, 65536)
        except OSError:  # the program has ended
            break
        if not chunk:
            break
        into.append(chunk)
    os.close(fd)


def run(columns, command):
    """The exit status, and the outputs of the two streams, each on its own terminal."""
    ends, outputs = [terminal(columns), terminal(columns)], [[], []]
    child = subprocess.Popen(command, stdout=ends[0][1], stderr=ends[1][1])
    readers = [threading.Thread(target=read_all, args=(end[0], into)) for end, into in zip(ends, outputs)]
    for end, reader in zip(ends, readers):
        os.close(end[1])
        reader.start()
    for reader in readers:
        reader.join()
    return child.wait(), [b"".join(o) for o in outputs]


def lines_of(outputs):
    return re.sub(r"\x1b\[[0-9;]*m", "", b"\n".join(outputs).decode("utf-8", "replace")).split("\n")


def prose(lines):
    """All lines except those of diffs and commands to paste."""
    in_diff = False
    for line in lines:
        in_diff = bool(DIFF_BEGINS.match(line) or in_diff and DIFF_LINE.match(line))
        if not in_diff and not TO_PASTE.match(line) and len(line.split()) > 1:
            yield line


def too_wide(lines):
    return [f"{width(line)} columns: {line}" for line in prose(lines) if width(line) > USUAL]


def words_of(lines):
    return {word.strip(",;:") for line in lines for word in line.split() if not BAR.fullmatch(word)}


def lost(narrow, wide):
    """Words that are neither shown nor cut with dots. A narrow ladder omits values that a rung does not change."""
    shown = words_of(narrow)
    cut = tuple({word[:-3] for word in shown if word.endswith("...")})
    return [w for w in words_of(wide) - shown - UNCHANGED if not (cut and w.startswith(cut))]


def findings(columns, command, status, outputs):
    lines = lines_of(outputs)
    if status < 0:
        return [f"ended by signal {-status}"]
    if "--json" in command or command[1:2] in (["man"], ["completion"]) or "chunked_loss" in command:
        return []
    if columns == USUAL:
        return too_wide(lines)
    if CHANGES_FILES & set(command[1:2]):
        return []
    return [f"lost: {word}" for word in lost(lines, lines_of(run(WIDE, command)[1]))]


def main():
    columns, log, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    status, outputs = run(columns, command)
    found = findings(columns, command, status, outputs)
    with open(log, "a") as file:
        file.write(" ".join(["$ plimsoll"] + command[1:]).replace("\n", " ") + "\n" + "".join(f"  {f}\n" for f in found))
    os.write(1, outputs[0])
    os.write(2, outputs[1])
    return status if status >= 0 else 128 - status


sys.exit(main())
