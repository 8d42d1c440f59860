# --set of more than 511 bytes is read whole.
echo 'batch: 2' >c.yaml
$PLIMSOLL check c.yaml --set micro_batch="$(printf './%.0s' {1..300})c.yaml:batch" --json | grep micro_batch
