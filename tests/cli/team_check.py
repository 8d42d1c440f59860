#!/usr/bin/env python3
"""team_check.py PROGRAM: what a team's repository runs: `check --each --elsewhere --sarif`, the hook for pre-commit and the
action for GitHub, as those run them. The last line is "N passed, N failed"."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import yaml

PROGRAM = os.path.realpath(sys.argv[1])
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
WORK = tempfile.mkdtemp()
passed = failed = 0

FITS = """base_model: meta-llama/Llama-3.1-8B
adapter: qlora
load_in_4bit: true
lora_r: 16
lora_alpha: 32
lora_target_linear: true
datasets: [{path: x, type: alpaca}]
micro_batch_size: 1
gradient_accumulation_steps: 4
sequence_len: 1024
gradient_checkpointing: true
optimizer: adamw_bnb_8bit
bf16: true
"""
WRONG = FITS.replace("micro_batch_size: 1", "micro_batch_size: 1  # ünïcode").replace(
    "sequence_len: 1024", "sequence_len: 1024\ngradient_checkpointingg: true").replace("bf16: true", 'fp16: "yess"')
LARGE = FITS.replace("adapter: qlora\nload_in_4bit: true\n", "").replace("lora_", "# lora_")
ARGUMENTS = '{"stage": "sft", "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto",}}'


def check(is_met, text, shown=None):
    global passed, failed
    passed, failed = passed + bool(is_met), failed + (not is_met)
    print("%s %s" % ("ok  " if is_met else "FAIL", text), flush=True)
    if not is_met and shown is not None:
        print(shown)


def environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("HF_", "PLIMSOLL_", "PYTORCH_", "CUDA_", "XDG_", "GIT_", "GITHUB_"))}
    env.update(HOME=WORK, HF_HOME=WORK + "/nowhere", PLIMSOLL_NVML="/nowhere", NO_COLOR="1",
               GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b")
    env.update(more)
    return env


def run(words, cwd, **more):
    done = subprocess.run(words, cwd=cwd, env=environment(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def write(folder, **files):
    for name, text in files.items():
        path = os.path.join(folder, name.replace("__", "/").replace("_yaml", ".yaml").replace("_json", ".json"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def folder(name):
    path = os.path.join(WORK, name)
    os.makedirs(path)
    return path


def problems_of(log, base):
    """What of SARIF 2.1.0 the log breaks: the members that the standard requires, their types and ranges."""
    found = []

    def need(is_met, text):
        if not is_met:
            found.append(text)

    def text_of(message, where):
        need(isinstance(message, dict) and isinstance(message.get("text"), str) and message["text"], where + " has no text")
    need(set(log) <= {"$schema", "version", "runs"} and log.get("version") == "2.1.0", "log")
    need(log["$schema"].endswith("sarif-2.1.0.json"), "schema")
    need(isinstance(log.get("runs"), list) and len(log["runs"]) == 1, "runs")
    for one in log["runs"]:
        need(set(one) <= {"tool", "columnKind", "invocations", "results"}, "members of the run")
        need(one["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints"), "columnKind")
        driver = one["tool"]["driver"]
        need(isinstance(driver.get("name"), str) and re.match(r"\d+\.\d+\.\d+$", driver["version"]), "driver")
        ids = [rule["id"] for rule in driver["rules"]]
        need(len(ids) == len(set(ids)) and ids, "rules are unique")
        for rule in driver["rules"]:
            text_of(rule["shortDescription"], rule["id"])
        for invocation in one["invocations"]:
            need(isinstance(invocation.get("executionSuccessful"), bool), "executionSuccessful")
            for notification in invocation["toolExecutionNotifications"]:
                text_of(notification.get("message"), "notification")
                need(notification.get("level") in ("none", "note", "warning", "error"), "level of a notification")
        for result in one["results"]:
            where = result["ruleId"]
            need(0 <= result["ruleIndex"] < len(ids) and ids[result["ruleIndex"]] == where, "rule of " + where)
            need(result["level"] in ("note", "warning", "error"), "level of " + where)
            text_of(result["message"], where)
            need(len(result["locations"]) == 1, "GitHub wants a location")
            place = result["locations"][0]["physicalLocation"]
            address = place["artifactLocation"]
            parsed = urllib.parse.urlparse(address["uri"])
            need(all(c.isalnum() or c in "-._~/%:" for c in address["uri"]), "address " + address["uri"])
            need(parsed.scheme == ("" if address.get("uriBaseId") else "file"), "base of " + address["uri"])
            path = urllib.parse.unquote(parsed.path)
            path = os.path.join(base, path) if address.get("uriBaseId") else path
            need(os.path.exists(path), path + " does not exist")
            region = place["region"]
            with open(path, "rb") as file:
                data = file.read()
            lines = data.decode().split("\n")
            need(isinstance(region["startLine"], int) and 1 <= region["startLine"] <= len(lines), "line of " + where)
            need(region.get("startColumn", 1) >= 1, "column")
            if "endColumn" in region:
                line = lines[region["startLine"] - 1]
                cut = line[region["startColumn"] - 1:region["endColumn"] - 1]
                there = data[region["byteOffset"]:region["byteOffset"] + region["byteLength"]].decode()
                need(cut and cut == there, "columns of %s: %r, bytes %r" % (where, cut, there))
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def by_rule(log):
    found = {}
    for result in log["runs"][0]["results"]:
        found.setdefault(result["ruleId"], []).append(result)
    return found


def address_of(result):
    return result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


def sarif():
    base = folder("sarif")
    write(base, fits_yaml=FITS, wrong_yaml=WRONG, ds_json=ARGUMENTS, broken_yaml="a: 1\nb: {{ x }\nc: 2\n", compose_yaml="services: {x: {image: y}}\n")
    write(base, **{"with blank__große#1_yaml": LARGE})
    odd = "with blank/große#1.yaml"
    words = [PROGRAM, "check", "--each", "--elsewhere", "--gpu", "24GiB", "--sarif", "f.sarif"]
    status, out, err = run(words + ["fits.yaml"], base)
    log = read(base + "/f.sarif")
    check(status == 0 and problems_of(log, base) == [] and not [r for r in log["runs"][0]["results"] if r["level"] != "note"],
          "a training that fits", (out, err, problems_of(log, base)))
    notes = [n["message"]["text"] for n in log["runs"][0]["invocations"][0]["toolExecutionNotifications"]]
    check(any(note.startswith("fits.yaml: assumes: ") for note in notes), "what is assumed is a notification", notes)
    status, out, err = run(words + ["fits.yaml", "wrong.yaml", odd, "ds.json", "broken.yaml", "compose.yaml"], base)
    log = read(base + "/f.sarif")
    rules = by_rule(log)
    check(problems_of(log, base) == [], "the log is SARIF 2.1.0", problems_of(log, base))
    check(status == 2 and not log["runs"][0]["invocations"][0]["executionSuccessful"], "a file that cannot be read is an error")
    fit = [r for r in rules["fit"] if "does not fit" in r["message"]["text"]]
    check([address_of(r) for r in fit] == ["with%20blank/gro%C3%9Fe%231.yaml"] and fit[0]["level"] == "error"
          and "\nfix: plimsoll plan " in fit[0]["message"]["text"], "a run that does not fit, with what to type", fit)
    key = rules["keys.unknown"][0]
    check(address_of(key) == "wrong.yaml" and key["locations"][0]["physicalLocation"]["region"]["startLine"] == 11, "a key, at its line", key)
    value = rules["values.unreadable"][0]["locations"][0]["physicalLocation"]["region"]
    check(value["startLine"] == 14 and value["startColumn"] == 7 and value["endColumn"] == 13, "a value, at its columns", value)
    comma = rules["text.comma"][0]["locations"][0]["physicalLocation"]["region"]
    check(comma["startLine"] == 1 and ARGUMENTS[comma["startColumn"] - 1] == ",", "a byte, at its column", comma)
    broken = rules["files.unreadable"][0]
    check(address_of(broken) == "broken.yaml" and broken["locations"][0]["physicalLocation"]["region"]["startLine"] >= 2,
          "a file that is not YAML, at the line of the mistake", broken)
    check("compose.yaml: not a training configuration" in out, "other files are skipped", out)
    # Called from a folder below, a file above it has a full address.
    status, out, err = run(words + ["../wrong.yaml"], base + "/with blank")
    log = read(base + "/with blank/f.sarif")
    check(problems_of(log, base + "/with blank") == [] and address_of(log["runs"][0]["results"][0]) == "file://%s/wrong.yaml" % base,
          "a file outside the folder", problems_of(log, base))
    status, out, err = run([PROGRAM, "check", "fits.yaml", "ds.json", "--gpu", "24GiB", "--sarif", "f.sarif"], base)
    check(problems_of(read(base + "/f.sarif"), base) == [], "files of one training", (out, err))
    for path, why in (("fits.yaml", "that is one of the files to check"), ("compose.yaml", "it is not a report of plimsoll check"),
                      ("-", "already goes to standard output"), ("no/where", "No such file")):
        before = read_text(base + "/" + path)
        status, out, err = run(words[:-1] + [path, "fits.yaml"], base)
        check(status == 2 and why in err and read_text(base + "/" + path) == before, "not written: %s" % path, err)


def read_text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def rules_are_listed():
    """Every kind of finding that the sources add is a rule, and every rule is one of those."""
    used = set()
    for name in sorted(os.listdir(ROOT + "/src/app/check")):
        text = read_text(ROOT + "/src/app/check/" + name)
        if name == "check_rules.c" or not name.endswith(".c"):
            continue
        used |= set(re.findall(r'check_add\(\s*c,\s*"([a-z_.]+)"', text))
        used |= set(re.findall(r'\] = \{"(text\.[a-z]+)"', text)) | set(re.findall(r'"(fit\.[a-z_]+)"', text))
    for top, _, names in os.walk(ROOT + "/src"):
        for name in names:
            used |= set(re.findall(r'"(stops\.[a-z_]+)"', read_text(os.path.join(top, name))))
    base = folder("rules")
    run([PROGRAM, "check", "--elsewhere", "--sarif", "f.sarif"], base)
    listed = {rule["id"] for rule in read(base + "/f.sarif")["runs"][0]["tool"]["driver"]["rules"]}
    check(used and listed == used, "the rules are the kinds of findings", (sorted(used - listed), sorted(listed - used)))


def each():
    base = folder("each")
    write(base, fits_yaml=FITS, large_yaml=LARGE, compose_yaml="services: {x: {image: y}}\n")
    words = [PROGRAM, "check", "--each", "--elsewhere", "--gpu", "24GiB"]
    check(run(words + ["fits.yaml", "compose.yaml"], base)[0] == 0, "exit 0 if all fit")
    status, out, err = run(words + ["fits.yaml", "large.yaml"], base)
    check(status == 1 and "\nREADY" in out and "\nNOT READY" in out, "exit 1 if one does not", out)
    status, out, err = run(words + ["nowhere.yaml", "fits.yaml"], base)
    check(status == 2 and "nowhere.yaml does not exist" in err and "\nREADY" in out, "a missing file does not hide the others", (out, err))
    status, out, err = run(words + ["--json", "fits.yaml", "large.yaml", "compose.yaml", "nowhere.yaml"], base)
    checks = json.loads(out)["checks"]
    check([(c["named"], c["is_recognised"], c.get("verdict")) for c in checks] ==
          [("fits.yaml", True, "ready"), ("large.yaml", True, "not_ready"), ("compose.yaml", False, None), ("nowhere.yaml", False, None)]
          and checks[3]["error"]["message"] == "nowhere.yaml does not exist", "as one JSON document", out)
    status, out, err = run(words, base)
    check(status == 2 and "--each needs the files to check" in err, "without files", err)
    status, out, err = run(words + ["fits.yaml", "--command", "python x.py"], base)
    check(status == 2 and "--command cannot apply to all of them" in err, "with --command", err)
    machine = dict(PYTORCH_CUDA_ALLOC_CONF="nonsense", CUDA_VISIBLE_DEVICES="", PLIMSOLL_NVML=os.path.dirname(PROGRAM) + "/libfake_nvml.so")
    _, here, _ = run([PROGRAM, "check", "--each", "fits.yaml"], base, **machine)
    _, away, _ = run([PROGRAM, "check", "--each", "--elsewhere", "fits.yaml"], base, **machine)
    check("nonsense" in here and "host memory" in here and "nonsense" not in away and "host memory" not in away and "GPU 0" not in away
          and "no --gpu was given" in away, "--elsewhere leaves this machine out", away)
    _, out, _ = run([PROGRAM, "check", "--elsewhere", "--json", "fits.yaml"], base, **machine)
    check(json.loads(out)["cards"] is None and set(json.loads(out)["host"].values()) == {None}, "in JSON it is unknown", out)


def hook():
    with open(ROOT + "/.pre-commit-hooks.yaml") as file:
        hooks = yaml.safe_load(file)
    check(len(hooks) == 1 and {"id", "name", "entry", "language"} <= set(hooks[0]) and hooks[0]["id"] == "plimsoll-check",
          "the members that pre-commit requires", hooks)
    hook = hooks[0]
    pattern = re.compile(hook["files"])
    names = ["a.yaml", "conf/a.yml", "a.json", "pyproject.toml", "train.py", "run.sh", "job.sbatch", "a.ipynb", "Dockerfile", "x/Dockerfile.gpu", "Makefile",
             "justfile", ".justfile"]
    others = ["README.md", "a.yaml.bak", "data.csv", "a.c", "notyaml", "myMakefile.txt"]
    check(all(pattern.search(n) for n in names) and not any(pattern.search(n) for n in others), "it takes the files that plimsoll reads",
          [n for n in names if not pattern.search(n)] + [n for n in others if pattern.search(n)])
    base = folder("hook")
    os.makedirs(base + "/bin")
    os.symlink(PROGRAM, base + "/bin/plimsoll")
    write(base, fits_yaml=FITS, large_yaml=LARGE)
    start = hook["entry"].split() + hook["args"] + ["--gpu", "24GiB"]
    path = base + "/bin:" + os.environ["PATH"]
    status, out, _ = run(start + ["fits.yaml"], base, PATH=path)
    check(status == 0, "the hook passes", out)
    status, out, _ = run(start + ["fits.yaml", "large.yaml"], base, PATH=path)
    check(status == 1 and "does not fit" in out, "the hook fails", out)
    write(base, typing_yaml=FITS + "gradient_checkpointingg: true\n")
    status, out, _ = run(start + ["typing.yaml"], base, PATH=path)
    check(status == 1 and "did you mean gradient_checkpointing?" in " ".join(out.split()) and "READY" in out, "a warning stops the commit", out)
    status, out, _ = run([w for w in start if w != "--strict"] + ["typing.yaml"], base, PATH=path)
    check(status == 0, "not without --strict", out)
    write(base, unknown_yaml=FITS.replace("meta-llama/Llama-3.1-8B", "nobody/unknown"))
    status, out, _ = run(start + ["unknown.yaml"], base, PATH=path)
    check(status == 1 and "NOT CHECKED" in out, "a model that is not known stops the commit", out)


def expand(text, values):
    """The expressions of a step: a || b is the first that is not empty."""
    def value(match):
        for name in match.group(1).split("||"):
            if values.get(name.strip()):
                return values[name.strip()]
        return ""
    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def run_action(base, event, **inputs):
    """The steps of action.yml as GitHub runs them: bash -eo pipefail, outputs by file."""
    with open(ROOT + "/action.yml") as file:
        action = yaml.safe_load(file)
    values = {"inputs." + name: row.get("default", "") for name, row in action["inputs"].items()}
    values.update({"inputs." + name: value for name, value in inputs.items()})
    values.update({"github.event." + name: value for name, value in event.items()})
    log = ""
    folder_of_action = os.path.join(WORK, "action's sources")
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"], "a value in the text of a script could be a command"
        output = os.path.join(WORK, "output")
        open(output, "w").close()
        env = {name: expand(value, values) for name, value in step["env"].items()}
        with open(os.path.join(WORK, "step.sh"), "w") as file:
            file.write(step["run"])
        status, out, err = run(["bash", "--noprofile", "--norc", "-eo", "pipefail", file.name], base, GITHUB_OUTPUT=output,
                               GITHUB_ACTION_PATH=folder_of_action, **env)
        log += out + err
        for line in read_text(output).splitlines():
            name, _, value = line.partition("=")
            values["steps.%s.outputs.%s" % (step["id"], name)] = value
        if status:
            break
    return status, log, expand(action["outputs"]["sarif"]["value"], values)


def git(base, *words):
    status, out, err = run(["git", "-C", base, *words], base)
    assert status == 0, err
    return out.strip()


def action():
    base = folder("action")
    git(base, "init", "-q", "-b", "main")
    write(base, old_yaml=LARGE, train_yaml=FITS)
    git(base, "add", "-A")
    git(base, "commit", "-qm", "one")
    first = git(base, "rev-parse", "HEAD")
    write(base, README_md="x")
    git(base, "add", "-A")
    git(base, "commit", "-qm", "two")
    event = {"pull_request.base.sha": first}
    status, log, out = run_action(base, event, program=PROGRAM, gpu="24GiB")
    check(status == 0 and out == "" and "no configuration of a training has changed" in log, "a change of other files", log)
    write(base, **{"new configs__große_yaml": LARGE})
    os.remove(base + "/old.yaml")
    git(base, "add", "-A")
    git(base, "commit", "-qm", "three")
    status, log, out = run_action(base, event, program=PROGRAM, gpu="24GiB")
    found = by_rule(read(base + "/plimsoll.sarif"))
    check(status == 1 and out == "plimsoll.sarif" and [address_of(r) for r in found["fit"]] == ["new%20configs/gro%C3%9Fe.yaml"],
          "only the changed file is checked", log)
    check("train.yaml" not in log, "and no other", log)
    status, log, out = run_action(base, {"before": "HEAD~1"}, program=PROGRAM, sarif="other.sarif")
    check(status == 0 and out == "other.sarif" and os.path.exists(base + "/other.sarif"), "a push, without a GPU", log)
    status, log, out = run_action(base, {}, program=PROGRAM, gpu="24GiB", files="train.yaml\n")
    check(status == 0 and "READY" in log, "files that are given", log)
    write(base, typing_yaml=FITS + "gradient_checkpointingg: true\n")
    for strict, wanted in (("false", 0), ("true", 1)):
        status, log, out = run_action(base, {}, program=PROGRAM, gpu="24GiB", files="typing.yaml", strict=strict)
        check(status == wanted, "warnings with strict: %s" % strict, log)
    status, log, out = run_action(base, {"before": "0" * 40}, program=PROGRAM)
    check(status == 2 and "check out with fetch-depth: 0" in log, "a commit that is not there", log)
    status, log, out = run_action(base, event, program=WORK + "/nowhere")
    check(status == 127, "a program that is not there", log)
    write(folder("action's sources"), Makefile="build:\n\tmkdir -p build\n\tln -s '%s' build/plimsoll\n" % PROGRAM)
    status, log, out = run_action(base, {}, gpu="24GiB", files="train.yaml\n")
    check(status == 0 and "READY" in log, "without a program, the one that make builds beside the action", log)


for test in (sarif, rules_are_listed, each, hook, action):
    test()
shutil.rmtree(WORK)
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
