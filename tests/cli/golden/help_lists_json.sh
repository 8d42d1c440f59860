# The lists as JSON; and no line of the texts is too long on a terminal of any width.
for list in models families gpus knobs; do
  COLUMNS=200 $PLIMSOLL help $list | awk 'length > 80 { print "too long: " $0 }'
  $PLIMSOLL help $list --json >$list.json
  python3 -c "import json; rows = json.load(open('$list.json'))['$list']; print(len(rows), rows[0])"
done
$PLIMSOLL help version --json
# Every line of every help, short and full, on a terminal of any width.
for page in $($PLIMSOLL help --json | sed -n 's/^      "name": "\(.*\)",/\1/p' | sort -u); do
  $PLIMSOLL help "$page" 2>/dev/null && COLUMNS=200 $PLIMSOLL "$page" -h
done | awk 'length > 80 { print "too long: " $0 } END { if (NR < 50) print "only " NR " lines" }'
