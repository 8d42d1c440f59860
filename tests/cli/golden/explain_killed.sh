# Exit status -9 of DeepSpeed: host memory, but nobody says so.
$PLIMSOLL explain fixtures/logs/killed.log
