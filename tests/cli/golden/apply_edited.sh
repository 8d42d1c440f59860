# A plan that was edited by hand, or a file that is not a plan, is refused with the reason; nothing is written.
work=$(mktemp -d) && cp -r fixtures/seed0 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan start_baseline.sh --gpu 32GiB --fix liger=off --fix chunked_loss=512 --fix micro_batch=8 --fix offload=none --fix strategy=none --fix checkpoint=on --out ../plan.json >/dev/null
# edit CODE: applies the plan after CODE changed it. forge CODE: the same, with a correct digest.
change() {
  python3 -c 'import hashlib, json, re, sys
plan = json.load(open("../plan.json"))
writes = plan["rungs"][0]["writes"]
def write(knob, value, says=True):
    writes[:] = [w for w in writes if w["knob"] != knob] + [{"knob": knob, "value": value}]
    if says: plan["ladder"][0][knob] = value
def digest(plan):
    part = {k: plan.get(k) for k in ("files", "set", "rungs", "ladder")}
    part["ladder"] = [{k: v for k, v in rung.items() if isinstance(v, (int, str))} for rung in part["ladder"]]
    dump = lambda x: "" if x is None else json.dumps(x, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = "".join("\n" + k + " " + dump(v) for k, v in part.items())
    text = re.sub(r"\\u[0-9a-f]{4}", lambda m: "\\u" + m[0][2:].upper(), text)
    return hashlib.sha256(text.encode()).hexdigest()
assert digest(plan) == plan["applies_sha256"]
exec(sys.argv[2])
if sys.argv[1] == "forge": plan["applies_sha256"] = digest(plan)
json.dump(plan, open("../edited.json", "w"))' "$@"
}
edit() { change edit "$1" && $PLIMSOLL apply ../edited.json --done chunked_loss 2>&1 | head -1; }
forge() { change forge "$1" && $PLIMSOLL apply ../edited.json --done chunked_loss 2>&1 | head -1; }
# An edited plan is refused even if it is consistent, and the message says what to do.
edit 'write("accumulate", 7, says=False)'
edit 'write("accumulate", 7)'
edit 'write("micro_batch", 4), write("accumulate", 4)'
edit 'plan["rungs"][0]["writes"] = plan["rungs"][0]["writes"][1:]'
edit 'plan["rungs"][0]["by_hand"] = []'
edit 'plan["rungs"][0]["as_written"]["fits"] = True'
edit 'plan["files"][0]["sha256"] = plan["files"][1]["sha256"]'
edit 'plan["files"].pop()'
edit 'plan["set"] = [{"knob": "sequence", "file": "config/config.py", "key": "MAX_LENGTH"}]'
edit 'plan["rungs"].pop(), plan["ladder"].pop()'
edit 'plan["ladder"][1]["micro_batch"] = 16'
edit 'del plan["applies_sha256"]'
edit 'plan["applies_sha256"] = 7'
change edit 'write("sequence", 16)' && $PLIMSOLL apply ../edited.json
# Even with a forged digest, values that no plan can contain are refused.
edit 'plan["format_version"] = 2'
edit 'del plan["format_version"]'
forge 'write("micro_batch", -5)'
forge 'write("micro_batch", 0)'
forge 'write("micro_batch", 10**15)'
edit 'write("micro_batch", 10**30)'
edit 'write("micro_batch", 1e30)'
forge 'write("optimizer", "sgdd")'
forge 'write("optimizer", "\033[31mred")'
forge 'write("alloc_conf", "a;b")'
forge 'write("workers", 4)'
forge 'writes.append(writes[0])'
forge 'writes.append({"knob": "micro_batch"})'
forge 'writes.append(7)'
forge 'plan["rungs"] = [7]'
forge 'plan["rungs"] = []'
forge 'del plan["rungs"]'
edit 'del plan["ladder"]'
forge 'plan["ladder"] = [{}]; plan["files"] = {}'
forge 'plan["rungs"][0]["as_written"]["device_bytes"] = -1'
git diff --no-index --quiet . "$OLDPWD/fixtures/seed0" && echo "as before"
# Reformatting the JSON is not an edit.
edit 'plan["rungs"][0] = dict(reversed(plan["rungs"][0].items()))' && $PLIMSOLL undo >/dev/null
# Nothing in a plan can control the terminal.
forge 'plan["rungs"][0]["by_hand"][0]["reason"] = "\033]0;title\007 \u009b31m"; plan["rungs"][0]["as_written"]["fits"] = True' >/dev/null
$PLIMSOLL undo >/dev/null
$PLIMSOLL apply ../edited.json | grep -A2 "by hand" && $PLIMSOLL undo >/dev/null
# A dry run refuses the same plans, after the diff, and lists all remaining steps.
$PLIMSOLL apply ../plan.json --dry-run 2>&1 >/dev/null | grep -A1 "^error"
$PLIMSOLL apply ../plan.json --dry-run >/dev/null 2>&1 || echo "exit $?"
rm -rf "$work"
