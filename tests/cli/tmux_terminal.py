"""A shell in tmux, for tests of what is seen and typed on a terminal. Waits for what must appear instead of for a time, so that
a busy machine fails nothing."""
import os, re, subprocess, time

DEADLINE = 120  # seconds


def until(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {DEADLINE} s"
        time.sleep(0.05)


def can_open():
    try:
        for end in os.openpty():
            os.close(end)
        return True
    except OSError:
        return False


class Terminal:
    def __init__(self, folder, environment, columns, rows):
        """The folder is for tmux's socket."""
        self.command = ["tmux", "-f", "/dev/null", "-S", f"{folder}/tmux"]
        self.environment = environment
        settings = [word for k, v in environment.items() for word in ("-e", f"{k}={v}")]
        self.tmux("new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(rows), *settings, "bash --norc --noprofile")

    def tmux(self, *words):
        done = subprocess.run(self.command + list(words), capture_output=True, text=True, env=self.environment)
        assert done.returncode == 0, f"tmux {words[0]}: {done.stderr}"
        return done.stdout

    def keys(self, *names):
        self.tmux("send-keys", "-t", "t", *names)

    def type(self, line):
        self.keys("-l", line)
        self.keys("Enter")

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", "-t", "t", *options)

    def wait(self, pattern):
        try:
            until(lambda: re.search(pattern, self.screen(), re.M), f"/{pattern}/")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen()}") from None

    def resize(self, columns, rows):
        self.tmux("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    def is_alternate(self):
        return self.tmux("display-message", "-p", "-t", "t", "#{alternate_on}").strip() == "1"

    def is_restored(self):
        """The shell's screen, a visible cursor, and letters are echoed."""
        if self.is_alternate() or self.tmux("display-message", "-p", "-t", "t", "#{cursor_flag}").strip() != "1":
            return False
        self.type("clear; stty -a | grep -ow -e '-*echo' -e '-*icanon' | paste -sd ,")
        self.wait("^-?icanon,-?echo|^-?echo,-?icanon")
        return not re.search("^.*-(icanon|echo).*$", self.screen(), re.M)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(self.command + ["kill-server"], capture_output=True)
        until(lambda: subprocess.run(self.command + ["ls"], capture_output=True).returncode, "tmux ends")
