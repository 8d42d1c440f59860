# A long sample after 307 steps; the error of the launcher is a consequence.
$PLIMSOLL explain fixtures/logs/late.log
