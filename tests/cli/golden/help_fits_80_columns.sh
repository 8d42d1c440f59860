# Every line of every help, short and full, on a terminal of any width.
for page in $($PLIMSOLL help --json | sed -n 's/^      "name": "\(.*\)",/\1/p' | sort -u); do
  $PLIMSOLL help "$page" 2>/dev/null && COLUMNS=200 $PLIMSOLL "$page" -h
done | awk 'length > 80 { print "too long: " $0 } END { if (NR < 50) print "only " NR " lines" }'
