// The same program, as one of C++.
#include "failing.c"
#include "losses.c"
#include "member.c"
#include "misuse.c"
#include "odd.c"
#include "operations.c"
#include "reductions.c"
#include "together.c"
