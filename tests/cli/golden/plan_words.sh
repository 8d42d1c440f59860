# What a reader must not have to guess: what does not fit and why, what a row differs in, how long and how fast.
verdict() { sed -n '/^now:/,/^$/p'; }
(
part loading
# Loading does not fit while the step would: its size, and how to load in parts; which then fits.
$PLIMSOLL plan -m llama-3.1-70b -b 1 -g 24GiB | verdict
$PLIMSOLL plan -m llama-3.1-70b -b 1 -g 24GiB --load sharded | grep '^planned'
$PLIMSOLL plan -m llama-3.1-70b -b 1 -g 24GiB --world 8 --strategy zero3 --load device-map | verdict
$PLIMSOLL estimate -m llama-3.1-70b --strategy zero3 --offload parameters -c -g 24GiB | grep -E '^(DOES|loading| .*total)'
) 2>&1 || echo "exit $?"
(
part margin
# Below the limit and still refused: by which margin, the estimate's or the one that was typed.
$PLIMSOLL plan -m gpt2 -b 1 -s 512 -g 2.095GiB | verdict
$PLIMSOLL plan -m gpt2 -b 1 -s 512 -g 2.2GiB --margin 8% | sed -n '/^NO SAFE/,$p'
$PLIMSOLL plan -m gpt2 -b 1 -s 512 -g 3.65GiB | sed -n '/^now:/,/^planned/p'
$PLIMSOLL estimate -m gpt2 -b 1 -s 512 -g 3.65GiB | grep '^FITS'
) 2>&1 || echo "exit $?"
(
part seed4
# No fallback twice; what is set now in full.
cd fixtures/seed4 && $PLIMSOLL plan Dockerfile.training --gpu 24GiB | sed -n '/^changes$/,/^budget/p; /^the plan (row 1) and fallbacks/,/^$/p'
) 2>&1 || echo "exit $?"
(
part room
# What fits today needs no change to fit: the change makes room for a faster one.
$PLIMSOLL plan -m qwen2.5-0.5b -b 1 -a 8 -g 24GiB | sed -n '/^now:/,/^each/p'
) 2>&1 || echo "exit $?"
(
part any_batch
# Steps of different batches do not compare: tokens per second do. The data that the steps are counted from.
$PLIMSOLL plan -m qwen2.5-0.5b -b 8 --effective-batch any -g 24GiB --samples 50000 | sed -n '/^planned/,/^each/p; /steps,/p'
) 2>&1 || echo "exit $?"
(
part length
# The length that is planned, fixed or chosen.
plan() { $PLIMSOLL plan -m gpt2 -b 1 -g 24GiB "$@" | sed -n '/^assumes/,/^now/p'; }
plan --fix sequence=512
plan -s 1024 --fix sequence=512
) 2>&1 || echo "exit $?"
(
part values
# The values that a knob has, the one that was meant, and the knobs that no plan changes.
for mistake in "--fix liger=maybe" "--fix optimizer=adam" "--fix micro_batch=0" "--fix chunked_loss=on" "--try lora_rank=x" \
  "--fix workers=2" "--allow workers" "--try world=2,4"; do
  $PLIMSOLL plan -m gpt2 -g 24GiB $mistake
done
# One word for a loss that is not chunked, and for allocator settings that stay.
$PLIMSOLL plan -m gpt2 -g 24GiB --fix chunked_loss=off --fix cached_batch=off --fix alloc_conf=unchanged --json |
  python3 -c 'import json, sys; c = json.load(sys.stdin)["chosen"]; print(c["chunked_loss"], repr(c["alloc_conf"]))'
) 2>&1 || echo "exit $?"
