# Another process has most of the GPU: the settings of the training are left alone.
$PLIMSOLL explain fixtures/logs/other_process.log
