/* Both headers, that of 2011 before libi.h. */
#include <libi/libi_api_std.h>
#include <libi/libi_common.h>
#include <libi/libi_api.h>
#include <libi.h>
#include <stddef.h>

#include "header.h"

bool is_right_before() {
  libi_hosts *hosts = libi_hosts_new();
  bool is_ok = libi_hosts_add_list(hosts, "n[1-2]") == LIBI_RESULT_OK;
  libi_hosts_free(hosts);
  return is_ok && is_right();
}
