# What other programs rely on: verdict, how sure, and the kinds of fixes, of every log.
for log in fixtures/logs/*.log; do
  echo "== ${log##*/}"
  $PLIMSOLL explain "$log" --json | grep -E "^  \"(verdict|sure)\"|^      \"kind\""
done
