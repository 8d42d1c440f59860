# A third of the reserved memory is stranded: a smaller batch is not suggested.
$PLIMSOLL explain fixtures/logs/fragmentation.log
