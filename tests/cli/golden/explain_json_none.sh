# No out-of-memory error: null where there is no message.
$PLIMSOLL explain fixtures/logs/other_error.log --json
