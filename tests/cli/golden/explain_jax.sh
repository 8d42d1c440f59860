# JAX, with the parts of the program.
$PLIMSOLL explain fixtures/logs/jax.log
