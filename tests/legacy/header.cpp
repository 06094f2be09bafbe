/* The header by itself. */
#include <stddef.h>
#include <libi/libi_api.h>

#include "header.h"

int main() {
  char place[4];
  return is_right() && strlen(strcpy(place, "abc")) == 3 && sizeof(pid_t) && malloc(0) != stderr ? 0 : 1;
}
