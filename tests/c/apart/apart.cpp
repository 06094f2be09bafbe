#include "apart.c"
