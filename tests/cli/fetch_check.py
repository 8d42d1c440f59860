#!/usr/bin/env python3
"""fetch_check.py PROGRAM: `--fetch` with a hub of our own on this machine, which answers as huggingface.co does, or badly.
The last line is "N passed, N failed"."""
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.path.realpath(sys.argv[1])
WORK = tempfile.mkdtemp()
MOST_SECONDS = 30  # that --fetch waits
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 688,
          "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
          "max_position_embeddings": 2048, "torch_dtype": "bfloat16", "tie_word_embeddings": False}
passed = failed = 0


def check(is_met, text, shown=None):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    if not is_met and shown is not None:
        print(shown)


class Server:
    """Counts and keeps the requests; `answers` are functions by path."""

    def __init__(self):
        self.requests, self.answers = [], {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.requests.append((self.path, dict(self.headers)))
                answer = outer.answers.get(self.path)
                try:
                    answer(self) if answer else send(self, 404, b"", {"X-Error-Code": "RepoNotFound"})
                except (BrokenPipeError, ConnectionResetError):
                    pass

            do_POST = do_HEAD = do_PUT = do_GET

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # clients that leave early are what is tested
        self.url = "http://127.0.0.1:%d" % self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def has(self, model, answer):
        self.answers["/%s/resolve/main/config.json" % model] = answer


def send(handler, status, body, headers=()):
    handler.send_response(status)
    for name, value in dict(headers).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def gives(status=200, body=json.dumps(CONFIG).encode(), **headers):
    return lambda handler: send(handler, status, body, {k.replace("_", "-"): v for k, v in headers.items()})


hub, other, tired = Server(), Server(), Server()
folders = 0


def environment(**more):
    global folders
    folders += 1
    home = "%s/home%d" % (WORK, folders)
    os.makedirs(home)
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "PLIMSOLL_", "XDG_")) and "proxy" not in k.lower()}
    env.update(HOME=home, HF_ENDPOINT=hub.url, PLIMSOLL_NVML="/nowhere", NO_COLOR="1")
    env.update(more)
    return env


def run(words, env, cwd=WORK, prefix=()):
    done = subprocess.run(list(prefix) + [PROGRAM] + words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def estimate(model, *options, **more):
    return run(["estimate", "--model", model, "--gpu", "24GiB", "--seq", "512", *options], environment(**more))


def kept(env):
    cache = env.get("XDG_CACHE_HOME") or env["HOME"] + "/.cache"
    return sorted(os.path.relpath(os.path.join(folder, name), cache) for folder, _, names in os.walk(cache) for name in names)


def refuses(model, why, hint, *options, **more):
    """With --fetch, it stops with these words, and keeps nothing."""
    env = environment(**more)
    status, out = run(["estimate", "--model", model, "--fetch", *options], env)
    text = " ".join(out.split())
    check(status == 2 and why in text and hint in text and not kept(env), "refused: %s" % why, out)


def downloads_once():
    hub.has("team/model", gives())
    env = environment()
    words = ["estimate", "--model", "team/model", "--gpu", "24GiB", "--seq", "512"]
    before = len(hub.requests)
    status, out = run(words, env)
    check(status == 2 and "add --fetch" in out and len(hub.requests) == before, "nothing is asked without --fetch", out)
    status, out = run(words + ["--fetch"], env)
    path, headers = hub.requests[-1]
    check(status == 0 and len(hub.requests) == before + 1, "one request with --fetch", out)
    check(path == "/team/model/resolve/main/config.json" and "Authorization" not in headers
          and headers["User-Agent"].startswith("plimsoll/"), "for the config.json alone", (path, headers))
    check(kept(env) == ["plimsoll/hub/models--team--model/config.json"], "it is kept", kept(env))
    check("uses the config.json of team/model that --fetch downloaded" in " ".join(out.split()), "and said", out)
    check(run(words, env)[0] == 0 and run(words + ["--fetch"], env)[0] == 0 and len(hub.requests) == before + 1,
          "found again without the network")
    cache = WORK + "/cache"
    status, out = run(words + ["--fetch"], environment(XDG_CACHE_HOME=cache))
    check(os.path.exists(cache + "/plimsoll/hub/models--team--model/config.json"), "in XDG_CACHE_HOME", out)


def gives_what_the_file_gives():
    with open(WORK + "/config.json", "w") as file:
        json.dump(CONFIG, file)
    _, by_path = estimate(WORK + "/config.json", "--json")
    _, by_id = estimate("team/model", "--json", "--fetch")
    a, b = ({k: v for k, v in json.loads(text).items() if k.endswith("_bytes")} for text in (by_path, by_id))
    check(a == b and a["peak_reserved_bytes"], "the same prediction as from the file", by_id)


def commands():
    hub.has("team/trained", gives())
    with open(WORK + "/train.py", "w") as file:
        file.write("from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
                   "model = AutoModelForCausalLM.from_pretrained('team/trained')\n"
                   "args = TrainingArguments(output_dir='out', per_device_train_batch_size=4, bf16=True)\n"
                   "Trainer(model=model, args=args, train_dataset=data).train()\n")
    for command in ("plan", "check"):
        env = environment()
        before = len(hub.requests)
        _, out = run([command, "train.py", "--gpu", "24GiB"], env)
        check("--fetch" in out and len(hub.requests) == before, "%s offers --fetch" % command, out)
        status, out = run([command, "train.py", "--gpu", "24GiB", "--fetch"], env)
        check(status in (0, 1) and len(hub.requests) == before + 1 and "is not in the local" not in out,
              "%s --fetch finds the model of a file" % command, out)
    hub.has("team/teacher", gives())
    status, out = estimate("gpt2", "--teacher", "team/teacher", "--fetch")
    check(any(path.startswith("/team/teacher/") for path, _ in hub.requests), "estimate --teacher", out)
    before = len(hub.requests)
    status, out = estimate("qwen2.5-7b", "--fetch")
    check(status == 1 and len(hub.requests) == before, "a known model needs no download", out)
    hub.has("mirror/Llama-3.1-8B-Instruct", gives())
    status, out = estimate("mirror/Llama-3.1-8B-Instruct", "--fetch")
    check(status == 0 and len(hub.requests) == before + 1 and "by its name" not in out, "a mirror is asked for its own", out)


def tokens():
    hub.has("team/secret", gives())
    estimate("team/secret", "--fetch", HF_TOKEN="hf_one\n")
    check(hub.requests[-1][1].get("Authorization") == "Bearer hf_one", "the token of HF_TOKEN", hub.requests[-1])
    env = environment()
    os.makedirs(env["HOME"] + "/.cache/huggingface")
    with open(env["HOME"] + "/.cache/huggingface/token", "w") as file:
        file.write("hf_file\n")
    run(["estimate", "--model", "team/secret", "--fetch"], env)
    check(hub.requests[-1][1].get("Authorization") == "Bearer hf_file", "the token of the file", hub.requests[-1])
    shutil.rmtree(env["HOME"] + "/.cache/plimsoll")
    run(["estimate", "--model", "team/secret", "--fetch"], dict(env, HF_HUB_DISABLE_IMPLICIT_TOKEN="1"))
    check("Authorization" not in hub.requests[-1][1], "no token where it is turned off", hub.requests[-1])
    refuses("team/secret", "HF_TOKEN does not contain a token", "", HF_TOKEN="hf_\"\u00e9")
    hidden = "hf_not_shown"
    env = environment(HF_TOKEN=hidden)
    trace = WORK + "/trace"
    if shutil.which("strace"):
        run(["estimate", "--model", "team/secret", "--fetch"], env, prefix=["strace", "-f", "-e", "trace=execve", "-s", "4096", "-o", trace])
        with open(trace) as file:
            text = file.read()
        check('"curl"' in text and hidden not in text and hub.url not in text, "neither token nor address is an argument", text[:2000])


def redirects():
    hub.has("old/name", gives(307, b"", Location="/new/name/resolve/main/config.json"))
    hub.has("new/name", gives())
    status, out = estimate("old/name", "--fetch", HF_TOKEN="hf_one")
    check(status == 0 and hub.requests[-1][1].get("Authorization") == "Bearer hf_one", "a redirect on the hub", out)
    hub.has("team/elsewhere", gives(302, b"", Location=other.url + "/file"))
    other.answers["/file"] = gives()
    status, out = estimate("team/elsewhere", "--fetch", HF_TOKEN="hf_one")
    check(status == 0 and other.requests and "Authorization" not in other.requests[-1][1],
          "a redirect to another server goes without the token", (out, other.requests))
    hub.has("team/round", gives(302, b"", Location="/team/round/resolve/main/config.json"))
    before = len(hub.requests)
    refuses("team/round", "it redirects more than 5 times", "")
    check(len(hub.requests) == before + 6, "and asks no more than that", len(hub.requests) - before)
    hub.has("team/open", gives(302, b"", Location="http://example.org/config.json"))
    refuses("team/open", "it redirects to http://example.org/config.json, which is not a secure address", "")
    hub.has("team/file", gives(302, b"", Location="file:///etc/passwd"))
    refuses("team/file", "not a secure address", "")


def refusals():
    access = "set HF_TOKEN to it"
    hub.has("team/gated", gives(401, b"no", X_Error_Code="GatedRepo"))
    refuses("team/gated", "team/gated is a gated model", "ask for access at %s/team/gated" % hub.url)
    hub.has("team/closed", gives(403, b"no", X_Error_Code="GatedRepo"))
    refuses("team/closed", "has not granted the owner of your token access to it", access, HF_TOKEN="hf_one")
    hub.has("team/private", gives(401, b"no", X_Error_Code="RepoNotFound"))
    refuses("team/private", "it is private or gated, or there is no model of that name", access)
    refuses("team/nothing", 'there is no model "team/nothing"', "check the name")
    hub.has("team/adapter", gives(404, b"", X_Error_Code="EntryNotFound"))
    refuses("team/adapter", "has no config.json", "give its base model with --model")
    hub.has("team/busy", gives(429, b""))
    refuses("team/busy", "answered with status 429: too many requests", "try again later")
    hub.has("team/broken", gives(500, b""))
    refuses("team/broken", "answered with status 500", "try again later")
    hub.has("team/page", gives(200, b"<!doctype html><html>log in</html>"))
    refuses("team/page", "answered with a web page instead of the config.json of team/page", "login page")
    hub.has("team/cut", gives(200, b'{"model_type": "llama", '))
    refuses("team/cut", "the config.json of team/cut", "this is not valid JSON")
    hub.has("team/list", gives(200, b"[1]"))
    refuses("team/list", "it must be a JSON object", "")
    hub.has("team/large", gives(200, b" " * (4 << 20) + b"{}"))
    refuses("team/large", "its answer is too large", "")

    def endless(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
    hub.has("team/endless", endless)
    refuses("team/endless", "its answer is too large", "")

    def header(handler):
        handler.send_response(200)
        for i in range(2000):
            handler.send_header("X-%d" % i, "x" * 1000)
        handler.end_headers()
    hub.has("team/header", header)
    refuses("team/header", "could not be asked", "")

    def truncated(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(json.dumps(CONFIG).encode())
        handler.close_connection = True
        handler.wfile.flush()
        handler.connection.shutdown(2)
    hub.has("team/truncated", truncated)
    refuses("team/truncated", "the connection ended before the answer was complete", "check the network")

    def silent(handler):
        handler.connection.shutdown(2)
    hub.has("team/silent", silent)
    refuses("team/silent", "it closed the connection without an answer", "")
    hub.has("team/strange", gives(200, json.dumps({"model_type": "from_the_future", "hidden_size": 8}).encode()))
    status, out = estimate("team/strange", "--fetch")
    check(status == 2 and "from_the_future" in out, "an architecture that is not supported", out)


def environments():
    refuses("team/model", "could not be asked: its host does not accept connections", "check the network",
            HF_ENDPOINT="http://127.0.0.1:9")
    refuses("team/model", "could not be asked: its host was not found", "check the network",
            HF_ENDPOINT="https://no-such-host.invalid")
    for endpoint in ("http://example.org", "https://user:pw@example.org", "ftp://127.0.0.1", "nonsense", "https://a/?b"):
        refuses("team/model", 'HF_ENDPOINT is "%s", which is not an address' % endpoint, "unset HF_ENDPOINT", HF_ENDPOINT=endpoint)
    refuses("team/model", "HF_HUB_OFFLINE=1 forbids it", "unset HF_HUB_OFFLINE", HF_HUB_OFFLINE="1")
    refuses("team/model", "curl cannot be started: it is not installed", "apt-get install curl", PATH="/nowhere")
    refuses("team/model", "neither HOME nor XDG_CACHE_HOME is a path", "", XDG_CACHE_HOME="relative")
    before = len(hub.requests)
    for name in ("../../etc/passwd", "team/../x", "team/model/../../x", "a/b/c", "team/mo del", "team/.hidden", "x" * 300 + "/y",
                 "team/model?x=1", "team/model#x", "https://huggingface.co/team/model", "./team/model"):
        status, out = estimate(name, "--fetch")
        check(status == 2 and len(hub.requests) == before, "not an id: %s" % name[:40], out)


def proxies():
    hub.has("team/direct", gives())
    status, out = estimate("team/direct", "--fetch", http_proxy=other.url, all_proxy=other.url)
    check(status == 0, "this machine is asked without a proxy", out)


def slow_server():
    def slow(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        for _ in range(400):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)
    tired.has("team/slow", slow)
    env = environment(HF_ENDPOINT=tired.url)
    began = time.monotonic()
    status, out = run(["estimate", "--model", "team/slow", "--fetch"], env)
    took = time.monotonic() - began
    check(status == 2 and "it did not answer within %d seconds" % MOST_SECONDS in out and not kept(env), "a slow server", out)
    check(took < MOST_SECONDS + 15, "is not waited for any longer", took)


def sends_nothing():
    """No command opens a socket of the network by itself."""
    if not shutil.which("strace"):
        return
    trace = WORK + "/sockets"
    for words in (["estimate", "--model", "team/unknown"], ["plan", "train.py", "--gpu", "24GiB"], ["check", "train.py"]):
        run(words, environment(), prefix=["strace", "-f", "-e", "trace=socket,connect,execve", "-o", trace])
        with open(trace) as file:
            lines = [line for line in file if "AF_INET" in line or ("execve" in line and "curl" in line)]
        check(not lines, "nothing is sent: %s" % " ".join(words), lines)


slow = threading.Thread(target=slow_server)
slow.start()
for test in (downloads_once, gives_what_the_file_gives, commands, tokens, redirects, refusals, environments, proxies, sends_nothing):
    test()
slow.join()
shutil.rmtree(WORK)
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
