#include "program.h"

int main(int argc, char **argv) { return plimsoll_main(argc, argv); }
