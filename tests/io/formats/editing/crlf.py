# Written on another system.
MAX_LENGTH = 2048  # tokens
TEXT = """two
lines"""
SETTINGS = {
	"batch": 4,  # per card
	"rate": 1E-4
}
run(
    first=1,
    second="x"  # last
)
LAST = 'no line end'