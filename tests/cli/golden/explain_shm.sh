# Shared memory of the data loader.
$PLIMSOLL explain fixtures/logs/shm.log
