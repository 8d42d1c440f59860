# Another error: exit code 0, and the error is named.
$PLIMSOLL explain fixtures/logs/other_error.log
