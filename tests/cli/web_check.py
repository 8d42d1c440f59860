#!/usr/bin/env python3
"""web_check.py PROGRAM: `plimsoll web` serves the page that is beside the program, to this machine alone."""
import json, os, re, shutil, signal, subprocess, sys, tempfile, urllib.error, urllib.request

WORK = tempfile.mkdtemp()
PAGE = "<!doctype html>\n<title>a page</title>\n" + "x" * 5_000_000


def installed(name, page):
    """A copy of the program in a folder of its own, with the page at a path below that."""
    folder = f"{WORK}/{name}"
    os.makedirs(f"{folder}/bin")
    shutil.copy(os.path.realpath(sys.argv[1]), f"{folder}/bin/plimsoll")
    if page:
        os.makedirs(os.path.dirname(f"{folder}/{page}"), exist_ok=True)
        with open(f"{folder}/{page}", "w") as file:
            file.write(PAGE)
    return f"{folder}/bin/plimsoll"


class Server:
    def __init__(self, program, *words):
        self.child = subprocess.Popen([program, "web", *words], stdout=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.line = self.child.stdout.readline()
        self.address = re.search(r"http://127\.0\.0\.1:\d+/", self.line)[0]

    def get(self, path="", **more):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(self.address + path, **more), timeout=60) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, None, error.read().decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.send_signal(signal.SIGINT)
        assert self.child.wait(60) == -signal.SIGINT, "Ctrl-C ends it"
        self.child.stdout.close()


def the_page_beside_the_program_is_served():
    for at, place in enumerate(["bin/plimsoll.html", "plimsoll.html", "share/plimsoll/plimsoll.html"]):
        with Server(installed(f"place{at}", place)) as server:
            assert server.line == server.address + "\n", server.line
            assert server.get() == (200, "text/html; charset=utf-8", PAGE)


def other_requests_are_refused():
    with Server(installed("refuses", "plimsoll.html"), "--json") as server:
        assert json.loads(server.line)["url"] == server.address
        assert server.get("etc/passwd") == (404, None, "the page is at /\n")
        assert server.get("../bin/plimsoll")[0] == 404
        assert server.get(data=b"x", method="POST")[0] == 405
        assert server.get(headers={"Host": "evil.example"})[0] == 403


def without_a_page_it_says_what_to_do():
    said = subprocess.run([installed("bare", None), "web"], capture_output=True, text=True)
    assert said.returncode == 2 and "plimsoll.html, the page, is not beside" in said.stderr and "make web" in said.stderr, said


def ports_that_cannot_be_had_are_errors():
    program = installed("ports", "plimsoll.html")
    with Server(program) as server:
        port = server.address.split(":")[2].strip("/")
        taken = subprocess.run([program, "web", "--port", port], capture_output=True, text=True)
        assert taken.returncode == 2 and "cannot listen on 127.0.0.1" in taken.stderr and "--port" in taken.stderr, taken
    wrong = subprocess.run([program, "web", "--port", "65536"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "65536 is not a port" in wrong.stderr, wrong


def main():
    tests = [the_page_beside_the_program_is_served, other_requests_are_refused, without_a_page_it_says_what_to_do,
             ports_that_cannot_be_had_are_errors]
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok   {test.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAIL {test.__name__}: {error}")
    shutil.rmtree(WORK)
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
