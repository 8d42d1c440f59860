# What a plan turns, with the values it takes.
$PLIMSOLL help knobs
# The file that plans speak of is that of the documentation, and is Python.
$PLIMSOLL help chunked_loss | diff - truth/../../docs/chunked_loss.py && echo same
$PLIMSOLL help chunked_loss | python3 -c 'import ast, sys; ast.parse(sys.stdin.read()); print("Python")'
