# --set by the end of a path: the exact path first; one of two is a question.
mkdir -p a b && echo 'batch: 2' >a/c.yaml && echo 'batch: 3' >b/c.yaml
$PLIMSOLL check a/c.yaml b/c.yaml --set micro_batch=c.yaml:batch
echo 'batch: 1' >c.yaml
$PLIMSOLL check a/c.yaml c.yaml --set micro_batch=c.yaml:batch --json | grep micro_batch
$PLIMSOLL check a/c.yaml b/c.yaml --set micro_batch="$PWD/b/c.yaml:batch" --json | grep micro_batch
printf 'files:\n  c.yaml: Lightning\n' >plimsoll.yaml && $PLIMSOLL check a/c.yaml b/c.yaml plimsoll.yaml
