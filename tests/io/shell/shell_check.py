#!/usr/bin/env python3
"""Compares what is read from launch scripts with what bash does.

    shell_check.py DUMP [COUNT [SEED]]

Random scripts are run by bash, with stand-ins for programs that write down their arguments, and read by DUMP. A flag may
be unknown to the reader, or missing, but every value that it reads must be the one that bash passes.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

NAMES = ["A", "B", "C", "D", "E", "G"]
LISTS = ["ARGS", "MORE"]
FLAGS = ["--batch", "--lr", "--steps", "--len"]
PROGRAMS = ["python", "accelerate", "torchrun", "python3"]

# Prints the arguments, each after a unit separator, and a record separator at the end.
STAND_IN = """#!/bin/sh
{ printf 'CUDA_VISIBLE_DEVICES=%s' "$CUDA_VISIBLE_DEVICES"; printf '\\037%s' "$@"; printf '\\036'; } >> "$RECORD"
"""


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.trainings = 0
        self.functions = 0
        self.wildness = self.random.choice([0, 1, 3])  # how many statements change variables

    def pick(self, *choices):
        return self.random.choice(choices)

    def name(self):
        return self.pick(*NAMES)

    def number(self):
        return str(self.random.randint(1, 64))

    def one(self, *templates):
        """One of the templates, with @V and @W replaced by a variable, @N by a number, @L by a list and @F by a flag."""
        template = self.pick(*templates)
        kinds = {"V": lambda v=self.name(): v, "W": self.name, "N": self.number,
                 "L": lambda name=self.pick(*LISTS): name, "F": lambda: self.pick(*FLAGS)}
        return re.sub("@([VWNLF])", lambda hit: kinds[hit.group(1)](), template)

    # ---- words

    def value(self):
        plain = ["@N", "@N", "$@V", "$@V", "\"$@V\"", "${@V}", "\"${@V}\""]
        odd = ["${@V:-@N}", "${@V-@N}", "${@V:+@N}", "${@V%1}", "${@V#1}", "${@V/1/2}", "${@V}0", "x$@V", "$@V$@W",
               "$((@V*2))", "$(( $@V + @N ))", "$((@V+@W))", "$((0@N))", "$((010))", "$((0x1F))", "$((2#101))",
               "$((@V++))", "$((++@V))", "$((-@V))", "$((@N-@N))", "$((@N/@N))", "$((@N%@N))", "$((2**3))",
               "$((-2**2))", "$((@V=@N))", "$((@N<<2))", "$((@N>3?@N:@N))", "$((1<<63))", "$((09))",
               "$((9223372036854775807+1))", "'@N'", "\"@N\"", "'a b'", "\"a b\"", "a\\ b", "$(echo @N)",
               "`echo @N`", "{1,2}", "$'a\\tb'", "\"it's\"", "~", "${@V:=@N}", "${@V^^}", "${#@V}", "${!@V}",
               "${#@L[@]}", "${1:-@N}", "$1", "${@:1}", "$@", "\"$@\"", "$#", "1e-4", "0.1", "True",
               "\"\"", "$(( @V ))", "\"$((@V * @W))\"", "${@V:-$@W}", "${@V:-${@W:-@N}}", "08", "-1"]
        return self.one(*(plain if self.random.random() < 0.7 else odd))

    def flag(self):
        form = self.random.random()
        if form < 0.65:
            return self.one("@F ") + self.value()
        if form < 0.8:
            return self.one("@F=") + self.value()
        return self.one("@F", "$@L", "\"${@L[@]}\"", "${@L[@]}", "\"$@\"", "${@L}", "$@V", "--$@V @N",
                        "$(echo @F @N)", "\"${@L[*]}\"", "${@L[*]}", "'@F' @N", "\"@F\" @N", "\"@F=@N\"", "@F\\\n @N",
                        "--{batch,lr} @N", "\"@F @N\"", "$EXTRA_ARGS")

    def training(self, depth):
        self.trainings += 1
        start = self.pick("python train.py", "python train.py", "torchrun --nproc_per_node 2 train.py",
                          "accelerate launch train.py", "python -u train.py", "python3 train.py")
        words = [start, "--run_name r%d" % self.trainings]
        words += [self.flag() for _ in range(self.random.randint(1, 4))]
        command = self.pick(" ", " ", " \\\n  ").join(words)
        return self.one("", "", "", "", "CUDA_VISIBLE_DEVICES=@N ", "@V=@N ", "env @V=@N ", "nohup ", "time ",
                        "echo @N | xargs ", "command ", "! ") + command + self.pick(
                            "", "", "", "", " > log", " 2>&1", " &\nwait", " | cat", " || true", " && true", " <<< x",
                            " < /dev/null", "; true", " # --batch 3")

    def string_command(self, depth):
        self.trainings += 1
        text = "python train.py --run_name r%d " % self.trainings + self.one(
            "--batch @N", "--batch $@V", "--batch $@V --lr @N", "--batch \\$@V", "--batch=$@V", "--batch '@N'")
        return self.pick("CMD=\"%s\"\n$CMD", "CMD=\"%s\"\neval $CMD", "CMD=\"%s\"\neval \"$CMD\"", "bash -c \"%s\"",
                         "bash -c '%s'", "eval \"%s\"", "eval '%s'", "CMD='%s'\n$CMD", "CMD='%s'\neval $CMD",
                         "CMD=\"%s\"\nCMD=\"$CMD --lr 3\"\n$CMD") % text

    # ---- statements

    def assignment(self, depth):
        return self.one("@V=@N", "@V=@N", "@V=@N", "@V=@N", "@V=\"@N\"", "@V='@N'", "export @V=@N", "@V=$@W",
                        "@V=\"${@W}\"", "@V=${@W:-@N}", "@V=${@V:-@N}", "@V=$((@W * 2))", "export @V=@N @W=$@V",
                        "@V=@N @W=$@V", "readonly @V=@N", "declare @V=@N", "@V=")

    def change(self, depth):
        return self.one(
            "@V=${@W:=@N}", ": ${@V:=@N}", ": \"${@V:=@N}\"", "echo ${@V:=@N} > /dev/null", "@V+=@N", "@V+=0",
            "declare -i @V=@N+1", "@V=$(echo @N)", "@V=`echo @N`", "read @V <<< @N", "read -r @V @W <<< '@N @N'",
            "printf -v @V %d @N", "let @V=@N", "let @V++", "let '@V += 2'", "((@V++))", "((@V += 2))", "((@V=@N))",
            "((++@V))", "(( @V *= 2 )) || true", "echo $((@V++)) > /dev/null", "echo \"$((++@V))\" > /dev/null",
            ": $((@V=@N))", ": $((@V <<= 1))", "cat > /dev/null <<EOF\n$((@V++)) ${@W:=@N}\nEOF",
            "cat > /dev/null <<'EOF'\n$((@V++))\n@V=@N\nEOF", "cat > /dev/null <<-EOF\n\tx\n\tEOF",
            "eval \"@V=@N\"", "eval @V=@N", "eval '@V=@N'", "eval \"export @V=@N\"", "unset @V", "unset @V @W",
            "set -- @N @N", "@V=$1", "@V=${1:-@N}", "@V=${2:-@N}", "shift || true", "IFS=1", "IFS=, read @V @W <<< @N,@N",
            "@V[0]=@N", "@V=(@N @N)", "declare -n REF=@V; REF=@N; unset -n REF", "KEY=@V; printf -v \"$KEY\" @N",
            "KEY=@V; declare \"$KEY=@N\"", "KEY=@V; export \"$KEY=@N\"", "export $(echo @V=@N)",
            "KEY=@V; read \"$KEY\" <<< @N", "trap '@V=@N' DEBUG", "trap 'echo x' EXIT", "source ./vars.sh",
            ". ./vars.sh", "mapfile -t @V <<< @N", "@V=$[@W + 1]", ": $[@V = @N]", "echo @N | read @V || true",
            "@V=@N true", "@V=@N | cat", "@V=@N &\nwait", "true && @V=@N", "false || @V=@N", "false && @V=@N",
            "true || @V=@N", "[ -z \"$@V\" ] && @V=@N", "[[ -z $@V ]] && @V=@N", "if [ -z \"${@V}\" ]; then @V=@N; fi",
            "[ -n \"$@V\" ] && @V=@N", "if [ -z \"$@W\" ]; then @V=@N; fi", "if [ $# -gt 0 ]; then @V=$1; fi",
            "while getopts b: o; do case $o in b) @V=$OPTARG ;; esac; done",
            "while [ $# -gt 9 ]; do case $1 in --v) @V=$2; shift ;; esac; shift; done",
            "for arg in \"$@\"; do case $arg in --v=*) @V=${arg#*=} ;; esac; done",
            "true && @V=@N && @W=$@V", "( @V=@N )", "{ @V=@N; }", "@V=@N; @V=@N", "[[ $@V =~ 1 ]] && @V=@N",
            "local @V=@N 2> /dev/null || true", "command export @V=@N", "builtin eval @V=@N", "exec 3>&1",
            "wait; @V=@N", "function g_@V { @V=@N; }\ng_@V", "echo \"${@V:=@N}\" > /dev/null", "typeset @V=@N",
            "declare -l @V=@N", "@V=\"@N\"'1'", "@V=@N#1", "@V=\\\n@N", "select_@V=@N", "coproc true\nwait",
            "case x in x) @V=@N ;; esac", "for @V in @N @N; do :; done", "for ((@V=0; @V<3; @V++)); do :; done",
            "until true; do @V=@N; done", "while read @V; do :; done <<< @N", "echo $(( @V = @N )) > /dev/null")

    def list(self, depth):
        return self.one("@L=(@F @N)", "@L=(@F $@V)", "@L+=(@F @N)", "@L=\"@F @N\"", "@L=\"@F $@V\"", "@L='@F $@V'",
                        "@L=\"$@L @F @N\"", "@L=\"@F @N $@L\"", "@L+=\" @F @N\"", "@L+=\"@F @N\"", "@L=()", "@L=\"\"",
                        "@L=(\"${@L[@]}\" @F @N)", "MORE=\"$ARGS @F @N\"", "MORE=(\"${ARGS[@]}\" @F @N)", "unset @L",
                        "@L[1]=@N", "[ -n \"$@V\" ] && @L+=\" @F @N\"", "if true; then @L+=(@F @N); fi",
                        "@L=(\"@F @N\")", "@L=(@F @N # @F 3\n)", "@L=$(echo @F @N)", "read -a @L <<< '@F @N'",
                        "for x in @N @N; do @L+=(@F $x); done", "@L=\"a @F @N\"", "export @L=\"@F @N\"")

    def block(self, depth):
        kind = self.random.randint(0, 9)
        body = self.body(depth + 1)
        if kind == 0:
            return self.one("if [ \"$@V\" = @N ]; then\n", "if [ -n \"$@V\" ]; then\n", "if true; then\n",
                            "if ((@V > 3)); then\n") + body + self.pick("", "else\n" + self.body(depth + 1)) + "fi"
        if kind == 1:
            return self.one("case $@V in\n@N|1*) ", "case \"$@V\" in\n\"\") ") + "\n" + body + ";;\n*)\n" + self.body(
                depth + 1) + ";;\nesac"
        if kind == 2:
            return self.one("for @V in @N @N; do\n", "for _ in 1 2; do\n", "for ((i = 0; i < 2; i++)); do\n",
                            "for _ in; do\n") + body + "done"
        if kind == 3:
            return "(\n" + body + ")"
        if kind == 4:
            return "{\n" + body + "}" + self.pick("", " | cat", " && true", " &\nwait")
        if kind == 5:
            return self.pick("true && {\n", "false && {\n", "false || {\n") + body + "}"
        if kind == 6:
            return "if false; then\n" + body + "elif true; then\n" + self.body(depth + 1) + "fi"
        self.functions += 1
        name = "run%d" % self.functions
        local = self.one("", "", "local @V\n", "local @V=@N\n", "local @V=$1\n", "local @V=${1:-@N}\n")
        after = "\n" + self.statement(depth) if self.random.random() < 0.5 else ""
        call = self.one("", name, name, name + " @N", name + " \"$@\"", "@V=@N " + name, name + " &\nwait")
        return name + "() {\n" + local + body + "}" + after + "\n" + call

    def statement(self, depth):
        kinds = [self.assignment] * 6 + [self.change] * self.wildness + [self.list] * 2 + [self.training]
        if depth < 3:
            kinds += [self.block] * 2
        if self.random.random() < 0.05:
            kinds = [self.string_command]
        return self.pick(*kinds)(depth)

    def body(self, depth):
        return "".join(self.statement(depth) + "\n" for _ in range(self.random.randint(1, 3)))

    def script(self):
        lines = [self.statement(0) for _ in range(self.random.randint(1, 7))]
        lines.append(self.training(0))
        return "#!/bin/bash\n" + "\n".join(lines) + "\n"


# ---- bash ----------------------------------------------------------------------------------------------


def run_all(folder, count):
    os.mkdir(folder + "/bin")
    for program in PROGRAMS:
        with open(folder + "/bin/" + program, "w") as out:
            out.write(STAND_IN)
        os.chmod(folder + "/bin/" + program, 0o755)
    with open(folder + "/vars.sh", "w") as out:
        out.write("A=99\nB=98\n")
    loop = "for i in $(seq 0 %d); do RECORD=$PWD/$i.out timeout 5 bash --norc --noprofile $i.sh" % (count - 1)
    environment = {"PATH": folder + "/bin:/usr/bin:/bin", "HOME": folder}
    subprocess.run(["bash", "--norc", "--noprofile", "-c", loop + "; done"], cwd=folder, env=environment,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def calls_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as record:
        return [call.split("\x1f")[1:] for call in record.read().split("\x1e")[:-1]]


def passed(call):
    """The value of the last flag of each name."""
    flags, name = {}, None
    for word in call:
        if word.startswith("--") and word[2:3].isalpha():
            name, _, value = word.partition("=")
            flags[name] = [value] if "=" in word else []
            name = None if "=" in word else name
        elif name and not (word.startswith("-") and word[1:2].isalpha()) and word != "train.py":
            flags[name].append(word)
    return flags


# ---- the reader ----------------------------------------------------------------------------------------


def in_force(flags):
    """The last flag of each name in one command; those with a number after # come later but have no effect."""
    out = {}
    for key, value in flags:
        name, _, number = key.partition("#")
        number = int(number or 1)
        if name not in out or number <= out[name][0]:
            out[name] = (number, value)
    return {name: value for name, (_, value) in out.items()}


def is_same(read, words):
    """More words after the first may be values of the flag, or words of the command."""
    if read is True and not words:
        return True
    if isinstance(read, bool):
        return bool(words) and words[0].lower() in (("true", "yes", "on") if read else ("false", "no", "off"))
    return any(is_same_text(read, text) for text in (" ".join(words), *words[:1]))


def is_same_text(read, text):
    try:
        return float(read) == float(text)
    except ValueError:
        return read == text


def compare(script, commands, calls):
    """Returns the number of known values, the number of all values, and what is wrong."""
    known = total = 0
    wrong = []
    groups = {}
    for group, flags in commands.items():
        forced = in_force(flags)
        if isinstance(forced.get("--run_name"), str):
            groups[forced["--run_name"]] = forced
    for call in calls:
        flags = passed(call)
        group = groups.get(" ".join(flags.get("--run_name", [])), {})
        for name, words in flags.items():
            total += name in FLAGS
            known += name in FLAGS and group.get(name) is not None
        for name, read in group.items():
            if read is not None and not is_same(read, flags.get(name, ["(none)"])):
                wrong.append("%s is read as %r, bash passes %r" % (name, read, flags.get(name)))
    return known, total, wrong


def main():
    dump = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    known = total = failed = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        scripts = [Writer(seed * 1000003 + i).script() for i in range(count)]
        for i, script in enumerate(scripts):
            with open("%s/%d.sh" % (folder, i), "w") as out:
                out.write(script)
        run_all(folder, count)
        files = ["%d.sh" % i for i in range(count)]
        read = subprocess.run([dump] + files, cwd=folder, stdout=subprocess.PIPE, text=True)
        if read.returncode:
            print("%s ends with %d" % (dump, read.returncode))
            return 1
        for i, line in enumerate(read.stdout.splitlines()):
            document = json.loads(line)
            refused += bool(document["error"])
            k, t, wrong = compare(scripts[i], document["commands"], calls_of("%s/%d.out" % (folder, i)))
            known, total = known + k, total + t
            if wrong:
                failed += 1
                if failed <= 5:
                    print("script %d:\n%s%s\n" % (i, scripts[i], "\n".join(wrong)))
    share = known / max(total, 1)
    print("%d scripts, %d refused; %d of %d values known (%.0f %%), %d scripts wrong" %
          (count, refused, known, total, 100 * share, failed))
    bad = failed + (refused > count // 20) + (share < 0.2)
    print("%d passed, %d failed" % (count - failed, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
