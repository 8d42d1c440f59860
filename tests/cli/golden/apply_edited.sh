# A plan that was edited by hand, or is no plan, is refused with the reason; nothing is written.
work=$(mktemp -d) && cp -r fixtures/seed0 "$work/project" && cd "$work/project" || exit 9
$PLIMSOLL plan start_baseline.sh --gpu 32GiB --fix liger=off --out ../plan.json >/dev/null
edit() {
  python3 -c 'import json, sys
plan = json.load(open("../plan.json"))
writes = plan["rungs"][0]["writes"]
def write(knob, value):
    writes[:] = [w for w in writes if w["knob"] != knob] + [{"knob": knob, "value": value}]
exec(sys.argv[1])
json.dump(plan, open("../edited.json", "w"))' "$1"
  $PLIMSOLL apply ../edited.json --done chunked_loss 2>&1 | head -1
}
edit 'plan["format_version"] = 2'
edit 'del plan["format_version"]'
edit 'write("micro_batch", -5)'
edit 'write("micro_batch", 0)'
edit 'write("micro_batch", 10**15)'
edit 'write("micro_batch", 10**30)'
edit 'write("micro_batch", 1e30)'
edit 'write("accumulate", 7)'
edit 'write("accumulate", 7); plan["ladder"][0]["accumulate"] = 7'
edit 'write("sequence", 16)'
edit 'write("lora_rank", 1)'
edit 'write("optimizer", "sgd")'
edit 'write("optimizer", "\033[31mred"); plan["ladder"][0]["optimizer"] = "\033[31mred"'
edit 'write("alloc_conf", "a;b"); plan["ladder"][0]["alloc_conf"] = "a;b"'
edit 'write("workers", 4)'
edit 'writes.append(writes[0])'
edit 'del plan["rungs"]'
edit 'del plan["ladder"]'
edit 'plan["rungs"][0]["as_written"]["device_bytes"] = -1'
git diff --no-index --quiet . "$OLDPWD/fixtures/seed0" && echo "as before"
# Nothing in a plan steers the terminal.
edit 'plan["rungs"][0]["by_hand"][0]["reason"] = "\033]0;title\007 \u009b31m"; plan["rungs"][0]["as_written"]["fits"] = True' >/dev/null
$PLIMSOLL undo >/dev/null
$PLIMSOLL apply ../edited.json | grep -A2 "by hand" && $PLIMSOLL undo >/dev/null
# What is refused is refused in a dry run, too, behind the diff; all that is left is named.
$PLIMSOLL apply ../plan.json --dry-run 2>&1 >/dev/null | grep -A1 "^error"
$PLIMSOLL apply ../plan.json --dry-run >/dev/null 2>&1 || echo "exit $?"
rm -rf "$work"
