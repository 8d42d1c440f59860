# Reserved memory that grows until the card is full: one measure for what is needed now, by the smallest candidate and
# with a change; the margin is the reason only where the figures say so, and --margin 0 is offered only where it helps.
cp fixtures/seed0/start_baseline.sh fixtures/seed0/train_baseline.py . && cp -r fixtures/seed0/config .
plan() { echo "== $*" && $PLIMSOLL plan start_baseline.sh "$@" | sed -n '/^now:/,/^changes$/p'; }
plan --gpu 27GiB --try micro_batch=1
plan --gpu 24G --try micro_batch=1,2
plan --gpu 24G --try micro_batch=1,2 --allow optimizer --margin 0
$PLIMSOLL check start_baseline.sh --gpu 30GiB | grep -A1 "may not fit"
# The row of the ladder that has today's settings needs what they need today.
$PLIMSOLL plan fixtures/seed4/cli/train.py --seq 2048 --gpu 24GiB | grep -E '^now:|^micro_batch|4 x 8 .*unchanged'
