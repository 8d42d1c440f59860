# For every rung that is written, its own manual steps and its own launch command are printed.
cat >train.py <<'S'
import torch
from transformers import AutoModelForCausalLM

BATCH_SIZE = 16
GRAD_ACC = 4
SEQ_LEN = 1024

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
S
echo "== refused: the lines to paste, and a command that can be typed"
$PLIMSOLL plan train.py --gpu "12 GiB" --fix micro_batch=4 --fix checkpoint=off --fix optimizer=adamw-foreach --fix alloc_conf=default --out p.json >/dev/null
$PLIMSOLL apply p.json 2>&1
again=$($PLIMSOLL apply p.json 2>&1 | sed -n 's/^  plimsoll plan /plan /p')
echo "typed again: $again"
eval "$PLIMSOLL $again" 2>&1 | grep -E "^error|now:|planned:"
echo "== done by hand: what is done is not said again"
$PLIMSOLL apply p.json --done chunked_loss 2>&1 | grep -c use_chunked_loss
$PLIMSOLL undo >/dev/null
echo "== a plan that was saved before it carried such lines"
cat >old.json <<'S'
{"format_version": 1,"ladder": [{"micro_batch": 4,"accumulate": 16,"precision": "none","dtype": "bf16","checkpoint": false,"chunked_loss": 512,"liger": false,"alloc_conf": "","optimizer": "adamw-foreach","attention": "sdpa","strategy": "none","offload": "none","sequence": 1024,"lora_rank": 0,"quantisation": "plain","effective_batch": 64,"estimate": {"fits": true,"peak_allocated_bytes": 10926836736,"peak_reserved_bytes": 11836325888,"loaded_bytes": 996322304,"context_bytes": 807403520,"device_bytes": 12643729408,"budget_bytes": 12884901888,"interval_bytes": [12580510760,12706948055],"host_bytes": 0,"step_seconds": 1.3688711600892323,"tokens_per_second": 47875.94472786462,"peak_at": {"step": 2,"phase": "backward","is_recomputed": false,"layer": null,"what": "log_softmax"},
"runs_out_at": null,"components": {"weights": 988065792,"adapters": 0,"gradients": 988065536,"optimizer": 1976131072,"activations": 5665800584,"logits": 1220462568,"workspace": 68157440,"fragmentation": 929642896,"context": 807403520},
"runs_math_attention": false,"retries": 1,"unverified": [],"params": 494032768,"trainable": 494032768}}],"files": [{"path": "train.py","bytes": 259,"sha256": "2dc7a76e85cf8e8adad153064fe91e86b77bd496a64ca027c7f4a1368e764c06","dialect": "home-made"}],"set": [],"rungs": [{"writes": [{"knob": "micro_batch","value": 4},
{"knob": "accumulate","value": 16}],"creates": [],"by_hand": [{"knob": "chunked_loss","value": 512,"reason": "nothing in these files sets chunked_loss, and there is no sure place for it; say where it is: --set chunked_loss=FILE:KEY"}],"as_written": {"fits": false,"device_bytes": 21500002304}}],"applies_sha256": "2aecc0674409c5962a9d5b0a99fe24c698f2603f3fd0fbc0864210bf2266325c"}
S
$PLIMSOLL apply old.json 2>&1
$PLIMSOLL apply old.json --done chunked_loss
cp -r fixtures/seed0 seed && cd seed && chmod -R u+w .
$PLIMSOLL plan start_baseline.sh --gpu 24564MiB --fix chunked_loss=off --out plan.json >/dev/null
echo "== below the first: an engine that needs a launcher"
for n in 2 3 4 5 6; do
  $PLIMSOLL apply plan.json --rung $n --dry-run 2>&1 >/dev/null | grep -q num_gpus && break
done
$PLIMSOLL apply plan.json --rung $n | grep -A9 "^to do by hand"
