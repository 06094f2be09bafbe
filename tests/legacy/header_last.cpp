/* Both headers, that of 2011 behind libi.h. */
#include <libi.h>
#include <libi/libi_api.h>
#include <stddef.h>

#include "header.h"

bool is_right_before();

int main() {
  libi_hosts *hosts = libi_hosts_new();
  bool is_ok = libi_hosts_add_list(hosts, "n[1-2]") == LIBI_RESULT_OK &&
      libi_result_text(LIBI_RESULT_OK) != NULL;
  libi_hosts_free(hosts);
  return is_ok && is_right() && is_right_before() ? 0 : 1;
}
