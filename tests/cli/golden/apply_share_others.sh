# Flags of a command line and LLaMA-Factory's YAML can refer to the new file too; a manual loop cannot.
work=$(mktemp -d) && cp -r fixtures/share "$work/project" && cd "$work/project" || exit 9
for project in flags/launch.sh llamafactory/sft.yaml; do
  $PLIMSOLL plan $project --world 8 --seq 2048 --gpu 48GiB --fix strategy=zero3 --fix offload=parameters --out ../plan.json >/dev/null
  $PLIMSOLL apply ../plan.json --dry-run | grep -E "^[-+]"
done
printf 'batch_size = 4\nsequence_length = 2048\n' > plain.py
$PLIMSOLL plan plain.py --model llama-3.1-8b --world 8 --gpu 48GiB | sed -n '/^to do by hand/,/^unverified/p'
rm -rf "$work"
