# The knobs of a plan with their values.
$PLIMSOLL help knobs
# The Python file that plans mention is the one in the documentation, and is valid.
$PLIMSOLL help chunked_loss | diff - truth/../../docs/chunked_loss.py && echo same
$PLIMSOLL help chunked_loss | python3 -c 'import ast, sys; ast.parse(sys.stdin.read()); print("Python")'
